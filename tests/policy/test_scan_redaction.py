"""Redaction: it replaces the findings, keeps the structure, and leaves nothing to find."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.model.policy.scanner import OutputAction, ScannerSpec
from interlock.policy.scan import Scanners, redact_secrets
from interlock.policy.scan.document import read, unescaped
from interlock.policy.scan.personal_data import personal_data
from interlock.policy.scan.prompt_injection import prompt_injection
from interlock.policy.scan.secrets import secrets
from tests.policy.corpus import look_alikes, samples

REDACT = Scanners(ScannerSpec(scanner=one, action="redact") for one in ("secrets", "personal_data", "prompt_injection"))
SAMPLES = list(samples())


def redacted(value: Any, scanners: Scanners = REDACT) -> Any:
    scan = scanners.scan(json.dumps(value).encode())
    assert scan.decision is OutputAction.REDACT
    assert scan.redacted is not None
    return json.loads(scan.redacted)


CASES: list[tuple[Any, Any]] = [
    ("mail joe@example.com now", "mail [redacted:email] now"),
    ({"card": 4111111111111111}, {"card": "[redacted:card]"}),
    ([1, "4111 1111 1111 1111", None], [1, "[redacted:card]", None]),
    ({"joe@example.com": 1}, {"[redacted:email]": 1}),
    (
        {"joe@example.com": 1, "ann@example.com": 2, "[redacted:email]": 3},
        {"[redacted:email] (2)": 1, "[redacted:email] (3)": 2, "[redacted:email]": 3},
    ),
    ({"password": "correct horse"}, {"password": "[redacted:password]"}),
    ({"a": {"$secret": "any text"}}, {"a": {"$secret": "[redacted:marked_secret]"}}),
    ({"password": 12345678}, {"password": "[redacted:password]"}),
    ({"password": None, "passwd": {"a": True}, "pwd": []}, None),
    ({"a": [{"bsn": 111222333}]}, {"a": [{"bsn": "[redacted:nl_bsn]"}]}),
    ("ä joe@example.com ö", "ä [redacted:email] ö"),
    ({"\u0000\n\"": "x joe@example.com \U0001f600"}, {"\u0000\n\"": "x [redacted:email] \U0001f600"}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[str(one)[:40] for one, _ in CASES])
def test_redaction_replaces_exactly_the_finding(value: Any, expected: Any) -> None:
    if expected is None:
        assert REDACT.scan(json.dumps(value).encode()).findings == ()
    else:
        assert redacted(value) == expected
        assert redacted({"x": [value]}) == {"x": [expected]}


def test_everything_else_stays_as_it_is() -> None:
    raw = b'{ "n":1.50,"big":123456789012345678901234567890,"n":1e999 , "t":"\\u0041\\/","m":"joe@example.com"}\n'
    assert REDACT.scan(raw).redacted == raw.replace(b"joe@example.com", b"[redacted:email]")


def test_a_repeated_key_hides_nothing() -> None:
    scan = REDACT.scan(b'{"a":"joe@example.com","a":"fine"}')
    assert scan.redacted == b'{"a":"[redacted:email]","a":"fine"}'


def test_an_escape_hides_nothing() -> None:
    scan = REDACT.scan(b'["\\u006aoe\\u0040example.com", "\\ud800"]')
    assert scan.redacted == b'["[redacted:email]", "\\ud800"]'
    assert REDACT.scan(b'["joe@example.com \\ud800"]').redacted == b'["[redacted:email] \\ud800"]'
    tags = json.dumps(["a\U000e0048\U000e0049"]).encode()
    assert REDACT.scan(tags).redacted == b'["a[redacted:invisible_text]"]'


def test_other_text_is_redacted_too() -> None:
    assert REDACT.scan(b"hi joe@example.com \xff", "text/plain").redacted == "hi [redacted:email] \ufffd".encode()


def test_findings_show_neither_the_text_nor_a_key_with_it() -> None:
    scan = REDACT.scan(json.dumps({"joe@example.com": {"a b": ["x", "call +49 30 1234567"]}}).encode())
    assert [(one.kind, one.path, one.start, one.end, one.note) for one in scan.findings] == [
        ("email", '$["[redacted:email]"]', 0, 15, "15 characters"),
        ("phone", '$["[redacted:email]"]["a b"][1]', 5, 19, "14 characters"),
    ]


def test_positions_are_characters() -> None:
    (finding,) = REDACT.scan('{"a":"äöü joe@example.com"}'.encode()).findings
    assert (finding.path, finding.start, finding.end) == ("$.a", 4, 19)


def test_a_finding_that_cannot_be_redacted_quarantines() -> None:
    scan = Scanners([ScannerSpec(scanner="regex", patterns=["[a-z]+"], action="redact")]).scan(b'["abc"]')
    assert (scan.decision, scan.redacted) == (OutputAction.QUARANTINE, None)
    assert [one.kind for one in scan.findings] == ["regex", "not_redactable"]


TEXTS = st.one_of(
    st.sampled_from([one.text for one in SAMPLES]),
    st.sampled_from([one.text for one in look_alikes()]),
    st.text(max_size=12),
)
DOCUMENTS = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.just(4111111111111111)),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(TEXTS, below, max_size=4)),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    """Return a value without its texts; a number may have become one."""
    if isinstance(value, dict):
        return {"object": [shape(one) for one in value.values()]}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return value if isinstance(value, bool | None) else "scalar"


@given(DOCUMENTS)
def test_redacted_json_has_the_same_shape_and_no_finding(value: Any) -> None:
    scan = REDACT.scan(json.dumps(value).encode())
    if not scan.findings:
        assert scan.decision is OutputAction.ALLOW
        return
    assert scan.decision is OutputAction.REDACT
    assert scan.redacted is not None
    assert shape(json.loads(scan.redacted)) == shape(value)
    assert REDACT.scan(scan.redacted).findings == ()


@given(DOCUMENTS, st.sampled_from([None, 0, 9]), st.booleans())
def test_the_prefilter_hides_nothing(value: Any, indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    for detectors in (secrets(), personal_data(), prompt_injection()):
        if any(detectors.find(read(raw).joined)):
            assert detectors.prefilter(raw) or detectors.prefilter(unescaped(raw))


@given(st.lists(st.sampled_from([one for one in SAMPLES if len(one.value) > 6]), min_size=1, max_size=5))
def test_no_found_text_is_left(some: list[Any]) -> None:
    left = json.dumps(redacted([one.text for one in some]))
    assert [one.value for one in some if one.value in left] == []


def matches() -> st.SearchStrategy[str]:
    """Generate texts that pass the pattern of a detector, whatever its check says."""
    every = [one for some in (secrets(), personal_data(), prompt_injection()) for one in some.detectors]
    return st.sampled_from([one.pattern for one in every if r"\x{" not in one.pattern]).flatmap(
        lambda pattern: st.from_regex(re.compile(pattern, re.ASCII))
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(matches())
def test_no_look_alike_breaks_a_check(text: str) -> None:
    REDACT.scan(text.encode("utf-8", "surrogatepass"), "text/plain")
    REDACT.scan(json.dumps({text: text}).encode())
    redact_secrets(text)


@given(st.text())
def test_any_text_is_scanned(text: str) -> None:
    REDACT.scan(text.encode("utf-8", "surrogatepass"), "text/plain")
    redact_secrets(text)


@pytest.mark.parametrize(
    "sample", [one for one in SAMPLES if "_" in one.kind][:: len(SAMPLES) // 40], ids=lambda one: one[0]
)
def test_log_lines_are_redacted(sample: Any) -> None:
    kinds = {one.kind for one in REDACT.scan(json.dumps([sample.text]).encode()).findings if one.scanner == "secrets"}
    assert (f"[redacted:{sample.kind}]" in redact_secrets(sample.text)) == (sample.kind in kinds)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nothing to hide", "nothing to hide"),
        ("login password=hunter22 failed", "login password=[redacted:password] failed"),
        ('{"password": "hunter22", "n": 1}', '{"password": "[redacted:password]", "n": 1}'),
        ("postgres://joe:hunter22@db/app", "postgres://joe:[redacted:connection_password]@db/app"),
        ("password=••• token: [redacted:jwt]", "password=••• token: [redacted:jwt]"),
        ("half \ud800 password=hunter22", "half \ud800 password=[redacted:password]"),
    ],
)
def test_redact_secrets(line: str, expected: str) -> None:
    assert redact_secrets(line) == expected
    assert redact_secrets(expected) == expected

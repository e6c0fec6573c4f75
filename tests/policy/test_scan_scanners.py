"""Each scanner, the decision, and the limits."""

import json
from typing import Any

import pytest

from interlock.error import BadUse
from interlock.model.policy.scanner import OutputAction, ScannerSpec
from interlock.policy.scan import Scan, Scanners, scanners
from interlock.policy.scan.document import MOST_VALUES
from tests.policy.corpus import samples
from tools.scan_rates import rates, table

A = OutputAction


def scan(content: Any, content_type: str = "application/json", **fields: Any) -> Scan:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Scanners([ScannerSpec(**fields)]).scan(raw, content_type)


def kinds(content: Any, **fields: Any) -> list[str]:
    return [one.kind for one in scan(content, **fields).findings]


@pytest.mark.behaviour("OUT-4")
def test_the_rates_on_the_corpus() -> None:
    """The table is part of docs/output-policy.md, too."""
    print(table())  # noqa: T201 - shown by `pytest -s`
    found, total, wrong, _ = rates()
    assert [kind for kind in total if found[kind] < 0.95 * total[kind]] == []
    assert not wrong


@pytest.mark.behaviour("OUT-4")
def test_a_sample_is_found_as_a_value_of_any_json() -> None:
    for kind, value, text in samples():
        assert kind in kinds({"rows": [{"n": 1}, {"text": text}]}, scanner="secrets") + kinds(
            {"x": [text]}, scanner="personal_data"
        ) + kinds([text], scanner="prompt_injection"), value


def test_random_text_after_a_telling_name_is_optional() -> None:
    value = {"api_key": "9f86d081884c7d659a2feaa0c55ad015"}
    assert kinds(value, scanner="secrets") == ["named_secret"]
    assert kinds(value, scanner="secrets", entropy=False) == []


def test_only_the_wanted_kinds_of_personal_data() -> None:
    value = ["joe@example.com", "4111111111111111"]
    assert kinds(value, scanner="personal_data") == ["email", "card"]
    assert kinds(value, scanner="personal_data", kinds=["cards"]) == ["card"]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("4111111111111111", ["card"]),
        ("4111111111111112", []),
        ("9111111111111111", []),
        ("GB82 WEST 1234 5698 7654 32 PLEASE PAY", ["iban"]),
        ("GB82WEST12345698765433", []),
        ("DE89370400440532013000", ["iban"]),
        ("DE8937040044053201300", []),
        ("123-45-6780", ["us_ssn"]),
        ("000-45-6780", []),
        ("666-45-6780", []),
        ("900-45-6780", []),
        ("123-00-6780", []),
        ("123-45-0000", []),
        ("AB123456C", ["uk_nino"]),
        ("GB123456C", []),
        ("86095742719", ["de_steuer_id"]),
        ("86095742718", []),
        ("12345678Z", ["es_dni"]),
        ("12345678A", []),
        ("RSSMRA85T10A562S", ["it_codice_fiscale"]),
        ("RSSMRA85T10A562T", []),
        ("pesel: 44051401359", ["pl_pesel"]),
        ("pesel: 44051401358", []),
        ("811218-9876", ["se_personnummer"]),
        ("811218-9875", []),
        ("111.444.777-35", ["br_cpf"]),
        ("111.444.777-36", []),
        ("111.111.111-11", []),
        ("2 55 08 14 168 025 38", ["fr_nir"]),
        ("2 55 08 14 168 025 39", []),
        ("111222333", []),
        ("bsn 111222333", ["nl_bsn"]),
        ("bsn 111222334", []),
    ],
)
def test_check_digits_of_personal_data(number: str, kind: list[str]) -> None:
    assert kinds([number], scanner="personal_data") == kind


def test_regular_expressions_see_each_value_on_its_own() -> None:
    assert kinds({"a": "PRJ-1", "b": ["x PRJ-2"]}, scanner="regex", patterns=["^PRJ-[0-9]$", "Q"]) == ["regex"]
    assert kinds(["ab", "cd"], scanner="regex", patterns=["b.*c"]) == []
    assert kinds(["ab"], scanner="regex", patterns=[r"\b"]) == []


def test_a_catastrophic_pattern_ends() -> None:
    assert kinds(["a" * 100_000 + "!"], scanner="regex", patterns=["(a+)+$", "(a|aa)+$", "(.*)*x"]) == []


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("This is Internal Only.", {}, 1),
        ("This is Internal Only.", {"ignore_case": False}, 0),
        ("internal only", {"ignore_case": False}, 1),
        ("xinternal only", {}, 0),
        ("C++ and ÜBER", {}, 2),
        ("a.c", {}, 1),
        ("abc", {}, 0),
        ("say \"internal\\u0020only\"", {}, 0),
    ],
)  # fmt: skip
def test_keywords_are_whole_words(text: str, options: dict[str, Any], found: int) -> None:
    words = ["internal only", "c++", "über", "a.c"]
    assert kinds([text], scanner="keywords", words=words, **options) == ["keyword"] * found


def test_a_keyword_may_be_escaped() -> None:
    assert kinds(b'["\\u0049nternal"]', scanner="keywords", words=["internal"]) == ["keyword"]


@pytest.mark.parametrize(("size", "found"), [(99, 0), (100, 0), (101, 1)])
def test_size(size: int, found: int) -> None:
    result = scan(b"x" * size, scanner="size", max=100, action="deny")
    assert len(result.findings) == found
    assert result.decision is (A.DENY if found else A.ALLOW)


@pytest.mark.parametrize(
    ("content_type", "options", "found"),
    [
        ("text/plain", {"allow": ["text/*"]}, 0),
        ("Text/Plain; charset=utf-8", {"allow": ["text/*"]}, 0),
        ("image/png", {"allow": ["text/*", "application/json"]}, 1),
        ("", {"allow": ["text/*"]}, 1),
        ("text/html", {"allow": ["text/*"], "deny": ["text/html"]}, 1),
        ("text/plain", {"deny": ["text/html", "image/*"]}, 0),
    ],
)
def test_content_type(content_type: str, options: dict[str, Any], found: int) -> None:
    assert len(scan(b"x", content_type, scanner="content_type", **options).findings) == found


def test_a_function_of_ones_own() -> None:
    own: dict[str, Any] = {
        "all": lambda text: "x" in text,
        "part": lambda text: [(text.index("ö"), text.index("ö") + 1, "letter")] if "ö" in text else None,
        "wrong": lambda text: [(0, 99, "far")],
        "loud": lambda text: [(0, 1, "the text: " + text)],
    }

    def run(name: str, content: Any) -> Scan:
        spec = ScannerSpec(scanner="python", name=name, action="redact")
        return Scanners([spec], own).scan(json.dumps(content).encode())

    assert run("all", ["x", "y", 5]).redacted == b'["[redacted:all]", "y", 5]'
    part = run("part", ["äöü"])
    assert [(one.kind, one.start, one.end) for one in part.findings] == [("letter", 1, 2)]
    assert json.loads(part.redacted or b"") == ["ä[redacted:letter]ü"]
    for name in ("wrong", "loud"):
        with pytest.raises(BadUse, match=f"{name}: a scanner returns true, false, or a list"):
            run(name, ["abc"])


@pytest.mark.parametrize(
    ("actions", "decision"),
    [
        (["allow"], A.ALLOW),
        (["allow", "redact"], A.REDACT),
        (["redact", "quarantine"], A.QUARANTINE),
        (["deny", "quarantine", "redact", "allow"], A.DENY),
    ],
)
def test_the_strictest_action_of_the_findings_decides(actions: list[Any], decision: OutputAction) -> None:
    specs = [ScannerSpec(scanner="keywords", words=[f"w{at}"], action=one) for at, one in enumerate(actions)]
    every = Scanners([*specs, ScannerSpec(scanner="keywords", words=["absent"], action="deny")])
    result = every.scan(b'["w0 w1 w2 w3"]')
    assert (result.decision, len(result.findings)) == (decision, len(actions))
    assert (result.redacted is not None) == (decision is A.REDACT)


def test_only_findings_to_redact_are_redacted() -> None:
    specs = [ScannerSpec(scanner="keywords", words=["one"], action="allow")]
    specs += [ScannerSpec(scanner="keywords", words=["two"], action="redact")]
    assert Scanners(specs).scan(b'["one two"]').redacted == b'["one [redacted:keyword]"]'


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'""', b"\x00", b"\xff\xfe", b"[1", b'{"a":}', b"]"])
def test_odd_content_is_clean(content: bytes) -> None:
    every: tuple[Any, ...] = ("secrets", "personal_data", "prompt_injection")
    specs = [*(ScannerSpec(scanner=one) for one in every), ScannerSpec(scanner="regex", patterns=["never"])]
    assert Scanners(specs).scan(content, "") == Scan()


def test_depth_costs_no_stack() -> None:
    deep = b"[" * 200_000 + b'{"a":"joe@example.com"}' + b"]" * 200_000
    result = scan(deep, scanner="personal_data", action="redact")
    assert result.redacted == deep.replace(b"joe@example.com", b"[redacted:email]")
    (finding,) = result.findings
    assert finding.path == "$…" + "[0]" * 19 + ".a"


def test_a_result_that_is_not_scanned_whole_is_quarantined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanners, "MOST_BYTES", 100)
    result = scan(b'"' + b"x" * 99 + b'"', scanner="secrets", action="allow")
    assert result.decision is A.QUARANTINE
    assert [(one.kind, one.note) for one in result.findings] == [
        ("too_large", "only the first 100 of 101 bytes were scanned")
    ]
    assert scan(b'"' + b"x" * 98 + b'"', scanner="secrets", action="allow") == Scan()
    assert scan(b"x" * 101, scanner="size", max=200) == Scan()


def test_too_many_findings_quarantine() -> None:
    result = scan(["joe@example.com"] * 1001, scanner="personal_data", action="allow")
    assert (len(result.findings), result.decision) == (1001, A.QUARANTINE)
    assert [one.kind for one in result.findings if one.scanner == "limits"] == ["too_many"]
    assert scan(["joe@example.com"] * 1000, scanner="personal_data", action="allow").decision is A.ALLOW


def test_too_many_values_quarantine() -> None:
    raw = b"[" + b"1," * MOST_VALUES + b'"joe@example.com"]'
    result = scan(raw, scanner="personal_data", action="redact")
    assert result.decision is A.QUARANTINE
    assert sorted(one.kind for one in result.findings) == ["email", "too_large"]


HOSTILE = (
    "password=", "://:", "eyJaaaaaaaa.", "a@b.", "-----BEGIN PRIVATE KEY-----", "<!-- prompt ", "4111 ", "+1 ", "AB12 ",
    "ignore all the ", "<a style=", "\u200b", "bsn ", "\\u0041", '"', "[", '{"a":',
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_content_ends(part: str) -> None:
    every = Scanners(
        ScannerSpec(scanner=one, action="redact") for one in ("secrets", "personal_data", "prompt_injection")
    )
    text = part * (200_000 // len(part))
    for raw in (text.encode(), json.dumps(text).encode()):
        result = every.scan(raw)
        assert result.redacted is None or every.scan(result.redacted).findings == ()

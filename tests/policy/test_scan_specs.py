"""Scanners as documents and Python declare them, and every fault with its place."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.config.documents import Faults, read
from interlock.error import BadConfig, InterlockError, MissingLibrary
from interlock.fields.field import Nested, Several
from interlock.fields.field_types import NotAccepted
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec, load_re2
from interlock.policy.scan import Scanners

pytestmark = pytest.mark.behaviour("OUT-4")

FIELD = Several(Nested(ScannerSpec, "scanner"))


def loaded(text: str, folder: Path) -> tuple[ScannerSpec, ...]:
    file = folder / "policy.yaml"
    file.write_text(text)
    faults = Faults()
    (document,) = read([str(file)], faults)
    try:
        found: tuple[ScannerSpec, ...] = FIELD.check(document.values["scanners"], document.place.at("scanners"))
    except NotAccepted:
        faults.check()
        raise
    return found


def test_every_field_is_read(tmp_path: Path) -> None:
    text = """\
kind: Policy
scanners:
  - secrets
  - {scanner: secrets, action: redact, entropy: false}
  - {scanner: personal_data, kinds: [cards, iban], action: deny}
  - prompt_injection
  - {scanner: regex, patterns: ['PRJ-[0-9]{4}']}
  - {scanner: keywords, words: [internal only, 42], ignore_case: false, action: allow}
  - {scanner: size, max: 1MB}
  - {scanner: content_type, allow: [text/*], deny: [text/html]}
  - {scanner: python, name: ours}
"""
    found = loaded(text, tmp_path)
    assert [one.scanner for one in found] == [ScannerKind.SECRETS, *ScannerKind]
    assert found[0] == ScannerSpec(scanner="secrets", action="quarantine")
    assert found[1] == ScannerSpec(scanner=ScannerKind.SECRETS, action=OutputAction.REDACT, entropy=False)
    assert (found[2].kinds, found[2].action) == (("cards", "iban"), OutputAction.DENY)
    assert (found[5].words, found[5].ignore_case) == (("internal only", "42"), False)
    assert found[6].max == 1_000_000
    assert (found[7].allow, found[7].deny) == (("text/*",), ("text/html",))


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"scanner": "secret"}, "scanner: 'secret' is not one of secrets, personal_data, prompt_injection, regex, "
     "keywords, size, content_type, python; did you mean 'secrets'?"),
    ({"scanner": 5}, "scanner: 5 is not one of secrets"),
    ({"scanner": "secrets", "action": "redcat"}, "action: 'redcat' is not one of allow, redact, quarantine, deny; "
     "did you mean 'redact'?"),
    ({"scanner": "secrets", "entropy": "maybe"}, "entropy: 'maybe' is not true or false"),
    ({"scanner": "secrets", "kinds": ["cards"]}, "kinds: is not an option of secrets, which has entropy"),
    ({"scanner": "prompt_injection", "words": ["x"]}, "words: is not an option of prompt_injection, which has none"),
    ({"scanner": "personal_data", "kinds": ["card"]}, "kinds[0]: 'card' is not one of cards, iban, email"),
    ({"scanner": "personal_data", "kinds": "cards"}, "kinds: 'cards' is not a list of kinds"),
    ({"scanner": "regex"}, "patterns: missing, but required"),
    ({"scanner": "regex", "patterns": []}, "patterns: [] is not a list of at least one regular expression"),
    ({"scanner": "regex", "patterns": ["ok", "(a"]}, "patterns[1]: RE2 refuses the pattern '(a': missing ): (a"),
    ({"scanner": "regex", "patterns": [r"(.)\1"]}, r"patterns[0]: RE2 refuses the pattern '(.)\\1': invalid escape"),
    ({"scanner": "regex", "patterns": ["(?=a)b"]}, "patterns[0]: RE2 refuses the pattern '(?=a)b': invalid perl"),
    ({"scanner": "regex", "patterns": ["x*"]}, "patterns[0]: the pattern 'x*' matches empty text"),
    ({"scanner": "regex", "patterns": [r"a\C"]}, r"patterns[0]: the pattern 'a\\C' uses \C, which may match half"),
    ({"scanner": "regex", "patterns": ["x" * 2001]}, "a regular expression of up to 2,000 characters"),
    ({"scanner": "keywords"}, "words: missing, but required"),
    ({"scanner": "keywords", "words": [" "]}, "words[0]: ' ' is not a word or phrase on one line"),
    ({"scanner": "keywords", "words": ["a\nb"]}, r"words[0]: 'a\nb' is not a word or phrase on one line"),
    ({"scanner": "size"}, "max: missing, but required"),
    ({"scanner": "size", "max": 0}, "max: 0 is not a number of bytes like 512KiB or 32MiB, from 1B to 1TiB"),
    ({"scanner": "size", "max": "big"}, "max: 'big' is not a number of bytes"),
    ({"scanner": "size", "max": 1, "action": "redact"}, "action: 'redact' is not allowed for size; use quarantine"),
    ({"scanner": "content_type"}, "allow: give allow or deny"),
    ({"scanner": "content_type", "allow": ["a b"]}, "allow[0]: 'a b' is not a content type such as text/*"),
    ({"scanner": "content_type", "allow": ["*"], "action": "redact"}, "action: 'redact' is not allowed for content"),
    ({"scanner": "python"}, "name: missing, but required"),
    ({"scanner": "python", "name": "a b"}, "name: 'a b' is not a name of letters"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), FAULTS, ids=[str(one)[:60] for one, _ in FAULTS])
def test_a_fault_names_field_and_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InterlockError) as caught:
        ScannerSpec(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- secretz", "scanners[0].scanner: 'secretz' is not one of"),
        ("- {scanner: secrets, actoin: deny}", "scanners[0].actoin: unknown field; did you mean 'action'?"),
        ("- {scanner: regex, patterns: ['[']}", "scanners[0].patterns[0]: RE2 refuses the pattern '[': missing ]"),
        ("- {action: deny}", "scanners[0].scanner: missing, but required"),
        ("- {scanner: size, max: 1, action: redact}", "scanners[0].action: 'redact' is not allowed for size"),
    ],
)
def test_a_fault_of_a_document_names_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        loaded(f"kind: Policy\nscanners:\n  {text}\n", tmp_path)
    assert f"policy.yaml:3: {message}" in str(caught.value)


def test_an_unknown_function_is_an_error_at_load() -> None:
    with pytest.raises(InterlockError, match=r"'our' is not the name of a function .*; did you mean 'ours'"):
        Scanners([ScannerSpec(scanner="python", name="our")], {"ours": lambda text: None})


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    load_re2.cache_clear()
    with pytest.raises(MissingLibrary, match=r"google-re2 is not installed; .*: pip install 'interlock\[policy\]'$"):
        ScannerSpec(scanner="regex", patterns=["x"])
    load_re2.cache_clear()


def test_the_library_is_imported_only_for_a_scan() -> None:
    program = "import sys, interlock, interlock.policy.scan; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

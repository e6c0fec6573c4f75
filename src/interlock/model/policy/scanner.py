"""Scanners of the output policy, as a document or Python declares them."""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from interlock.error import BadUse, MissingField, MissingLibrary, NotHere, shown
from interlock.fields.field import Checked, doc, refuse_others
from interlock.fields.field_types import WORD, Choice, FieldPath, Size, Text, Texts, Word

LONGEST_PATTERN = 2000
LARGEST = 1024**4


class ScannerKind(StrEnum):
    SECRETS = "secrets"
    PERSONAL_DATA = "personal_data"
    PROMPT_INJECTION = "prompt_injection"
    REGEX = "regex"
    KEYWORDS = "keywords"
    SIZE = "size"
    CONTENT_TYPE = "content_type"
    PYTHON = "python"


class OutputAction(StrEnum):
    """The decision on a result, the mildest first."""

    ALLOW = "allow"
    REDACT = "redact"
    QUARANTINE = "quarantine"
    DENY = "deny"


PERSONAL = ("cards", "iban", "email", "phone", "national_id")

if TYPE_CHECKING:  # as you may give them
    AnyScanner = (
        ScannerKind
        | Literal["secrets", "personal_data", "prompt_injection", "regex", "keywords", "size", "content_type", "python"]
    )
    AnyOutputAction = OutputAction | Literal["allow", "redact", "quarantine", "deny"]
    Names = Sequence[str]
    Bytes = int | str
else:  # as they are kept
    AnyScanner, AnyOutputAction, Names, Bytes = ScannerKind, OutputAction, tuple[str, ...], int


@cache
def load_re2() -> Any:
    """Import RE2, whose regular expressions take linear time."""
    try:
        import re2
    except ImportError as error:
        raise MissingLibrary("scanners", "google-re2", "policy") from error
    return re2


def compile_re2(pattern: str, capture: bool = True, ignore_case: bool = False) -> Any:
    """Return a regular expression for bytes; raise `ValueError` if RE2 refuses it."""
    re2 = load_re2()
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not capture
    options.case_sensitive = not ignore_case
    options.max_mem = 64 << 20
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from error


_ONE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class Pattern(Text):
    """A regular expression that RE2 accepts."""

    def check(self, value: Any, place: FieldPath) -> str:
        pattern = super().check(value, place)
        try:
            matches_nothing = compile_re2(pattern).search(b"") is not None
        except ValueError as error:
            raise BadUse(str(place), f"RE2 refuses the pattern {shown(pattern)}: {error}") from error
        if _ONE_BYTE.search(pattern):
            raise BadUse(str(place), rf"the pattern {shown(pattern)} uses \C, which may match half a character")
        if matches_nothing:
            raise BadUse(str(place), f"the pattern {shown(pattern)} matches empty text, so it would match everywhere")
        return pattern


PATTERN = Pattern(
    r"[^\x00]+",
    f"a regular expression of up to {LONGEST_PATTERN:,} characters",
    accepts=lambda text: len(text) <= LONGEST_PATTERN,
)
KEYWORD = Word(r"[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*", "a word or phrase on one line")
TYPES = Texts(
    Word(r"[\w.+*?/\[\]!-]{1,200}", "a content type such as text/*"), expected="a list of content types", make=tuple
)
PERSONAL_KIND = Word("|".join(PERSONAL), f"one of {', '.join(PERSONAL)}")

K = ScannerKind
OPTIONS: dict[ScannerKind, tuple[str, ...]] = {
    K.SECRETS: ("entropy",),
    K.PERSONAL_DATA: ("kinds",),
    K.PROMPT_INJECTION: (),
    K.REGEX: ("patterns",),
    K.KEYWORDS: ("words", "ignore_case"),
    K.SIZE: ("max",),
    K.CONTENT_TYPE: ("allow", "deny"),
    K.PYTHON: ("name",),
}
"""scanner → its options"""
REQUIRED = {K.REGEX: "patterns", K.KEYWORDS: "words", K.SIZE: "max", K.PYTHON: "name"}


class ScannerSpec(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A scanner of results, and the action on its findings."""

    scanner: Annotated[AnyScanner, doc("Scanner: " + ", ".join(f"`{kind}`" for kind in K) + "."), Choice(*K, make=K)]
    action: Annotated[
        AnyOutputAction,
        doc("Action on a finding: `redact` it, `quarantine` or `deny` the result, or `allow` it and only record it."),
        Choice(*OutputAction, make=OutputAction),
    ] = OutputAction.QUARANTINE
    entropy: Annotated[bool, doc("For `secrets`: whether random-looking text after a telling name is a secret.")] = True
    kinds: Annotated[
        Names, doc("For `personal_data`: kinds to look for; by default all."),
        Texts(PERSONAL_KIND, expected="a list of kinds", make=tuple),
    ] = ()  # fmt: skip
    patterns: Annotated[
        Names, doc("For `regex`: regular expressions in the syntax of RE2."),
        Texts(PATTERN, 1, "a list of at least one regular expression", tuple),
    ] = ()  # fmt: skip
    words: Annotated[
        Names, doc("For `keywords`: whole words or phrases."),
        Texts(KEYWORD, 1, "a list of at least one word", tuple),
    ] = ()  # fmt: skip
    ignore_case: Annotated[bool, doc("For `keywords`: whether upper and lower case are the same.")] = True
    max: Annotated[Bytes | None, doc("For `size`: largest result."), Size(1, LARGEST)] = None
    allow: Annotated[Names, doc("For `content_type`: globs of allowed types; any other type is a finding."), TYPES] = ()
    deny: Annotated[Names, doc("For `content_type`: globs of types that are findings."), TYPES] = ()
    name: Annotated[str | None, doc("For `python`: name of a function declared with `@app.scanner`."), WORD] = None

    def check(self) -> None:
        kind = ScannerKind(self.scanner)
        refuse_others(self, kind, OPTIONS[kind], "an option", ("scanner", "action"))
        if (needed := REQUIRED.get(kind)) is not None and not getattr(self, needed):
            raise MissingField(needed)
        if kind is K.CONTENT_TYPE and not self.allow and not self.deny:
            raise BadUse("allow", "give allow or deny")
        if kind in (K.SIZE, K.CONTENT_TYPE) and self.action is OutputAction.REDACT:
            raise NotHere("action", "redact", f"for {kind}", "use quarantine, deny or allow")

"""The output policy: what may come out of a run, and the record of its checks."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.error import BadUse, NotHere, Repeated
from interlock.fields.field import Checked, Nested, Several, doc
from interlock.fields.field_types import JOB_WORD, Size, Span, Texts, Whole, Word
from interlock.fields.json_form import Time
from interlock.model.guard import AnyTime
from interlock.model.job import Sensitivity
from interlock.model.policy.scanner import OutputAction, ScannerSpec
from interlock.model.policy.verdict import LARGEST_OUTPUT

MOST_RULES = 1000
MOST_SCANNERS = 100
MOST_KEPT = 20  # findings that the record of a run keeps

GLOB = Word(r"[^\x00-\x1f]{1,200}", "a name or a glob such as 'billing.*', up to 200 characters")
GLOBS = Texts(GLOB, expected="a list of names or globs", make=tuple)
SENSITIVITIES = Texts(Word("|".join(Sensitivity), f"one of {', '.join(Sensitivity)}"), make=tuple)


class Finding(msgspec.Struct, frozen=True):
    """A place in a result. It never holds the text that was found, because people see it."""

    scanner: Annotated[str, doc("Scanner that found it.")]
    kind: Annotated[str, doc("Kind, such as `card` or `github_token`.")]
    path: Annotated[str, doc("Place such as `$.items[2].name`; empty for plain text, or for the whole result.")]
    start: Annotated[int, doc("First character, in the value at that place.")]
    end: Annotated[int, doc("Character after the last.")]
    note: Annotated[str, doc("Remark.")]


class OutputStatus(StrEnum):
    """What became of the result of a run that was to be checked."""

    PENDING = "pending"  # not scanned yet
    CLEAN = "clean"  # scanned; what was found, if anything, may be shown
    REDACTED = "redacted"
    QUARANTINED = "quarantined"
    SKIPPED = "skipped"  # could not be scanned, and stays


class OutputRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A facet: what the output policy decided about the result of a run."""

    phase: int  # 1: its metadata, before the end; 2: its content
    decision: OutputAction | None  # None if no scan has decided
    at: Time
    rule: str = ""
    reason: str = ""
    findings: tuple[Finding, ...] = ()  # the first of them
    found: int = 0  # how many there are
    took: float = 0.0  # seconds
    released_by: str = ""
    released_at: Time | None = None
    release_reason: str = ""
    status: OutputStatus | None = None  # always given, and so never left out
    lines: int = 0  # log lines that are held back with a quarantined result


class OutputMatch(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """The results that a rule is for; without a condition, all."""

    topics: Annotated[tuple[str, ...], doc("Topics, as names or globs."), GLOBS] = ()
    tenants: Annotated[tuple[str, ...], doc("Tenants, as names or globs."), GLOBS] = ()
    sensitivity: Annotated[tuple[str, ...], doc("Sensitivities of the job."), SENSITIVITIES] = ()
    over: Annotated[int | None, doc("Size that the result exceeds, such as `1MB`."), Size(0, LARGEST_OUTPUT)] = None
    exit_code: Annotated[int | None, doc("Exit code of the program."), Whole(0, 255)] = None


class OutputRule(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """A rule about results. It sees their metadata only."""

    id: Annotated[str, doc("Name of the rule."), JOB_WORD]
    match: Annotated[OutputMatch, doc("Results that it is for.")] = OutputMatch()
    decision: Annotated[OutputAction, doc("`allow`, `quarantine` or `deny`.")]
    reason: Annotated[str, doc("Reason to show."), Word(r"[^\x00-\x1f]{1,500}", "one line of up to 500 characters")] = (
        ""
    )

    def check(self) -> None:
        if self.decision is OutputAction.REDACT:
            raise NotHere("decision", "redact", "in a rule, only in a scanner", "use quarantine or deny")


class FailMode(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class ScanTime(StrEnum):
    BEFORE = "before_success"
    AFTER = "after_success"


class OutputPolicy(Checked, frozen=True, kw_only=True, omit_defaults=True):
    """What may come out of runs."""

    rules: Annotated[
        tuple[OutputRule, ...], doc("Rules about metadata, checked top down before a run succeeds; the first decides."),
        Several(Nested(OutputRule), MOST_RULES),
    ] = ()  # fmt: skip
    scanners: Annotated[
        tuple[ScannerSpec, ...], doc("Scanners of the content."),
        Several(Nested(ScannerSpec, "scanner"), MOST_SCANNERS),
    ] = ()  # fmt: skip
    scan: Annotated[
        ScanTime,
        doc(
            "When to scan: `after_success`, or `before_success`, which shows results and log lines to nobody before. "
            "Needs scanners."
        ),
    ] = ScanTime.AFTER
    timeout: Annotated[AnyTime, doc("Longest time for the scan of one result."), Span("100ms", "30s")] = 30.0

    def check(self) -> None:
        if self.scan is ScanTime.BEFORE and not self.scanners:
            raise BadUse("scan", "needs scanners")
        known: set[str] = set()
        for place, rule in enumerate(self.rules):
            if rule.id in known:
                raise Repeated(f"rules[{place}].id", rule.id, "each rule needs its own id")
            known.add(rule.id)


class Scanned(msgspec.Struct, frozen=True, omit_defaults=True):
    """The scan of one result, and of the log lines that wait with it."""

    run_id: str
    decision: OutputAction
    findings: tuple[Finding, ...] = ()
    found: int = 0
    redacted: bytes | None = None
    took: float = 0.0
    error: str = ""  # why it could not be scanned
    lines: tuple[tuple[int, int, str], ...] = ()  # redacted log lines: attempt, number, text

"""Dead letters: work that could not be done, kept until somebody acts on it."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.record import Columns, Record, RecordFilter
from interlock.model.state import State

LONGEST_ERROR = 2000  # characters of an error in a letter; its run has the rest


class LetterCode(StrEnum):
    """The reason of a dead letter."""

    FAILED = "failed"  # a fatal failure, or no retry left
    TIMEOUT = "timeout"  # past its deadline, or ran too long
    ORPHANED = "orphaned"  # crashed too often
    SAFETY_DENIED = "safety_denied"  # the policy denied it, or a person did
    OUTPUT_QUARANTINED = "output_quarantined"  # the output policy withholds its result
    NO_POOL_MAPPING = "no_pool_mapping"  # no pool takes its topic
    NO_WORKERS = "no_workers"  # no worker could take it
    POOL_OVERLOADED = "pool_overloaded"  # every worker was overloaded for too long
    DISPATCH_FAILED = "dispatch_failed"  # handed out 50 times, and never begun
    SAGA_UNMARSHAL_FAILED = "saga_unmarshal_failed"  # a compensation that could not be made
    POISON = "poison"  # a message of a worker that cannot be read


CODE_OF = {
    State.FAILED: LetterCode.FAILED,
    State.TIMEOUT: LetterCode.TIMEOUT,
    State.ORPHANED: LetterCode.ORPHANED,
    State.DENIED: LetterCode.SAFETY_DENIED,
    State.OUTPUT_QUARANTINED: LetterCode.OUTPUT_QUARANTINED,
}
"""final state with a letter → its code, unless the core gives another"""


class DeadLetter(Record, frozen=True):
    """A letter with the id of its run; a message that cannot be read has an id of its own."""

    kind = "letter"

    at: float
    code: LetterCode
    error: str
    job_id: str = ""  # empty for a message that cannot be read, and so is the tenant
    tenant: str = ""
    replayed_as: str | None = None  # the latest run that replays it
    worker_id: str | None = None  # who sent a message that cannot be read
    raw: bytes | None = None  # beginning of that message
    seq: int = 1  # raised with every update

    @property
    def columns(self) -> Columns:
        run, due_at = self.run_id, None if self.replayed_as is not None else self.at
        return Columns(self.seq, self.tenant, self.job_id, run, run is not None, self.code, self.at, due_at)

    @property
    def run_id(self) -> str | None:
        return None if self.code is LetterCode.POISON else self.id


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted letters: those that match every given field."""

    code: Annotated[LetterCode | None, doc("Only letters with this reason code.")] = None
    job_id: Annotated[str | None, doc("Only letters of this job.")] = None
    tenant: Annotated[str | None, doc("Only letters of this tenant.")] = None
    since: Annotated[Time | None, doc("Only letters since then.")] = None
    until: Annotated[Time | None, doc("Only letters before this time.")] = None
    replayed: Annotated[bool | None, doc("Only letters that were replayed, or only others.")] = None

    @property
    def records(self) -> RecordFilter:
        is_due = None if self.replayed is None else not self.replayed
        since, until = self.since, self.until
        return RecordFilter(
            tenant=self.tenant, job=self.job_id, state=self.code, since=since, until=until, is_due=is_due
        )


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    dropped: Annotated[int, doc("Number of letters dropped.")]
    more: Annotated[bool, doc("`true`: some may be left; repeat the request.")]

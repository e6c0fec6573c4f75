"""Facets: properties of some runs. A new one is a struct and a field here; no table, store or interface changes."""

from typing import Annotated, Any

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.failure import Failure
from interlock.model.guard import Decision, Violation
from interlock.model.job import Priority
from interlock.model.policy.output import OutputRecord, OutputStatus
from interlock.model.policy.verdict import Ruling, RunLimits
from interlock.model.state import State
from interlock.model.workflow import Undo


class Hold(msgspec.Struct, frozen=True):
    """A run that waits until a person releases it."""

    by: str
    at: Time


class Unique(msgspec.Struct, frozen=True):
    """An idempotency key that is free again once its run has ended."""

    while_live: bool = True


class OtherRun(msgspec.Struct, frozen=True):
    run_id: str


class SessionFacet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Its place in its session."""

    options: dict[str, Any] | None = None  # those that the submit gave
    stamp: Time | None = None  # when its message was sent
    place: int = 0  # in the order of arrival in the session
    detached: bool = False  # whether the session was reset after its turn came
    stepped_back: bool = False  # whether it waits again, because it was held after its turn came


PLAIN_SESSION = SessionFacet()


class Collected(msgspec.Struct, frozen=True):
    """The payloads of other runs that this run got, after its own."""

    payloads: int  # a payload that came twice, because its run was retried twice, counts twice; it is handed over once
    bytes: int


class Guarded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The constraints of a run: what was checked, violated and done about it."""

    cleared: bool = False  # whether it has passed, and holds its place among the runs of its job
    checked: int = 0  # constraints checked so far
    violated: int = 0
    actions: int = 0  # actions carried out so far
    failed: int = 0  # those that failed
    violations: tuple[Violation, ...] = ()  # the latest
    answers: dict[str, str] = {}  # constraint that others check → violation, empty if it passed; of this check
    asked: dict[str, str] = {}  # check → run that answers it
    decision: Decision | None = None  # the action under way
    step: int = 0  # number of actions of this violation that were carried out
    since: Time | None = None  # first of the violations that the run waits to end
    late: bool = False


NOT_GUARDED = Guarded()


class CausedBy(msgspec.Struct, frozen=True):
    """The run whose action created this one."""

    run_id: str
    depth: int  # length of the chain of such runs
    check: str = ""  # constraint that this run checks, or action that it carries out, while the other waits


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """The question to a person whether a run may start, and the answer."""

    request: str  # hash of what was asked about
    asked_at: Time
    expires_at: Time
    approved: bool | None = None  # None while nobody has answered
    by: str = ""
    at: Time | None = None
    reason: str = ""


class Judged(msgspec.Struct, frozen=True, omit_defaults=True):
    """The latest verdict of the policy on a run, unless it is a plain `allow`."""

    ruling: Ruling = msgspec.field(name="decision")  # as the API calls it
    rule: str = ""
    reason: str = ""
    policy: str = ""  # digest of the policy
    limits: RunLimits | None = None
    approval: Approval | None = None
    waits: bool = False  # until `due_at`, to be judged again: it is throttled, or the policy was not reachable
    tries: int = 0  # how often in a row the policy was not reachable


class Allowed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The latest verdict of the policy on a run, if it is a plain `allow`."""

    rule: str = ""
    policy: str = ""  # digest of the policy

    @property
    def text(self) -> str:
        return f"{self.policy} {self.rule}"

    @classmethod
    def read(cls, text: str) -> "Allowed":
        policy, _, rule = text.partition(" ")
        return cls(rule, policy)


def seen(judged: Judged) -> str:
    """Return what an approver has seen: the request, and the policy that asked."""
    return "" if judged.approval is None else f"{judged.approval.request}:{judged.policy}"


class GroupJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """The job that the items of a group run."""

    job: str
    max_parallel: int
    undo: Undo | None = None


class StepFacet(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a workflow."""

    number: int  # in the order in which the steps of its workflow began
    items: int | None = None  # of a group: number of items
    undo: Undo | None = None
    completed: int | None = None  # of a succeeded step with `undo`: its place in the order of completion
    done: int | None = None  # of a step that a function asked for: place in the order of completion
    of_each: GroupJob | None = None  # of a group that a function asked for


class Closing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The decided end of a workflow whose steps still stop."""

    state: State
    reason: str
    actor: str
    keeps: tuple[str, ...] = ()  # steps that run to their ends: they follow errors
    compensate: bool = False  # whether the steps that have succeeded are undone
    at: Time = 0.0


class Halted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workflow whose function does not go on: it does not fit the record, or its turns crash or last too long."""

    code: str
    text: str
    at: Time
    step: str = ""  # the first step that differs


class WorkflowFacet(msgspec.Struct, frozen=True, omit_defaults=True):
    closing: Closing | None = None
    begins_with: str | None = None  # step; those before it are taken over from the run that it runs again
    seed: str = ""  # of a function that begins with a step: the run from which its random numbers come
    round: int = 1
    began_at: Time | None = None  # of a round after the first
    seen: int | None = None  # ended steps of the round that a turn got; None before the first turn
    halt: Halted | None = None
    published: dict[str, Any] | None = None
    changes: tuple[str, ...] = ()  # names for which `changed` is true
    waits: dict[str, str] = {}  # step that waits for an event → name of its run; of a function: in this round
    places: dict[str, tuple[int, int | None]] = {}
    """of a function: step that waits for an event → its places in the orders of request and of completion"""
    read_before: dict[str, int] = {}  # event → number of waits for it in earlier rounds
    has_events: bool = False  # whether events came before it began


NO_WORKFLOW = WorkflowFacet()


class Note(msgspec.Struct, frozen=True):
    """A remark on a run that is not a transition, such as a failed try to place it."""

    at: Annotated[Time, doc("Time.")]
    text: Annotated[str, doc("Note.")]


class ProgressInfo(msgspec.Struct, frozen=True):
    percent: Annotated[float, doc("Progress from 0 to 100.")]
    text: Annotated[str, doc("Current activity of the attempt.")]


class Facets(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facets of a run by name, None where it has none. Stored as one value in one column."""

    hold: Hold | None = None
    labels: dict[str, str] | None = None
    unique: Unique | None = None
    priority: Priority | None = None  # if it is not the job's
    session: SessionFacet | None = None
    limit_value: str | None = None  # value that the limit of its job counts
    retry_of: OtherRun | None = None  # ended run that this one runs again
    retried_as: OtherRun | None = None  # latest run that runs this one again
    failure: Failure | None = None
    collected: Collected | None = None
    collapsed_into: OtherRun | None = None  # run that got the payload of this one
    constraints: Guarded | None = None
    caused_by: CausedBy | None = None
    behind: tuple[str, ...] | None = None  # who submitted the runs that this one comes from
    above: tuple[str, ...] | None = None  # runs between its root and its parent, the nearest last
    cascade: bool | None = None  # whether it is cancelled with all runs that it makes
    step: StepFacet | None = None
    workflow: WorkflowFacet | None = None
    policy: Judged | None = None
    output: OutputRecord | None = None
    notes: tuple[Note, ...] | None = None  # the latest, in order
    progress: ProgressInfo | None = None  # latest one of an ended run
    unheard: bool | None = None  # whether an attempt was taken back that may have begun: its worker said nothing

    @property
    def is_unscanned(self) -> bool:
        return self.output is not None and self.output.status is OutputStatus.PENDING

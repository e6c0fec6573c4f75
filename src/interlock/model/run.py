"""A run, its history and its figures, and the filter of runs."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from interlock.fields.field import doc
from interlock.model import facets as f
from interlock.model.failure import Failure
from interlock.model.letter import LetterFilter
from interlock.model.policy.verdict import NO_LIMITS, RunLimits
from interlock.model.state import ENTRY, EXECUTION, TERMINAL, State

SCHEDULE = "schedule"  # its time came
CATCH_UP = "catch_up"  # its time had passed
TRIGGER = "trigger"  # a client triggered it
RETRY = "retry"  # a client ran an ended run again
_BACKFILL = "backfill:"
_RUN = "run "
COMPENSATION = "@comp-"  # in the ids of runs that undo a step; no name of another step begins so
CALL_KEY = "call-"  # prefix of the idempotency keys that clients make up, to repeat one call safely


def name_of_run(run_id: str) -> str:
    """Return the name under which a run asks for another."""
    return _RUN + run_id


def all_submitters(behind: Sequence[str], created_by: str) -> tuple[str, ...]:
    """Return everybody on whose behalf a run is made, the latest last. A run that asked for it stands for its own."""
    if not behind:
        return (created_by,)
    own = () if created_by.startswith(_RUN) else (created_by,)
    return tuple(dict.fromkeys((*behind, *own)))


def backfill(max_parallel: int) -> str:
    """Return the origin of the runs of a backfill, at most `max_parallel` of them live at once."""
    return f"{_BACKFILL}{max_parallel}"


def parallel_of(origin: str | None) -> int | None:
    """Return how many runs of a backfill may be live at once; None for a run of no backfill."""
    if origin is None or not origin.startswith(_BACKFILL):
        return None
    return int(origin.removeprefix(_BACKFILL))


class Now(msgspec.Struct, frozen=True, gc=False):
    """One reading of the clocks: `wall` for records and instants, `elapsed` for spans."""

    wall: float
    elapsed: float


class Run(msgspec.Struct, gc=False):
    """One occurrence of a job. An update writes one group of its fields: see `UPDATES`.

    `payload` is None while it is only in the store; `result` is set when the run ends.
    """

    CONSTANT: ClassVar[int] = 10  # fields, from the first, that never change
    PLAIN: ClassVar[int] = 25  # fields, from the first, that a new run needs when all others have their defaults

    id: str
    job_id: str
    tenant: str
    session: str | None
    idempotency_key: str | None
    created_at: float
    scheduled_at: float
    payload: bytes | None
    delay: float | None  # seconds to wait after the submit; None without a delay, or with an instant to wait for
    created_by: str  # who submitted it; `scheduler` for an occurrence

    deadline_at: float | None
    job_version: str
    lane: str
    state: State
    previous: State | None
    reason: str
    actor: str
    changed_at: float
    seq: int = 0
    attempt: int = 0
    fence: int = 0
    worker_id: str | None = None
    due_at: float | None = None
    origin: str | None = None  # `SCHEDULE`, `CATCH_UP`, `TRIGGER`, `RETRY`, or that of `backfill`; None for a submit
    allowed_by: str | None = None  # the latest verdict of the policy, if it is a plain allow: a text of `Allowed`
    failures: int = 0
    crashes: int = 0
    started_at: float | None = None
    attempt_started_at: float | None = None
    stop: str | None = None
    stop_reason: str | None = None
    stop_actor: str | None = None
    ended_at: float | None = None
    outcome: str | None = None
    exit_code: int | None = None
    heartbeats: int = 0
    has_checkpoint: int = 0  # 0 or 1, as in the store
    parent: str | None = None  # run that made it
    root: str | None = None  # run at the top of its tree; None for a run without a parent
    facets: f.Facets | None = None
    error: str | None = None
    result: bytes | None = None

    @property
    def failure(self) -> Failure | None:
        return None if self.facets is None else self.facets.failure

    @property
    def labels(self) -> dict[str, str]:
        return {} if self.facets is None or self.facets.labels is None else self.facets.labels

    @property
    def notes(self) -> tuple[f.Note, ...]:
        return () if self.facets is None or self.facets.notes is None else self.facets.notes

    @property
    def session_facet(self) -> f.SessionFacet:
        return f.PLAIN_SESSION if self.facets is None or self.facets.session is None else self.facets.session

    @property
    def guarded(self) -> f.Guarded:
        return f.NOT_GUARDED if self.facets is None or self.facets.constraints is None else self.facets.constraints

    @property
    def judged(self) -> f.Judged | None:
        return None if self.facets is None else self.facets.policy

    @property
    def allowed(self) -> f.Allowed | None:
        return None if self.allowed_by is None else f.Allowed.read(self.allowed_by)

    @property
    def submitters(self) -> tuple[str, ...]:
        """Everybody on whose behalf it runs, the latest last."""
        return all_submitters((self.facets and self.facets.behind) or (), self.created_by)

    @property
    def above(self) -> tuple[str, ...]:
        """The runs between its root and its parent, the nearest last."""
        return () if self.facets is None or self.facets.above is None else self.facets.above

    def is_under(self, run_id: str) -> bool:
        """Return whether it is this run, or was made by it, directly or not."""
        return run_id in (self.id, self.parent, self.root) or run_id in self.above

    @property
    def is_step(self) -> bool:
        return self.facets is not None and self.facets.step is not None

    @property
    def is_compensation(self) -> bool:
        """Whether it undoes a step, or is a part of that."""
        return self.is_step and COMPENSATION in self.id

    @property
    def step_facet(self) -> f.StepFacet | None:
        return None if self.facets is None else self.facets.step

    @property
    def workflow_facet(self) -> f.WorkflowFacet:
        return f.NO_WORKFLOW if self.facets is None or self.facets.workflow is None else self.facets.workflow

    @property
    def closing(self) -> f.Closing | None:
        """The decided end of a workflow whose steps still stop."""
        return self.workflow_facet.closing

    @property
    def begins_with(self) -> str | None:
        """The step with which a workflow begins that runs another one again, and took over the steps before it."""
        return self.workflow_facet.begins_with

    @property
    def is_deferred(self) -> bool:
        """Whether a pending run waits for a person, or to be judged again later."""
        return self.is_held or (self.judged is not None and self.judged.waits)

    @property
    def limits(self) -> RunLimits:
        """The limits that the policy puts on it."""
        judged = None if self.facets is None else self.facets.policy
        return NO_LIMITS if judged is None or judged.limits is None else judged.limits

    @property
    def shown_result(self) -> bytes | None:
        """The result, unless it is quarantined and nobody has released it, or is to be scanned before its success."""
        record = None if self.facets is None else self.facets.output
        is_withheld = self.state is State.OUTPUT_QUARANTINED and (record is None or record.released_at is None)
        return None if is_withheld or self.is_held_back else self.result

    @property
    def is_unscanned(self) -> bool:
        return self.facets is not None and self.facets.is_unscanned

    @property
    def is_held_back(self) -> bool:
        """Whether nobody may see its result, log lines and progress before they are scanned. Only a run whose output
        is to be scanned before its success has a record while it is live."""
        return self.ended_at is None and self.facets is not None and self.facets.output is not None

    @property
    def late_since(self) -> float | None:
        """`started_at` under a second name: a span is keyed by its field."""
        return self.started_at

    @property
    def has_collected(self) -> bool:
        """Whether other runs were collapsed into it."""
        return self.facets is not None and self.facets.collected is not None

    @property
    def has_begun(self) -> bool:
        """Whether an attempt has begun, or was lost: that one may not have said so."""
        return self.started_at is not None or self.crashes > 0

    @property
    def may_have_begun(self) -> bool:
        """Whether an attempt has begun, was lost, or was taken back because its worker said nothing about it."""
        return self.has_begun or (self.facets is not None and self.facets.unheard is not None)

    @property
    def is_occurrence(self) -> bool:
        """Whether its schedule created it, in time, late or for a backfill."""
        return self.origin in (SCHEDULE, CATCH_UP) or parallel_of(self.origin) is not None

    @property
    def is_held(self) -> bool:
        return self.facets is not None and self.facets.hold is not None


_STATE = ("lane", "state", "previous", "reason", "actor", "changed_at", "seq")
UPDATES: dict[str, tuple[str, ...]] = {
    "entry": (*_STATE, "attempt", "fence", "worker_id", "due_at"),
    "execution": (
        *_STATE, "due_at", "started_at", "attempt_started_at", "ended_at", "outcome", "exit_code", "heartbeats",
        "error", "result",
    ),
    "facets": ("seq", "facets"),
    "all": Run.__struct_fields__[Run.CONSTANT :],
}  # fmt: skip
"""group → the fields that an update writes. Each has `seq`, which tells an old update from a new one."""
UPDATE_AFTER = dict.fromkeys(ENTRY, "entry") | dict.fromkeys(EXECUTION, "execution")
"""the group that a transition to a state changes, unless it is one that `Consequence.REWRITES`"""


class Transition(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One entry of a run's history."""

    seq: int
    before: State | None
    after: State
    at: float
    attempt: int
    reason: str
    actor: str


def update_id(run_id: str, attempt: int, seq: int) -> str:
    """Return the deterministic id of the update that brought a run to `seq`."""
    return hashlib.blake2b(f"{run_id}\0{attempt}\0{seq}".encode(), digest_size=16).hexdigest()


class RunStats(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    seconds_in: Annotated[dict[State, float], doc("Seconds spent in each state.")]
    transitions: Annotated[int, doc("Transitions.")]
    constraints_checked: Annotated[int, doc("Constraints checked.")]
    constraints_violated: Annotated[int, doc("Constraints violated.")]
    actions_run: Annotated[int, doc("Actions carried out.")]
    actions_failed: Annotated[int, doc("Actions that failed.")]
    attempts: Annotated[int, doc("Attempts.")]
    failures: Annotated[int, doc("Attempts that failed.")]
    crashes: Annotated[int, doc("Attempts lost with their process or worker.")]
    heartbeats: Annotated[int, doc("Signs of life received from workers.")]
    start_latency: Annotated[float | None, doc("Seconds from when the run was due to its start.")]
    exit_code: Annotated[int | None, doc("Exit code of the process, if it had one.")]
    outcome: Annotated[str | None, doc("Outcome of the latest attempt.")]


def stats_of(run: Run, history: list[Transition], now: float) -> RunStats:
    """Return the figures of a run, up to its end or to `now`."""
    spent: dict[State, float] = {}
    ends = [entry.at for entry in history[1:]] + [run.ended_at if run.ended_at is not None else now]
    for entry, end in zip(history, ends, strict=True):
        spent[entry.after] = spent.get(entry.after, 0.0) + max(0.0, end - entry.at)
    if run.ended_at is not None:
        spent.pop(run.state, None)
    return RunStats(
        seconds_in=spent,
        transitions=len(history),
        constraints_checked=run.guarded.checked,
        constraints_violated=run.guarded.violated,
        actions_run=run.guarded.actions,
        actions_failed=run.guarded.failed,
        attempts=run.attempt,
        failures=run.failures,
        crashes=run.crashes,
        heartbeats=run.heartbeats,
        start_latency=None if run.started_at is None else max(0.0, run.started_at - run.scheduled_at),
        exit_code=run.exit_code,
        outcome=run.outcome,
    )


class RunIds:
    """Time-ordered unique ids: milliseconds, a count within them, and random bits."""

    def __init__(self) -> None:
        self._stamp = 0
        self._count = 0
        self._prefix = "0" * 12  # the stamp, as it is written

    def next(self, now: float, bits: int) -> str:
        """Return an id greater than every one before it, even when the clock goes back; `bits` are 48 random ones."""
        stamp = int(now * 1000)
        if stamp > self._stamp or self._count == 0xFFFF:
            self._stamp, self._count = max(stamp, self._stamp + 1), 0
            self._prefix = f"{self._stamp:012x}"
        else:
            self._count += 1
        return f"{self._prefix}{self._count:04x}{bits:012x}"


def occurrence_id(job_id: str, fire_time: float, tenant: str) -> str:
    """Return the id of a job's run for one fire time. It names the tenant, unless that is the default one."""
    occurrence = f"{job_id}:{int(fire_time)}"
    return occurrence if tenant == "default" else f"{occurrence}:{tenant}"


def shown_facets(run: Run) -> dict[str, Any]:
    """Return the facets of a run by name, each with its fields or its value; its progress is shown as a field."""
    found: dict[str, Any] = {} if run.facets is None else msgspec.to_builtins(run.facets)
    found.pop("progress", None)
    return found if run.allowed is None else found | {"allowed": msgspec.to_builtins(run.allowed)}


def as_fields(run: Run) -> dict[str, Any]:
    """Return a run as a plain mapping, without payload and result."""
    fields = msgspec.structs.asdict(run)
    fields["has_checkpoint"], fields["facets"] = bool(run.has_checkpoint), shown_facets(run)
    del fields["payload"], fields["result"], fields["allowed_by"]
    return fields


UNSUCCESSFUL = TERMINAL - {State.SUCCEEDED}


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of runs: those that match every field given."""

    states: frozenset[State] = frozenset()
    job_id: str | None = None
    tenant: str | None = None
    session: str | None = None
    lane: str | None = None
    since: float | None = None  # created at this time or later
    until: float | None = None  # created before this time
    live: bool | None = None  # True: not ended; False: ended
    id_prefix: str | None = None  # the beginning of the id
    created_by: str | None = None
    letters: LetterFilter | None = None  # ended runs with such a dead letter, and no others
    parent: str | None = None  # run that made it
    root: str | None = None  # run at the top of its tree
    is_step: bool | None = None  # whether a workflow made it as a step
    text: str | None = None  # found in one of these: id, job, session, reason, error, a label; whatever the case
    under: str | None = None  # this run, and all runs that it has made, directly or not; in memory only

    @property
    def only_live(self) -> bool:
        """Whether no ended run can match."""
        return self.live is True or (bool(self.states) and not self.states & TERMINAL)

    @property
    def only_unsuccessful(self) -> bool:
        """Whether only runs that ended without success can match."""
        return bool(self.states) and self.states <= UNSUCCESSFUL

    def fits(self, run: Run) -> bool:
        return (
            self.job_id in (None, run.job_id)
            and run.id.startswith(self.id_prefix or "")
            and (not self.states or run.state in self.states)
            and self.tenant in (None, run.tenant)
            and self.session in (None, run.session)
            and self.lane in (None, run.lane)
            and (self.since is None or run.created_at >= self.since)
            and (self.until is None or run.created_at < self.until)
            and self.created_by in (None, run.created_by)
            and self.live in (None, run.ended_at is None)
            and self.is_step in (None, "@" in run.id)
            and self.parent in (None, run.parent)
            and self.root in (None, run.root)
            and (self.under is None or run.is_under(self.under))
            and (
                self.text is None
                or shows_text(self.text, run.labels, run.id, run.job_id, run.session, run.reason, run.error)
            )
        )


def shows_text(text: str, labels: Mapping[str, str], *parts: str | None) -> bool:
    """Return whether one of these parts of a run, or a label as `name=value`, has this text, whatever the case."""
    wanted = text.casefold()
    named = (f"{name}={value}" for name, value in labels.items())
    return any(part is not None and wanted in part.casefold() for part in (*parts, *named))

"""Errors of jobs, runs, services and the policy service."""

from collections.abc import Sequence
from typing import ClassVar

from interlock.error.base import BadDefinition, Conflict, ExitCode, InterlockError, Missing, NotAllowed, shown
from interlock.error.value import hint


class UnknownJob(Missing, code="unknown_job", status=400):
    """No job has this id. The status is 404 where the path names the job."""

    def __init__(self, job_id: str, suggestion: str | None = None) -> None:
        super().__init__(f"job: {shown(job_id)} is not defined{hint(suggestion)}")
        self.job_id = job_id


class Unknown(Missing):
    """Nothing of this kind has this name."""

    text: ClassVar[str]

    def __init__(self, name: str, suggestion: str = "") -> None:
        super().__init__(f"{self.text.format(shown(name))}{suggestion}")
        self.name = name


class UnknownLane(Unknown, code="unknown_lane"):
    """No lane has this name; a close one is suggested."""

    text = "lane: {} does not exist"


class UnknownWorker(Unknown, code="unknown_worker"):
    """No worker has this id; a close one is suggested."""

    text = "worker: {} does not exist"


class DuplicateJob(Conflict, code="duplicate_job", exit_code=ExitCode.USAGE):
    """Another job has this id."""

    def __init__(self, job_id: str, first: str, second: str) -> None:
        super().__init__(f"job: {job_id!r} is defined twice, by {first} and by {second}")


class NotPut(Conflict, code="job_declared"):
    """A file or the app declares the job; change or remove it there."""

    def __init__(self, job_id: str, where: str = "") -> None:
        place = f"at {where}" if where else "in Python or in a file"
        super().__init__(f"job: {job_id!r} is declared {place}; change or remove it there")
        self.job_id = job_id


class BadSchedule(Conflict, code="bad_schedule"):
    """The job has no schedule, or the time of its schedule has passed."""


class BadConfig(BadDefinition, code="bad_config", status=422):
    """The files to reload, or the jobs in the body, have faults. Nothing was changed."""


class BadHandler(BadDefinition, code="bad_handler"):
    """The function is not suitable as a handler."""


class CannotImport(BadDefinition, code="cannot_import"):
    """The app or function cannot be imported."""

    def __init__(self, target: str, why: str, field: str = "app") -> None:
        super().__init__(f"{field}: cannot load {target!r}: {why}")
        self.why = why


class MissingLibrary(BadDefinition, code="missing_library"):
    """A library of an extra is not installed."""

    def __init__(self, field: str, library: str, extra: str) -> None:
        super().__init__(f"{field}: {library} is not installed; install it with: pip install 'interlock[{extra}]'")
        self.field = field


class LifespanFailed(InterlockError, code="lifespan_failed"):
    """The lifespan of the app raised, took too long to start, or ended early."""

    def __init__(self, what: str) -> None:
        super().__init__(f"lifespan: {what}")


class UnknownRun(Unknown, code="unknown_run"):
    """The run does not exist, or belongs to another tenant."""

    text = "run: {} does not exist"


class RunPruned(UnknownRun, code="run_pruned", status=410):
    """The run ended and was pruned; its key or occurrence is still taken."""

    text = "run: {} ended and was pruned; to keep runs longer, raise keep_runs, keep_runs_total or keep_for"


class OtherState(Conflict):
    """The state of the run does not allow this."""

    text: ClassVar[str]

    def __init__(self, run_id: str, state: str) -> None:
        super().__init__(f"run: {shown(run_id)} is {state}{self.text}")
        self.run_id, self.state = run_id, state


class RunNotEnded(OtherState, code="run_not_ended"):
    """The run has not ended, so it cannot be retried."""

    text = ", and only ended runs are retried; cancel it or wait for it"


class UnknownBulk(Unknown, code="unknown_bulk"):
    """The bulk request does not exist, belongs to another tenant, or is no longer kept."""

    text = "bulk request: {} does not exist"


class UnknownDelivery(Unknown, code="unknown_delivery"):
    """The delivery does not exist, belongs to another tenant, or was pruned with its run."""

    text = "delivery: {} does not exist"


class UnknownLetter(Unknown, code="unknown_letter"):
    """The dead letter does not exist, belongs to another tenant, or was dropped."""

    text = "dead letter: {} does not exist"


class NoApproval(OtherState, code="no_approval"):
    """No approval was requested for this run."""

    text = "; no approval was requested for it"


class AlreadyResolved(Conflict, code="already_resolved"):
    """The run was approved or rejected before, or it ended."""

    def __init__(self, run_id: str, state: str, by: str = "") -> None:
        answered = f"was answered by {by}" if by else "no longer waits for an approval"
        super().__init__(f"run: {shown(run_id)} {answered}; it is {state}")
        self.run_id, self.state, self.by = run_id, state, by


class StaleApproval(Conflict, code="stale"):
    """The request or the policy has changed since the approver looked."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run: {shown(run_id)}: its request or the policy has changed since you looked; look again")
        self.run_id = run_id


class SelfApproval(NotAllowed, code="self_approval"):
    """The submitter of a run cannot approve it."""

    def __init__(self, run_id: str, actor: str) -> None:
        super().__init__(
            f"run: {shown(run_id)} was submitted by {actor}, who cannot approve it; somebody else must: "
            "over TCP, with a token of role approver (--url, and --token or INTERLOCK_TOKEN)"
        )
        self.run_id, self.actor = run_id, actor


class NotQuarantined(OtherState, code="not_quarantined"):
    """The output of the run is not quarantined."""

    text = ", and its output is not quarantined"


class NoRecord(Conflict, code="no_record"):
    """The run is no workflow that is a function."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run: {shown(run_id)} has no record, because it is no workflow that is a function")


class EventRefused(Conflict, code="event_refused"):
    """The workflow has ended or is to end, no live run has the key, or it has too many unread events."""


class NotHalted(OtherState, code="not_halted"):
    """The run is no workflow whose function is halted."""

    text = " and not halted; only halted workflows are resumed or abandoned"


class RecordDiffers(InterlockError, code="record_differs"):
    """The function of a workflow does not ask for the steps that a recorded run has."""

    def __init__(self, run_id: str, text: str, step: str) -> None:
        super().__init__(f"record: run {shown(run_id)}: {text}")
        self.run_id, self.text, self.step = run_id, text, step


class IdempotencyConflict(Conflict, code="idempotency_conflict"):
    """The tenant used this key or occurrence before, with another job, payload or filter."""

    def __init__(self, key: str, run_id: str, field: str = "idempotency_key") -> None:
        super().__init__(
            f"{field}: {key!r} was used for run {run_id} with another job or payload; "
            f"repeat the first submit unchanged, or use another {field}"
        )
        self.key, self.run_id = key, run_id


class QueueFull(Conflict, code="queue_full"):
    """The session is full, and drops new runs."""

    def __init__(self, session: str, cap: int) -> None:
        super().__init__(f"session: {session!r} is full: at most {cap} may wait; submit again later, or use drop: old")
        self.session, self.cap = session, cap


class TenantLimit(InterlockError, code="tenant_limit", status=429):
    """The tenant is at a limit of its declaration; `Retry-After` says when to try again. Nothing was changed."""

    def __init__(self, tenant: str, limit: str, value: object, retry_after: float) -> None:
        super().__init__(f"tenant: {tenant!r} is at its {limit} of {value}; try again in {retry_after:.3g}s")
        self.tenant, self.limit, self.retry_after = tenant, limit, retry_after


class InvalidTransition(InterlockError, code="invalid_transition"):
    """A run cannot go from one state to the other."""

    def __init__(self, run_id: str, before: str, after: str) -> None:
        super().__init__(f"run {run_id}: {before} cannot become {after}")
        self.run_id, self.before, self.after = run_id, before, after


class RunEnded(InterlockError, code="run_not_succeeded", exit_code=ExitCode.NOT_SUCCEEDED):
    """`result()` was called for a run that did not succeed. The cause is a `RemoteError` if its handler raised."""

    advice: ClassVar[str] = ""

    def __init__(self, run_id: str, state: str, reason: str) -> None:
        super().__init__(f"run {run_id} ended as {state}: {reason}{self.advice.format(run_id)}")
        self.run_id, self.state, self.reason = run_id, state, reason


class RunFailed(RunEnded):
    """The run failed, and has no retry left."""


class RunTimeout(RunEnded):
    """The run passed its deadline or its longest run time."""


class RunCancelled(RunEnded):
    """The run was cancelled."""


class RunDenied(RunEnded):
    """The policy denied the run."""


class Rejected(RunDenied):
    """A person rejected what the workflow asked."""


class RunSkipped(RunEnded):
    """The run was skipped: its time was missed, or another run got its payload."""


class RunDebounced(RunSkipped):
    """The run was collapsed into another, `into`, which got its payload."""

    def __init__(self, run_id: str, state: str, reason: str, into: str) -> None:
        super().__init__(run_id, state, reason)
        self.into = into


class RunOrphaned(RunEnded):
    """The run lost its process or worker too often."""


class RunQuarantined(RunEnded):
    """The run succeeded, but its output is withheld."""

    advice: ClassVar = "; an approver can release the result: interlock release {} --reason TEXT"


ENDS: dict[str, type[RunEnded]] = {
    "failed": RunFailed,
    "timeout": RunTimeout,
    "cancelled": RunCancelled,
    "denied": RunDenied,
    "skipped": RunSkipped,
    "orphaned": RunOrphaned,
    "output_quarantined": RunQuarantined,
}
"""state → the error of a run that ended in it"""


class RemoteError(InterlockError, code="remote_error"):
    """An exception of a handler, as the cause of a `RunEnded`: `type` and the other `types` are qualified names."""

    def __init__(self, types: Sequence[str], message: str, traceback: str) -> None:
        self.type, self.types = types[0], tuple(types)
        super().__init__(f"{self.type}: {message}" if message else self.type)
        self.message, self.traceback = message, traceback
        self.add_note(traceback)


class BadResult(InterlockError, code="bad_result"):
    """The run succeeded, but its result does not fit the return annotation of its job; `value` is the result."""

    def __init__(self, run_id: str, value: object, problem: object) -> None:
        # The message does not quote the value, because results may be long.
        super().__init__(f"run {run_id}: its result does not fit the return annotation: {problem}; see value")
        self.run_id, self.value = run_id, value


class ItemFailed(InterlockError, code="item_failed"):
    """An item of `App.map` could not be submitted, or its run did not succeed; the cause has the reason."""

    def __init__(self, index: int, why: object) -> None:
        super().__init__(f"items[{index}]: {why}")
        self.index = index


class WaitTimeout(InterlockError, code="wait_timeout", exit_code=ExitCode.OUT_OF_TIME):
    """The run did not end within the caller's limit; it continues."""

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__(f"run {run_id} has not ended within {seconds:g}s; it continues")


class NotConnected(InterlockError, code="not_connected"):
    """The app has no connection to a scheduler."""

    def __init__(self) -> None:
        super().__init__("app: not connected; use 'async with app.running():' or 'async with app.connected():'")


class Fatal(InterlockError, code="fatal"):
    """Raised by a handler: this failure is final, do not retry."""


class DuplicateService(BadDefinition, code="duplicate_service"):
    """Another service or group has this name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(f"service: {name!r} is defined twice, at {first} and at {second}")


class UnknownChild(Unknown, code="unknown_child"):
    """No service or group has this name; a close one is suggested."""

    text = "name: {} is not in the tree"


class DuplicateChild(InterlockError, code="duplicate_child"):
    """The supervisor already has a child of this name."""

    def __init__(self, name: str, supervisor: str) -> None:
        super().__init__(f"name: {supervisor} already has a child {shown(name)}")


class CannotStart(InterlockError, code="cannot_start"):
    """A child of a supervisor could not be started."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: could not be started ({why})")
        self.path, self.why = path, why


class WrongStatus(Conflict, code="wrong_status"):
    """The status of the service or worker does not allow this, such as suspending a service that is not up."""


class NoContainerEngine(InterlockError, code="no_container_engine"):
    """No container engine answers."""


class PolicyUnavailable(InterlockError, code="policy_unavailable"):
    """The policy service gives no verdict."""

    def __init__(self, why: str) -> None:
        super().__init__(f"policy service: {why}")
        self.why = why


class PolicyClosed(PolicyUnavailable):
    """The scheduler stops asking. No fail mode applies."""

    def __init__(self) -> None:
        super().__init__("the scheduler stops")

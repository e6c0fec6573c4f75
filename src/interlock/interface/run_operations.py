"""The operations on runs that the gateway carries out."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta

from interlock import error as e
from interlock.fields.field import doc
from interlock.interface.bodies import BatchBody, NewRunBody, SubmittedBatch
from interlock.interface.operation import PageCursor
from interlock.interface.record_view import RunRecord
from interlock.interface.run_view import BulkInfo, History, LogPage, RunDetail, RunInfo, RunPage
from interlock.interface.step_view import StepPage
from interlock.model.access import Permission
from interlock.model.bulk import ActedOn, RunAction
from interlock.model.explanation import Explanation
from interlock.model.state import State
from interlock.model.workflow import STEP_NAME
from interlock.wire import parameter as p
from interlock.wire.new_run import LONGEST_KEY, TENANT, KeyText
from interlock.wire.operation import GatewayRequest, Http, Key

A_co = TypeVar("A_co", covariant=True)

# The form of a text that the handlers check themselves, with clearer errors than a pattern gives.
WAIT = r"^([0-9]{1,5}(\.[0-9]{1,6})?ms|([0-9]{1,2}|[12][0-9]{2})(\.[0-9]{1,6})?s|[0-4](\.[0-9]{1,6})?m|300s|5m)$"
Wait = Annotated[str | None, p.text("Time to wait for the run to end, such as `30s`; up to 5 minutes.", WAIT)]

RUN_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same run.")
BULK_KEY = Key("Makes the request safe to repeat: the same key in a tenant is the same bulk request.")
REFUSALS = e.BadPayload, e.PayloadTooLarge, e.IdempotencyConflict, e.QueueFull, e.TenantLimit, e.RunPruned


class SubmitRun(GatewayRequest[RunInfo], frozen=True):
    """Submit a run. The answer comes once the run is durable, with the run as it was created. With `wait`, it comes
    once the run has ended, if that is in time, and has every field of [RunDetail](#rundetail)."""

    wait: Wait = None

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "submit", "POST /runs", raises=(e.UnknownJob, *REFUSALS), body=NewRunBody, key=RUN_KEY, status=201
    )


class SubmitRuns(GatewayRequest[SubmittedBatch], frozen=True):
    """Submit many runs. Up to 1,000, all or none. With an `Idempotency-Key` K, run i (from 0) gets the key `K/i`."""

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "submit_many",
        "POST /runs/batch",
        raises=(e.UnknownJob, *REFUSALS),
        body=BatchBody,
        key=Key("Makes the request safe to repeat: run i (from 0) gets this key, a slash and i.", LONGEST_KEY - 4),
        status=201,
    )


class RunChoice(GatewayRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A choice of runs: those that match every field given."""

    job: Annotated[p.FilterText | None, doc("Only runs of this job.")] = None
    tenant: Annotated[p.FilterText | None, doc("Only runs of this tenant.")] = None
    session: Annotated[p.SessionText | None, doc("Only runs of this session.")] = None
    lane: Annotated[p.FilterText | None, doc("Only runs in this lane.")] = None
    since: Annotated[p.Moment | None, doc("Only runs created since then, in RFC 3339 or seconds since 1970.")] = None
    until: Annotated[p.Moment | None, doc("Only runs created before this time, in the same form.")] = None
    parent: Annotated[p.FilterText | None, doc("Only runs that this run made.")] = None
    root: Annotated[p.FilterText | None, doc("Only runs whose root is this run: it made them, directly or not.")] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        doc(
            "Only runs with this text in id, job, session, reason, error or a label (`name=value`), whatever the case."
        ),
    ] = None


class ReadRuns(RunChoice[RunPage], frozen=True, kw_only=True):
    """List runs. Runs, newest first. A page may be short although more follow: go on while `next` is not null. One
    request looks at 50,000 runs at most, with `text` for about a second; `reached` says how far back that was."""

    state: Annotated[p.SomeOf[State], doc("Only runs in this state; may be repeated.")] = []
    live: Annotated[bool | None, doc("`true`: only runs that have not ended; `false`: only runs that have.")] = None
    id_prefix: Annotated[p.FilterText | None, doc("Only runs whose id begins with this, the last 1,000 by id.")] = None
    steps: Annotated[
        bool, doc("Whether to list steps of workflows; with `parent`, `root` or the id of a step they always are.")
    ] = False
    limit: p.PageSize = 50
    if not TYPE_CHECKING:  # clients have no use for it
        cursor: PageCursor = None

    cursors: ClassVar = "r"
    http: ClassVar = Http("runs", "GET /runs")


class ReadRun(GatewayRequest[RunDetail], frozen=True):
    """Show a run. The run as it is now; with `wait`, once it has ended, if that is in time."""

    run_id: str
    wait: Wait = None

    http: ClassVar = Http("run", "GET /runs/{run_id}")


class ReadSteps(GatewayRequest[StepPage], frozen=True):
    """List the steps of a run. The steps of a workflow, or the items of a step with `for_each`, in the order in which
    they began; any other run has none. The facet `step` has the number of each."""

    run_id: str
    limit: p.PageSize = 200
    if not TYPE_CHECKING:  # clients have no use for it
        cursor: PageCursor = None

    cursors: ClassVar = "t"
    http: ClassVar = Http("steps", "GET /runs/{run_id}/steps")


class ReadRecord(GatewayRequest[RunRecord], frozen=True):
    """Show the record of a run. What the function of a workflow is replayed from: its round, the steps that it asked
    for, and their ends in order of completion. Secrets are masked, and withheld results are left out. Only a run of a
    workflow that is a function has one."""

    run_id: str

    http: ClassVar = Http("record", "GET /runs/{run_id}/record", raises=(e.NoRecord,))


class ReadExplanation(GatewayRequest[Explanation], frozen=True):
    """Explain a run. Why it is where it is, what it waits for, and roughly until when; for a run that has ended, how
    and why it ended. A token of one tenant sees the ids of that tenant's runs only, and how many others there are."""

    run_id: str

    http: ClassVar = Http("explanation", "GET /runs/{run_id}/explanation")


class ReadHistory(GatewayRequest[History], frozen=True):
    """Show the history of a run. Every transition, in order."""

    run_id: str

    http: ClassVar = Http("history", "GET /runs/{run_id}/history")


class ReadLogs(GatewayRequest[LogPage], frozen=True):
    """Show the log of a run. Log lines of the run's attempts, oldest first."""

    run_id: str
    limit: Annotated[int, doc("Most lines to return.", ge=1, le=10_000)] = 1000
    cursor: Annotated[str | None, p.cursor_form("l[0-9]{1,18}")] = None

    http: ClassVar = Http("logs", "GET /runs/{run_id}/logs")


EventName = Annotated[str, doc("Name of the event: letters, digits and `_`.", pattern=f"^{STEP_NAME}$")]
EventValue = Annotated[Any, doc("Its value: JSON without secrets, up to 1 MiB.")]
EventKey = Annotated[KeyText | None, doc("Makes the event safe to repeat, as the header `Idempotency-Key` does.")]
EVENT_KEY = Key("Makes the request safe to repeat: the same key for the same run is the same event.")


class SendRunEvent(GatewayRequest[ActedOn], frozen=True):
    """Send an event to a workflow. It is kept until a step reads it, once and in order. The answer is the run of the
    event."""

    run_id: str
    name: EventName
    value: EventValue = None
    idempotency_key: EventKey = None

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "send_event",
        "POST /runs/{run_id}/events",
        raises=(e.EventRefused, e.IdempotencyConflict, e.PayloadTooLarge),
        body="EventBody",
        key=EVENT_KEY,
        status=201,
    )


class SendWorkflowEvent(GatewayRequest[ActedOn], frozen=True):
    """Send an event by key. It goes to the live run of the workflow that has this idempotency key in the tenant; with
    `or_start`, to a new run if there is none."""

    job_id: str
    key: Annotated[KeyText, doc("Idempotency key of the run.")]
    name: EventName
    value: EventValue = None
    tenant: Annotated[p.NameText | None, doc(TENANT)] = None
    or_start: Annotated[bool, doc("`true`: start a run with this key if none is live.")] = False
    payload: Annotated[dict[str, Any] | None, doc("Arguments of that run.")] = None
    idempotency_key: EventKey = None

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "send_workflow_event",
        "POST /workflows/{job_id}/events",
        raises=(e.EventRefused, e.UnknownJob, e.BadPayload, e.IdempotencyConflict, e.PayloadTooLarge, e.TenantLimit),
        body="WorkflowEventBody",
        key=EVENT_KEY,
        status=201,
    )


def _bulk_text(action: RunAction) -> str:
    return (
        f"{action.capitalize()} many runs. Act on the runs that match every field given and {action.reach}. The answer "
        "comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after "
        "a restart. Runs created later are not touched. `state` is compared when a run's turn comes."
    )


class RunsChange(RunChoice[A_co], Generic[A_co], frozen=True, kw_only=True):
    state: Annotated[
        p.SomeOf[State], doc("Only runs in one of these states: terminal for a retry, not terminal for others.")
    ] = []
    everything: Annotated[bool, doc("`true`: every run that the action applies to; needed without other fields.")] = (
        msgspec.field(default=False, name="all")
    )


class ActOnRuns(RunsChange[BulkInfo], frozen=True):
    action: p.OneOf[RunAction]
    reason: Annotated[p.Reason, doc("Reason, kept with the runs.")] = ""
    dry_run: Annotated[bool, doc("`true`: change nothing, and say in `matching` on how many runs it would act.")] = (
        False
    )

    permission: ClassVar = Permission.CANCEL
    http: ClassVar = Http(
        "{action}_many",
        "POST /runs/{action}",
        raises=(e.IdempotencyConflict, e.Overloaded, e.UnknownJob),
        actions={action: _bulk_text(action) for action in RunAction}
        | {RunAction.RETRY: f"{_bulk_text(RunAction.RETRY)} A job that does not exist is `unknown_job`."},
        body="BulkBody",
        key=BULK_KEY,
        status=202,
    )


class ReadBulk(GatewayRequest[BulkInfo], frozen=True):
    """Show a bulk request. Filter and progress of a bulk request. The newest 1,000 are kept."""

    bulk_id: str

    http: ClassVar = Http("bulk", "GET /bulk/{bulk_id}", "runs")

"""An explanation: why a run is where it is, what it waits for, and how it ended."""

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec

from interlock.fields.duration import span
from interlock.fields.field import copy_fields, doc
from interlock.fields.json_form import Time
from interlock.model.approval import VerdictInfo, verdict_of
from interlock.model.delivery import Delivery, DeliveryState
from interlock.model.facets import Note
from interlock.model.run import Run
from interlock.model.state import State

E = TypeVar("E", bound=msgspec.Struct)
_WORKER_ID = re.compile(r"[\w.:@-]+-[0-9]{1,10}-[0-9a-f]{8}\.[0-9a-f]{1,16}")
MOST_NAMED = 5  # runs that a list in an explanation names


class ReasonKind(StrEnum):
    SCHEDULED_TIME = "scheduled_time"  # its time has not come
    SCHEDULE_PAUSED = "schedule_paused"
    OVERLAP = "overlap"  # earlier occurrences of its job have not ended
    RETRY = "retry"  # its retry delay has not passed
    HELD = "held"
    POLICY = "policy"  # the policy has not answered, or has put it off
    APPROVAL = "approval"  # a person must agree
    CONSTRAINT = "constraint"  # it is being checked, or violated
    BULK = "bulk"  # a bulk request under way covers it
    DEBOUNCE = "debounce"  # its session still collects runs into it
    SESSION_PAUSED = "session_paused"
    SESSION_TURN = "session_turn"  # other runs of its session come first
    LANE_PAUSED = "lane_paused"  # or draining
    LANE_FULL = "lane_full"
    LANE_TURN = "lane_turn"  # its place among the waiting runs of its lane
    RATE = "rate"
    LIMIT = "limit"
    TENANT_LIMIT = "tenant_limit"  # runs of its tenant hold all slots that it may have
    NO_WORKER = "no_worker"
    DRAINING = "draining"  # the scheduler starts nothing before its next start
    READY = "ready"  # nothing is in its way
    PAYLOAD = "payload"  # its inputs are being read
    SENT = "sent"  # a worker has it, and has not begun it
    STARTING = "starting"  # its worker creates what will execute it
    EXECUTING = "executing"
    STOPPING = "stopping"
    STEPS = "steps"  # its steps have not ended
    HALTED = "halted"  # its function does not fit its record
    WORKER_AWAY = "worker_away"  # its worker is not connected
    DELIVERY = "delivery"  # a webhook that it owes, or that was given up
    ENDED = "ended"
    COLLECTED = "collected"  # another run got its payload
    OUTPUT = "output"  # its result is withheld, or was released
    RETRIED = "retried"  # another run does its work again


class Obstacle(StrEnum):
    UNKNOWN_JOB = "unknown_job"
    DRAINING = "draining"
    DISCONNECTED = "disconnected"
    FULL = "full"
    OVERLOADED = "overloaded"  # nine tenths of its slots are taken, or its machine is busy
    POOL = "pool"  # its pool does not take the run
    CAPABILITY = "capability"
    LABEL = "label"
    TENANT = "tenant"  # it is for other tenants
    SILENT = "silent"  # it has sent nothing for too long
    FAULT = "fault"  # it cannot start a process


class WorkerFit(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, and whether the run could go there now."""

    id: Annotated[str, doc("Id of the worker.")]
    fits: Annotated[bool, doc("Whether it would take the run now.")]
    obstacle: Annotated[Obstacle | None, doc("Why it is passed over, or is the last choice.")] = None
    text: Annotated[str, doc("The same in words.")] = ""


Ids = list[str]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a run waits for, or that happens to it."""

    kind: Annotated[ReasonKind, doc("Kind.")]
    text: Annotated[str, doc("The same in words, about the run.")]
    name: Annotated[str | None, doc("Lane, session, rate, limit, worker or person that it is about.")] = None
    at: Annotated[Time | None, doc("Time at which it ends by itself.")] = None
    since: Annotated[Time | None, doc("Time at which it began.")] = None
    place: Annotated[int | None, doc("Place among those that wait, from 1; at most 10,001.")] = None
    ahead: Annotated[Ids, doc("First runs of those ahead, at most 5.")] = []
    holders: Annotated[Ids, doc("Runs that it waits for, at most 5: they hold slots or turns.")] = []
    runs: Annotated[Ids, doc("Run that took over.")] = []


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended."""

    at: Annotated[Time | None, doc("Time.")]
    reason: Annotated[str, doc("Reason.")]
    actor: Annotated[str, doc("Who or what caused it.")]
    outcome: Annotated[str | None, doc("Outcome of the latest attempt.")]
    error: Annotated[str | None, doc("Last line of the error.")]
    exit_code: Annotated[int | None, doc("Exit code of the process, if it had one.")]
    attempts: Annotated[int, doc("Attempts.")]
    failures: Annotated[int, doc("Attempts that failed.")]
    crashes: Annotated[int, doc("Attempts lost with their process or worker.")]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run is where it is."""

    run_id: Annotated[str, doc("Run.")]
    state: Annotated[State, doc("State.")]
    sentence: Annotated[str, doc("All of it in words.")]
    reasons: Annotated[list[Reason], doc("What it waits for or does; all of it must change before it starts.")]
    workers: Annotated[list[WorkerFit], doc("For a run that waits in its lane: each worker, at most 100.")] = []
    next_at: Annotated[Time | None, doc("Earliest time of the next start, if the clock decides it.")] = None
    estimate_at: Annotated[
        Time | None, doc("Rough time of the next start, from recent starts in the lane; null if unknown.")
    ] = None
    end: Annotated[End | None, doc("The end; null for a run that has not ended.")] = None
    verdict: Annotated[VerdictInfo | None, doc("Latest verdict of the policy; null without a policy.")] = None
    notes: Annotated[tuple[Note, ...], doc("Latest notes, oldest first, such as failed tries to place the run.")] = ()


def without_workers(found: E, known: Collection[str]) -> E:
    """Return it with numbers in place of the ids of workers, which name hosts and processes."""
    text = msgspec.json.encode(found).decode()
    ids = sorted(
        {*_WORKER_ID.findall(text), *(name for name in known if name in text)}, key=lambda name: (-len(name), name)
    )
    for number, worker_id in enumerate(ids, start=1):
        text = text.replace(worker_id, f"#{number}")
    return msgspec.json.decode(text, type=type(found))


def sentence_of(reasons: Iterable[Reason]) -> str:
    return f"The run {'; it '.join(reason.text for reason in reasons)}."


def with_deliveries(found: Explanation, deliveries: Iterable[Delivery], now: float) -> Explanation:
    """Add the webhooks that a run still owes, and those that were given up."""
    owed: list[Reason] = []
    for delivery in deliveries:
        if delivery.state is DeliveryState.DELIVERED:
            continue
        tries = f"{delivery.tries} {'try' if delivery.tries == 1 else 'tries'}"
        what = f"{delivery.event} to {delivery.request.shown_url}"
        failed = f" after {tries}: {delivery.error}" if delivery.error else ""
        if delivery.ended_at is None:
            text = f"has not yet delivered {what}{failed}; next try in {span(delivery.next_at - now)}"
        else:
            text = f"could not deliver {what}{failed}"
        at = delivery.next_at if delivery.ended_at is None else None
        owed.append(Reason(kind=ReasonKind.DELIVERY, text=text, name=delivery.id, at=at))
    more = f" It {'; it '.join(reason.text for reason in owed)}." if owed else ""
    return msgspec.structs.replace(found, reasons=[*found.reasons, *owed], sentence=found.sentence + more)


def explain_end(run: Run) -> Explanation:
    """Explain a stored run that has ended."""
    error = (run.error or "").strip().splitlines()[-1:]
    reasons = [Reason(kind=ReasonKind.ENDED, text=_ended(run, error), name=run.actor, at=run.ended_at)]
    facets = run.facets
    if facets is not None and facets.collapsed_into is not None:
        other = facets.collapsed_into.run_id
        reasons.append(Reason(kind=ReasonKind.COLLECTED, text=f"left its payload to run {other}", runs=[other]))
    if run.state is State.OUTPUT_QUARANTINED:
        reasons.append(_withheld(run))
    if facets is not None and facets.retried_as is not None:
        other = facets.retried_as.run_id
        reasons.append(Reason(kind=ReasonKind.RETRIED, text=f"was run again as {other}", runs=[other]))
    end = copy_fields(End, run, at=run.ended_at, error=error[0] if error else None, attempts=run.attempt)
    sentence, verdict = sentence_of(reasons), verdict_of(run.judged, run.allowed)
    return Explanation(
        run_id=run.id, state=run.state, sentence=sentence, reasons=reasons, end=end, verdict=verdict, notes=run.notes
    )


_ENDS = {
    State.FAILED: "failed",
    State.TIMEOUT: "timed out",
    State.CANCELLED: "was cancelled",
    State.DENIED: "was denied",
    State.SKIPPED: "was skipped",
    State.ORPHANED: "was given up",
    State.OUTPUT_QUARANTINED: "succeeded, but its result was quarantined",
}


def _withheld(run: Run) -> Reason:
    record = None if run.facets is None else run.facets.output
    if record is None or record.released_at is None:
        text = f"shows its result to nobody until an approver releases it: interlock release {run.id} --reason TEXT"
        return Reason(kind=ReasonKind.OUTPUT, text=text)
    text = f"shows its result since {record.released_by} released it: {record.release_reason}"
    return Reason(kind=ReasonKind.OUTPUT, text=text, name=record.released_by, since=record.released_at)


def _ended(run: Run, error: list[str]) -> str:
    lasted = "" if run.started_at is None or run.ended_at is None else f" after {span(run.ended_at - run.started_at)}"
    has_begun = run.attempt or run.started_at is not None  # a workflow begins without an attempt
    attempts = f" in attempt {run.attempt}" if run.attempt > 1 else "" if has_begun else " before its first attempt"
    if run.state is State.SUCCEEDED:
        return f"succeeded{attempts}{lasted}"
    verb = _ENDS.get(run.state, f"ended as {run.state}")
    by = f" by {run.actor}" if run.state is State.CANCELLED else ""
    said = [line for line in error if line not in run.reason]
    why = [] if run.reason == verb or any(line.startswith(run.reason) for line in said) else [run.reason]
    return f"{verb}{by}{attempts}{lasted}: {': '.join([*why, *said]) or run.outcome}"

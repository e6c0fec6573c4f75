"""Violations of constraints, and actions that tell others about a run: webhooks, which become rows of the
outbox, and runs of other jobs."""

import msgspec
from msgspec.structs import replace

from interlock.core.entry import lineage
from interlock.core.entry.admission import create_run
from interlock.core.transition import Pass
from interlock.fields import payload
from interlock.fields.duration import checked
from interlock.model.delivery import Delivery, delivery_id, notice_of, outgoing
from interlock.model.facets import CausedBy
from interlock.model.guard import DEEPEST, Action, ActionKind, Violation, ViolationEvent
from interlock.model.run import TRIGGER, Run, name_of_run
from interlock.model.state import State
from interlock.wire.request import NewRun

EVENTS = {State.SUCCEEDED: ("on_success", "succeeded")} | dict.fromkeys(
    (State.FAILED, State.TIMEOUT, State.ORPHANED), ("on_failure", "failed")
)
"""end of a run → the job's field with its actions, and the kind of the event"""


class ActionFailed(Exception):
    """An action that cannot be carried out; the text says why."""


def enqueue_webhook(p: Pass, run: Run, action: Action, kind: str, index: int) -> None:
    """Add a webhook to the outbox."""
    id = delivery_id(run, f"{kind}/{index}")
    request = outgoing(action, notice_of(run, kind, run.guarded.violations), id, p.now)
    order = request.host_url if action.ordered else None
    give_up = p.now + checked(action.give_up_after)
    found = (id, run.id, run.job_id, run.tenant, f"run.{kind}", request.host, order, p.now, give_up, request)
    p.keep(Delivery(*found, next_at=p.now))
    p.owed += 1


def create_caused_run(
    p: Pass, run: Run, job_id: str, data: bytes, check: str = "", timeout: float | None = None, why: str = "triggered"
) -> Run:
    """Create a run of another job on behalf of this one."""
    depth = 1 if run.facets is None or run.facets.caused_by is None else run.facets.caused_by.depth + 1
    if job_id not in p.state.jobs:
        raise ActionFailed(f"no job has the id {job_id!r}")
    if depth > DEEPEST:
        raise ActionFailed(f"job {job_id!r} is not started: a chain of {DEEPEST} runs has already caused each other")
    if lineage.is_closed(p.state, run):
        raise ActionFailed(f"job {job_id!r} is not started: the run is cancelled together with the runs that it makes")
    deadline = None if timeout is None else p.now + timeout
    new = NewRun(job_id, data, run.tenant, deadline=deadline, origin=TRIGGER)
    caused = create_run(p, new, None, name_of_run(run.id), why)
    p.set_facet(caused, caused_by=CausedBy(run.id, depth, check))
    lineage.place(p, caused, run)
    return caused


def about(run: Run, kind: str) -> bytes:
    """Return the payload of a run that is called with a notice."""
    return msgspec.json.encode({"notice": notice_of(run, kind, run.guarded.violations)})


def data_of(p: Pass, action: Action) -> bytes:
    """Return the payload of a run that `trigger_job` creates."""
    job = p.state.jobs.get(str(action.job))
    given = action.payload if action.payload is not None or job is None else job.payload
    return payload.EMPTY if given is None else msgspec.json.encode(given)


def notify(p: Pass, run: Run, action: Action, kind: str, index: int, check: str = "") -> Run | None:
    """Carry out an action that decides nothing. Return the run that it called; raise `ActionFailed`."""
    if action.action is ActionKind.WEBHOOK:
        enqueue_webhook(p, run, action, kind, index)
        return None
    if action.action is ActionKind.TRIGGER_JOB:
        create_caused_run(p, run, str(action.job), data_of(p, action))
        return None
    limit = None if action.limit is None else checked(action.limit)
    return create_caused_run(p, run, str(action.job), about(run, kind), check, limit, f"called because of run.{kind}")


def note_failure(p: Pass, run: Run, action: Action, kind: str, error: ActionFailed) -> None:
    """Say on the run, and in the log, why an action failed."""
    text = f"{action.action} after run.{kind} failed: {error}"
    p.note(run, text)
    p.warnings.append(f"run {run.id}: {text}")


def inform_all(p: Pass, run: Run, field: str, kind: str) -> None:
    """Carry out the actions after an event. One that fails is recorded, and changes nothing else."""
    actions, failed = p.state.job_of(run).actions(field), 0
    if not actions:
        return
    for index, action in enumerate(actions):
        try:
            notify(p, run, action, kind, index)
        except ActionFailed as error:
            failed += 1
            note_failure(p, run, action, kind, error)
    guarded = run.guarded
    changed = replace(guarded, actions=guarded.actions + len(actions), failed=guarded.failed + failed)
    p.set_facet(run, constraints=changed)


MOST_KEPT = 10  # latest ones that a run keeps


def violate(p: Pass, run: Run, constraint: str, message: str, count: int = 1) -> None:
    """Record that a run violates a constraint, or that its action failed, which does not count."""
    found = Violation(constraint, message, p.now)
    guarded = run.guarded
    kept = (*guarded.violations, found)[-MOST_KEPT:]
    p.set_facet(run, constraints=replace(guarded, violations=kept, violated=guarded.violated + count))
    p.violations.append((run, found))
    p.announce(
        ViolationEvent(
            run_id=run.id, job_id=run.job_id, tenant=run.tenant, at=p.now, constraint=constraint, message=message
        )
    )

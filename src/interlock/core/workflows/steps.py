"""Carry out orders: each makes a run below its workflow. The values are given; where they come from is the author's."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.core.entry.admission import lane_of
from interlock.core.entry.lineage import runs_above
from interlock.core.state import WAIT
from interlock.core.tenants.limits import check_lane
from interlock.core.transition import Pass
from interlock.core.workflows.flow import BUILT_IN, Flow, Flows
from interlock.error import Forbidden, PayloadTooLarge, TooMany
from interlock.fields import payload
from interlock.fields.field_types import FieldPath
from interlock.fields.secret import Secret
from interlock.model.facets import Approval, Facets, Judged, StepFacet
from interlock.model.failure import Outcome
from interlock.model.job import Job, Priority
from interlock.model.lane import MAIN
from interlock.model.policy.verdict import Ruling
from interlock.model.run import Run, name_of_run
from interlock.model.state import PENDING, State
from interlock.model.workflow import (
    APPROVAL,
    APPROVAL_TIMEOUT,
    GROUP,
    MOST_ITEMS,
    PARALLEL,
    QUESTION,
    SLEEP,
    Undo,
    WorkflowStep,
)


class StepOptions(msgspec.Struct, frozen=True):
    """What any step may have."""

    timeout: float | None = None
    undo: Undo | None = None
    key: str | None = None  # idempotency key of its run
    priority: Priority | None = None
    labels: dict[str, str] | None = None


NO_OPTIONS = StepOptions()


class StepsMade(msgspec.Struct):
    """The steps that a pass has made."""

    count: int = 0


def run_job(
    p: Pass, flow: Flow, name: str, job: Job, arguments: dict[str, Any], options: StepOptions = NO_OPTIONS
) -> Run:
    """Run a job or a workflow as a step, or as an item of a group; raise `InterlockError`."""
    check_lane(p, flow.run.tenant, lane_of(p, job.lane or MAIN)[0])
    given = {**(job.payload or {}), **arguments}
    for secret in job.secrets:
        if isinstance(given.get(secret), str):
            given[secret] = Secret(given[secret])
    if options.undo is not None:
        options = replace(options, undo=checked_undo(p, flow, job, options.undo))
    content = payload.encode(given, "with") if given else payload.EMPTY
    return new_step(p, flow, name, job, content, PENDING, "step", options)


def checked_undo(p: Pass, flow: Flow, job: Job, undo: Undo) -> Undo | None:
    """Return the compensation of a step of this job; a compensation has none."""
    if flow.run.is_compensation:
        return None
    if added := sorted(set(p.state.job(undo.job).capabilities) - set(job.capabilities)):
        raise Forbidden(f"compensate: job {undo.job!r} has capabilities that its step lacks: {', '.join(added)}")
    return replace(undo, capabilities=job.capabilities)


def begin_parallel(p: Pass, flow: Flow, step: WorkflowStep, options: StepOptions) -> Run:
    """Begin a parallel step. Its branches follow, as steps of the same workflow."""
    p.state.of(Flows).touched[flow.run.id] = None
    reason = f"runs {len(step.parallel or ()):,} branches"
    return new_step(p, flow, step.id, BUILT_IN[PARALLEL], payload.EMPTY, State.UNDER_WAY, reason, options)


def sleep(p: Pass, flow: Flow, name: str, delay: float, options: StepOptions = NO_OPTIONS) -> Run:
    run = new_step(p, flow, name, BUILT_IN[SLEEP], payload.EMPTY, State.UNDER_WAY, "sleeps", options, delay)
    run.due_at = p.now + delay
    p.state.set_span(p.elapsed + delay, run, WAIT)
    return run


def sleep_until(p: Pass, flow: Flow, name: str, due_at: float, options: StepOptions = NO_OPTIONS) -> Run:
    run = new_step(p, flow, name, BUILT_IN[SLEEP], payload.EMPTY, State.UNDER_WAY, "sleeps", options)
    run.due_at = due_at
    p.state.set_timer(due_at, run)
    return run


def ask_person(p: Pass, flow: Flow, name: str, question: Any, data: Any, timeout: float | None = None) -> Run:
    """Ask whether a workflow may go on; raise `InterlockError`. The entry asks for the approval."""
    QUESTION.check(question, FieldPath("approve.question"))
    content = payload.encode({"question": question, "data": data}, "approve.data")
    run = new_step(p, flow, name, BUILT_IN[APPROVAL], content, PENDING, "step", NO_OPTIONS)
    asked = Approval("", p.now, p.now + (APPROVAL_TIMEOUT if timeout is None else timeout))
    p.set_facet(run, policy=Judged(Ruling.ASK, reason=question, approval=asked))
    return run


def run_group(
    p: Pass, flow: Flow, name: str, step: WorkflowStep, arguments: Iterable[dict[str, Any]], options: StepOptions
) -> Run:
    """Run the items of a step, `max_parallel` at once. The payload of the group has the arguments of all of them, so
    that each can start by itself; raise `InterlockError`."""
    items: list[bytes] = []
    size = 2
    for item in arguments:
        items.append(payload.encode(item, "with"))
        size += len(items[-1]) + 1
        if size > payload.LIMIT:
            raise PayloadTooLarge("for_each", size, payload.LIMIT)
        if len(items) > MOST_ITEMS:
            raise TooMany("for_each", len(items), MOST_ITEMS)
    content, reason = b"[%s]" % b",".join(items), f"runs {len(items):,} items"
    run = new_step(p, flow, name, BUILT_IN[GROUP], content, State.UNDER_WAY, reason, options, items=len(items))
    flow.may_undo = flow.may_undo or step.compensate is not None
    flows = p.state.of(Flows)
    flows[run.id] = Flow(run, flow.order, step, items=items)
    flows.touched[run.id] = None
    return run


def make_ended(p: Pass, flow: Flow, name: str, job: Job, state: State, reason: str, error: str | None = None) -> Run:
    """Make the run of a step that ends before it begins."""
    run = new_step(p, flow, name, job, payload.EMPTY, State.PRERUN, "step", NO_OPTIONS)
    if state is State.FAILED:
        run.outcome, run.error = Outcome.FAILED_FATAL, error
    p.move(run, state, reason)
    return run


def keep_value(
    p: Pass, flow: Flow, name: str, job: Job, value: bytes, reason: str, options: StepOptions = NO_OPTIONS
) -> Run:
    """Make the run of a step that only has a value."""
    run = new_step(p, flow, name, job, payload.EMPTY, State.UNDER_WAY, reason, options)
    run.result, run.outcome = value, Outcome.SUCCEEDED
    p.move(run, State.SUCCEEDED, reason)
    return run


def new_step(
    p: Pass,
    flow: Flow,
    name: str,
    job: Job,
    content: bytes,
    state: State,
    reason: str,
    options: StepOptions,
    delay: float | None = None,
    items: int | None = None,
) -> Run:
    above, now = flow.run, p.now
    if job.version not in p.state.versions:
        p.state.versions[job.version] = job
        p.batch.jobs.append(job)
    limits = [limit for limit in (job.deadline, options.timeout) if limit is not None]
    deadline = now + min(limits) if limits else None
    lane, warning = lane_of(p, job.lane or MAIN)
    number = len(flow.asked) if flow.is_code else len(flow.ended) + len(flow.live)
    if flow.is_code and flow.has_asked(name):
        flow.asked[name] = number
    flow.live[name] = None
    flow.may_undo = flow.may_undo or options.undo is not None
    run = Run(
        flow.id_of(name),
        job.id,
        above.tenant,
        None,
        options.key,
        now,
        now,
        content,
        delay,
        name_of_run(above.id),
        deadline,
        job.version,
        lane,
        state,
        None,
        warning or reason,
        "scheduler",
        now,
        parent=above.id,
        root=above.root or above.id,
        facets=Facets(
            labels=job.with_labels(options.labels),
            priority=options.priority,
            behind=above.submitters,
            above=runs_above(above),
            step=StepFacet(number, items, options.undo),
        ),
    )
    if state is State.UNDER_WAY:
        run.started_at = now
    if run.idempotency_key is not None:
        digest = payload.digest(job.id, content)
        p.keys[run.tenant, run.idempotency_key] = (run.id, digest)
        p.batch.keys.taken.append((run.tenant, run.idempotency_key, run.id, digest, now))
    p.of(StepsMade).count += 1
    p.state.of(Flows).count(run.id, 1)
    p.begin(run)
    if deadline is not None:
        p.state.set_timer(deadline, run)
    return run

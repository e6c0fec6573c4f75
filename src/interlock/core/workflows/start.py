"""Start steps: each is a run below its workflow."""

from typing import Any

import msgspec

from interlock.core.entry.admission import lane_of
from interlock.core.entry.lineage import place as put_under
from interlock.core.state import WAIT
from interlock.core.tenants.limits import check_lane
from interlock.core.transition import Pass
from interlock.core.workflows.flow import BUILT_IN, MOST_VARIANTS, Flow, Flows
from interlock.core.workflows.values import NoValue, Scope
from interlock.error import InterlockError
from interlock.fields import payload
from interlock.fields.field_types import FieldPath, Span
from interlock.fields.secret import Secret
from interlock.model.facets import Facets, StepFacet
from interlock.model.failure import Outcome
from interlock.model.job import Job
from interlock.model.lane import MAIN
from interlock.model.run import Run, name_of_run
from interlock.model.schedule.schedule import instant
from interlock.model.state import PENDING, State
from interlock.model.workflow import GROUP, MOST_ITEMS, SLEEP, WorkflowStep

_EVERY_SPAN = Span()


def start(p: Pass, flow: Flow, step: WorkflowStep, scope: Scope) -> None:
    """Start a step. A step whose values cannot be made is a failed run. Raise `Unread`."""
    try:
        if step.if_ is not None and not _is_wanted(step, scope):
            _make_ended(p, flow, step, State.SKIPPED, "its condition is false")
        elif step.waits:
            _sleep(p, flow, step, scope)
        elif step.for_each is not None:
            _start_group(p, flow, step, scope)
        else:
            make_run(p, flow, step, step.id, scope.fill(step.with_ or {}, "with"))
    except (NoValue, InterlockError) as error:
        _make_ended(p, flow, step, State.FAILED, "could not start", str(error))


def _is_wanted(step: WorkflowStep, scope: Scope) -> bool:
    found = scope.fill(step.if_, "if")
    if not isinstance(found, bool):
        raise NoValue(f"if: the value is a {_kind(found)}; it must be true or false")
    return found


def _kind(value: Any) -> str:
    names = {type(None): "null", str: "text", dict: "mapping", list: "list", bool: "truth value"}
    return names.get(type(value), "number")


def _sleep(p: Pass, flow: Flow, step: WorkflowStep, scope: Scope) -> None:
    if step.sleep is not None:
        delay = _EVERY_SPAN.check(scope.fill(step.sleep, "sleep"), FieldPath("sleep"))
        run = _new(p, flow, step, step.id, BUILT_IN[SLEEP], payload.EMPTY, State.UNDER_WAY, "sleeps", delay)
        run.due_at = p.now + delay
        p.state.set_span(p.elapsed + delay, run, WAIT)
    else:
        due_at = instant(scope.fill(step.until, "until"), "until")
        run = _new(p, flow, step, step.id, BUILT_IN[SLEEP], payload.EMPTY, State.UNDER_WAY, "sleeps")
        run.due_at = due_at
        p.state.set_timer(due_at, run)


def _start_group(p: Pass, flow: Flow, step: WorkflowStep, scope: Scope) -> None:
    """Make the run of a group. Its payload has the arguments of all items, so that each can start by itself."""
    items = scope.fill(step.for_each, "for_each")
    if not isinstance(items, list):
        raise NoValue(f"for_each: the value is a {_kind(items)}; it must be a list")
    if len(items) > MOST_ITEMS:
        raise NoValue(f"for_each: {len(items):,} items; at most {MOST_ITEMS:,} are allowed")
    job_for(p, flow, step)
    arguments = []
    for index, item in enumerate(items):
        scope.item = {"item": item, "index": index}
        arguments.append(scope.fill(step.with_ or {}, "with"))
    scope.item = {}
    content = payload.encode(arguments, "for_each")
    run = _new(p, flow, step, step.id, BUILT_IN[GROUP], content, State.UNDER_WAY, f"runs {len(items):,} items")
    p.set_facet(run, step=StepFacet(_number(flow), len(items)))
    flows = p.state.of(Flows)
    flows[run.id] = Flow(run, flow.order, step, items=[payload.encode(one, "with") for one in arguments])
    flows.touched[run.id] = None


def make_run(p: Pass, flow: Flow, step: WorkflowStep, name: str, arguments: dict[str, Any]) -> None:
    """Make the run of a step, or of an item of a group; raise `InterlockError`."""
    job = job_for(p, flow, step)
    check_lane(p, flow.run.tenant, lane_of(p, job.lane or MAIN)[0])
    given = {**(job.payload or {}), **arguments}
    for secret in job.secrets:
        if isinstance(given.get(secret), str):
            given[secret] = Secret(given[secret])
    _new(p, flow, step, name, job, payload.encode(given, "with"), PENDING, "step")


def job_for(p: Pass, flow: Flow, step: WorkflowStep) -> Job:
    """Return the job that a step runs, with the step's own options; raise `UnknownJob`."""
    above = flow.run if flow.step is None else p.state.runs[str(flow.run.parent)]  # the workflow, above a group too
    version, own = above.job_version, step.retry or step.lane
    if step.run is None:
        job = p.state.job(step.job or step.workflow or "")
        if not own:
            return job
    else:
        job = p.state.versions[version]
    flows = p.state.of(Flows)
    key = version, job.version, step.id
    found = flows.variants.get(key)
    if found is None:
        if step.run is not None:
            found = Job(id=f"{job.id}.{step.id}"[:128], work=step.run.work, lane=step.lane or job.lane)
        else:
            found = msgspec.structs.replace(job, lane=step.lane or job.lane, version="")
        if step.retry is not None:
            found = msgspec.structs.replace(found, retry=step.retry, version="")
        if len(flows.variants) >= MOST_VARIANTS:
            flows.variants.clear()
        flows.variants[key] = found
    return found


def _make_ended(p: Pass, flow: Flow, step: WorkflowStep, state: State, reason: str, error: str | None = None) -> None:
    """Make the run of a step that ends before it begins."""
    try:
        job = BUILT_IN[SLEEP] if step.waits else job_for(p, flow, step)
    except InterlockError:
        job = Job(id=step.job or step.workflow or step.id)
    run = _new(p, flow, step, step.id, job, payload.EMPTY, State.PRERUN, "step")
    if state is State.FAILED:
        run.outcome, run.error = Outcome.FAILED_FATAL, error
    p.move(run, state, reason)


def _number(flow: Flow) -> int:
    return len(flow.ended) + len(flow.live)


def _new(
    p: Pass,
    flow: Flow,
    step: WorkflowStep,
    name: str,
    job: Job,
    content: bytes,
    state: State,
    reason: str,
    delay: float | None = None,
) -> Run:
    above, now = flow.run, p.now
    if job.version not in p.state.versions:
        p.state.versions[job.version] = job
        p.batch.jobs.append(job)
    limits = [limit for limit in (job.deadline, None if flow.step is step else step.timeout) if limit is not None]
    deadline = now + min(limits) if limits else None
    lane, warning = lane_of(p, job.lane or MAIN)
    flow.live[name] = None
    run = Run(
        flow.id_of(name),
        job.id,
        above.tenant,
        None,
        None,
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
        facets=Facets(labels=job.with_labels(None), step=StepFacet(_number(flow) - 1)),
    )
    if state is State.UNDER_WAY:
        run.started_at = now
    p.begin(run)
    put_under(p, run, above)
    if deadline is not None:
        p.state.set_timer(deadline, run)
    return run

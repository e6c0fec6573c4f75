"""Start the steps of a graph: resolve their templates, and order what they say."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from interlock.core.effects import PendingEffects, ask
from interlock.core.transition import Pass
from interlock.core.workflows.events import NotKnown, send_event, wait_for_event
from interlock.core.workflows.flow import BUILT_IN, MOST_VARIANTS, Flow, Flows
from interlock.core.workflows.steps import (
    StepOptions,
    ask_person,
    begin_parallel,
    make_ended,
    run_group,
    run_job,
    sleep,
    sleep_until,
)
from interlock.core.workflows.values import INPUT, NoValue, Scope, UnreadValue, references
from interlock.error import InterlockError
from interlock.fields.field_types import FieldPath, Span
from interlock.fields.payload import encode_result
from interlock.model.job import Job
from interlock.model.schedule.schedule import instant
from interlock.model.state import State
from interlock.model.workflow import APPROVAL, EVENT, MOST_ITEMS, PARALLEL, SEND, SLEEP, Workflow, WorkflowStep
from interlock.wire.effect import ReadRecord, ReadResults

_BUILT_IN = {"parallel": PARALLEL, "approve": APPROVAL, "event": EVENT, "send": SEND}
_EVERY_SPAN = Span()


def start_all(p: Pass, flow: Flow, names: Iterable[str], graph: Workflow, scope: Scope) -> bool:
    """Start these steps; return False if some must wait, for results that are read first or for the record of another
    workflow."""
    unread: set[str] = set()
    waits = False
    for name in names:
        step = graph.by_id[name]
        try:
            start(p, flow, step, scope)
        except UnreadValue:
            unread |= references(text for _, text in step.expressions())
        except NotKnown:
            waits = True  # it is asked again when that is known
        else:
            if step.parallel is not None and flow.id_of(name) not in p.state.runs:
                skip_rest(p, flow, graph.parts[name])
    if unread:
        ask_results(p, flow, unread)
    return not unread and not waits


def ask_results(p: Pass, flow: Flow, names: Iterable[str]) -> None:
    """Read results, and the payload, that only the store has."""
    ends = {name: flow.ended.get(flow.run_name(name)) for name in names}
    stored = [name for name, end in ends.items() if name == INPUT or (end is not None and end.is_stored)]
    if stored:
        ids = sorted(flow.id_of_step(name) if name else flow.run.id for name in stored)
        ask_once(p, ReadResults(flow.run.id, flow.run.seq, tuple(ids)))


def ask_once(p: Pass, effect: ReadRecord | ReadResults) -> None:
    if effect not in p.state.of(PendingEffects).pending:
        ask(p, effect)


def skip_rest(p: Pass, flow: Flow, graph: Workflow) -> None:
    """Skip the steps inside a parallel step that have not begun: when it is over, each of them has an end."""
    for name in graph.regular:
        if name not in flow.ended and name not in flow.live and name not in flow.waits:
            make_ended(p, flow, name, _named_job(p, flow, graph.by_id[name]), State.SKIPPED, "not reached")


def start(p: Pass, flow: Flow, step: WorkflowStep, scope: Scope) -> None:
    """Start a step. A step whose values cannot be made is a failed run. Raise `UnreadValue`, `NotKnown` or `NoRoom`."""
    p.state.of(Flows).check_room(flow.run)
    options = StepOptions(step.timeout, step.undo)
    try:
        if step.if_ is not None and not _is_wanted(step, scope):
            make_ended(p, flow, step.id, _named_job(p, flow, step), State.SKIPPED, "its condition is false")
        elif step.parallel is not None:
            begin_parallel(p, flow, step, options)
        elif step.sleep is not None:
            delay = _EVERY_SPAN.check(scope.fill(step.sleep, "sleep"), FieldPath("sleep"))
            sleep(p, flow, step.id, delay, options)
        elif step.until is not None:
            sleep_until(p, flow, step.id, instant(scope.fill(step.until, "until"), "until"), options)
        elif step.approve is not None:
            question, data = (
                scope.fill(getattr(step.approve, name), f"approve.{name}") for name in ("question", "data")
            )
            ask_person(p, flow, step.id, question, data, step.timeout)
        elif step.event is not None:
            wait_for_event(p, flow, step.id, step.event, options)
        elif step.send is not None:
            to, value = scope.fill(step.send.to, "send.to"), scope.fill(step.send.value, "send.value")
            send_event(p, flow, step.id, str(to), step.send.name, encode_result(value))
        elif step.for_each is not None:
            job_for(p, flow, step)
            run_group(p, flow, step.id, step, _arguments(step, scope), StepOptions(step.timeout))
        else:
            arguments = scope.fill(step.with_, "with") if step.with_ else {}
            run_job(p, flow, step.id, job_for(p, flow, step), arguments, options)
    except (NoValue, InterlockError) as error:
        make_ended(p, flow, step.id, _named_job(p, flow, step), State.FAILED, "could not start", str(error))


def _is_wanted(step: WorkflowStep, scope: Scope) -> bool:
    found = scope.fill(step.if_, "if")
    if not isinstance(found, bool):
        raise NoValue(f"if: the value is a {_kind(found)}; it must be true or false")
    return found


def _kind(value: Any) -> str:
    names = {type(None): "null", str: "text", dict: "mapping", list: "list", bool: "truth value"}
    return names.get(type(value), "number")


def _arguments(step: WorkflowStep, scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each item of a group."""
    items = scope.fill(step.for_each, "for_each")
    if not isinstance(items, list):
        raise NoValue(f"for_each: the value is a {_kind(items)}; it must be a list")
    if len(items) > MOST_ITEMS:
        raise NoValue(f"for_each: {len(items):,} items; at most {MOST_ITEMS:,} are allowed")
    try:
        for index, item in enumerate(items):
            scope.item = {"item": item, "index": index}
            yield scope.fill(step.with_ or {}, "with")
    finally:
        scope.item = {}


def _named_job(p: Pass, flow: Flow, step: WorkflowStep) -> Job:
    """Return the job that the run of a step names if it does not begin."""
    try:
        return BUILT_IN[_BUILT_IN.get(step.kind, SLEEP)] if step.is_built_in else job_for(p, flow, step)
    except InterlockError:
        return Job(id=step.job or step.workflow or step.id)


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

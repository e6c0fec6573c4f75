"""The record of a workflow whose author is a function, in memory: the steps of its round, in both orders."""

from collections.abc import Iterable

from msgspec import Raw
from msgspec.structs import replace

from interlock.core.transition import Pass
from interlock.core.workflows.flow import EVENT_RUN, EndedStep, Flow, Flows
from interlock.model.facets import GroupJob, StepFacet
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.workflow import Compensate, WorkflowStep
from interlock.model.workflow_record import NULL, RecordedStep, WorkflowRecord


def is_code(job: Job) -> bool:
    return job.workflow is not None and job.workflow.is_code


def note_completion(p: Pass, run: Run) -> None:
    """Give a step that ends its place in the order of completion, unless it is of an earlier round. The place is stored
    with the end, so a replay delivers the same order. It does not count the steps that ended before: after a restart
    they may not be read yet."""
    flow = p.state.of(Flows).get(run.parent or "")
    if flow is None or not flow.is_code:
        return
    step = name = flow.name_of(run.id)
    if waits := flow.waits:
        step = next((step for step, run_name in waits.items() if run_name == name), name)
    if step not in flow.asked and step == name:
        return
    p.state.numbers.events += 1  # never above the position in the store, because the end of the step has one
    if step != name:
        complete_wait(p, flow, step, p.state.numbers.events)
        return
    facet = run.step_facet
    assert facet is not None
    p.set_facet(run, step=replace(facet, done=p.state.numbers.events))
    flow.completed[name] = p.state.numbers.events


def complete_wait(p: Pass, flow: Flow, step: str, place: int) -> None:
    """Give a step whose event has come its place in the order of completion. The workflow has it, because the run of an
    event that came before the step has ended long ago."""
    if step not in flow.completed:
        facet = flow.run.workflow_facet
        places = {**facet.places, step: (facet.places[step][0], place)}
        p.set_facet(flow.run, workflow=replace(facet, places=places))
        flow.completed[step] = place


def is_of_round(flow: Flow, name: str) -> bool:
    """Return whether no wait of an earlier round has read this event."""
    event, _, number = name.removeprefix(EVENT_RUN).rpartition(".")
    return int(number) > flow.run.workflow_facet.read_before.get(event, 0)


def belongs(flow: Flow, name: str) -> bool:
    """Return whether a run that has ended is a step of this round, or an event that none before has read."""
    return is_of_round(flow, name) if name.startswith(EVENT_RUN) else name in flow.completed


def know_step(flow: Flow, name: str, facet: StepFacet | None) -> bool:
    """Take a stored step of the present round into the record, or an event; return False for any other."""
    if name.startswith(EVENT_RUN):
        return is_of_round(flow, name)
    if facet is None or not flow.has_asked(name):
        return False
    flow.asked[name] = facet.number
    return True


def sort_steps(flow: Flow, ends: Iterable[EndedStep]) -> None:
    """Put the steps of a record that was read in order."""
    waits = flow.run.workflow_facet.places
    flow.asked.update({step: number for step, (number, _) in waits.items()})
    flow.asked = dict(sorted(flow.asked.items(), key=lambda item: item[1]))
    places = {flow.name_of(end.run_id): end.facet.done for end in ends if end.facet is not None}
    places |= {step: place for step, (_, place) in waits.items()}
    known = {name: place for name, place in places.items() if name in flow.asked and place is not None}
    flow.completed = dict(sorted((known | flow.completed).items(), key=lambda item: item[1]))


def group_step(run: Run) -> WorkflowStep | None:
    """Return the step of a group that a function asked for."""
    each = run.facets and run.facets.step and run.facets.step.of_each
    return step_of(each) if each else None


def step_of(each: GroupJob) -> WorkflowStep:
    undo = each.undo
    compensate = None if undo is None else Compensate(job=undo.job, with_=undo.arguments)
    return WorkflowStep(id="each", job=each.job, max_parallel=each.max_parallel, compensate=compensate)


def deliverable(flow: Flow) -> list[str]:
    """Return the ended steps that the function may see, in the order of completion. One whose result is not scanned yet
    holds up those after it."""
    waits, ended, found = flow.waits, flow.ended, list[str]()
    if not waits and flow.completed.keys() <= ended.keys():
        return list(flow.completed)
    for name in flow.completed:
        if waits.get(name, name) not in ended:
            break
        found.append(name)
    return found


def record_of(flow: Flow, given: list[str], payload: bytes, is_over: bool = False) -> WorkflowRecord:
    """Return the record with these ended steps. All results must have been read."""
    facet, prefix = flow.run.workflow_facet, flow.round_prefix
    waits, read = facet.waits, flow.read
    places = {name: place for place, name in enumerate(given)}
    steps = []
    for name in flow.asked:
        if (place := places.get(name)) is None:
            steps.append(RecordedStep(name.removeprefix(prefix)))
            continue
        own = waits.get(name, name)
        end = flow.ended[own]
        result = read.get(own) or end.result
        raw = NULL if result is None else Raw(result)
        steps.append(RecordedStep(name.removeprefix(prefix), place, end.state, end.at, raw, end.error))
    run = flow.run
    return WorkflowRecord(
        workflow=run.job_id,
        run_id=run.id,
        payload=Raw(payload),
        began_at=facet.began_at or run.started_at or run.created_at,
        round=facet.round,
        steps=steps,
        seen=facet.seen,
        ended=is_over,
        begins_with=facet.begins_with if facet.round == 1 else None,
        seed=facet.seed,
        changes=facet.changes,
    )

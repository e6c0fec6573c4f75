"""Run a workflow again from a step: the steps before it are taken over from the run that has ended.

A step that is taken over is a run of the new workflow that ends as it is made, with the payload, the result and the
compensation of the old one. The new workflow finds it in its record, as a workflow does after a restart.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from interlock.core.transition import Pass
from interlock.core.workflows.code import step_of
from interlock.core.workflows.flow import BUILT_IN, DONE, UNDO, Flow, result_of
from interlock.core.workflows.graph import before
from interlock.core.workflows.steps import StepOptions, make_ended, new_step
from interlock.core.workflows.stored_record import stored_record
from interlock.error import BadUse, BadValue
from interlock.fields.field_types import did_you_mean
from interlock.fields.payload import EMPTY
from interlock.model.facets import StepFacet, WorkflowFacet
from interlock.model.failure import Outcome
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import TAKEN_OVER, UNDO_LATER, Then, Workflow

MOST_BYTES = 16 * 1024 * 1024  # of payloads and results of the steps of a run that is run again from one
FIELD = "from"
_KEPT = (State.SUCCEEDED, State.TIMEOUT, State.DENIED, State.CANCELLED)  # other ends are failures to the new run


def steps_before(p: Pass, old: Run, name: str) -> list[Run]:
    """Return the steps of an ended run that another one takes over if it begins with this step."""
    workflow = p.state.job(old.job_id).workflow
    if workflow is None:
        raise BadUse(FIELD, f"run {old.id!r} is not a workflow; leave it out to run it again", name)
    if workflow.is_code:
        return _before_in_function(old, name, _read(p, old))
    if name in workflow.handlers:
        after = " or ".join(map(repr, workflow.handlers[name]))
        raise BadUse(FIELD, f"{name!r} runs only after an error; name the step that had it: {after}", name)
    if name not in workflow.by_id:
        raise BadValue(FIELD, name, f"a step of workflow {old.job_id!r}{did_you_mean(name, workflow.regular)}")
    below = _read(p, old)
    below |= {step: below[run] for step, run in old.workflow_facet.waits.items() if run in below}
    taken = _taken(workflow, name, below)
    _check_before(before(workflow)[name], name, taken, below)
    for step in taken:
        if below[step].is_unscanned:
            raise BadUse(FIELD, f"the result of step {step!r} is not scanned yet; try again in a moment", name)
    return [run for name, run in below.items() if name in taken or _group_of(name) in taken]


def _read(p: Pass, old: Run) -> dict[str, Run]:
    """Return the ended steps of a run, and the items that have a compensation."""
    runs = p.facts.steps[old.id]
    if runs is None:
        raise BadUse(FIELD, f"the steps of run {old.id!r} have more than {MOST_BYTES:,} bytes; run it again as a whole")
    return {run.id[len(old.id) + 1 :]: run for run in runs}


def _before_in_function(old: Run, name: str, below: Mapping[str, Run]) -> list[Run]:
    """Return the steps that a function has asked for before this one, and its compensations that belong to no step."""
    if old.workflow_facet.round > 1:
        raise BadUse(FIELD, f"run {old.id!r} has begun another round; leave it out to run all of it again", name)
    record, ids = stored_record(old, below.values())
    names = [step.name for step in record.steps]
    if name not in names:
        raise BadValue(FIELD, name, f"a step that run {old.id!r} has asked for{did_you_mean(name, names)}")
    earlier = record.steps[: names.index(name)]
    taken = {ids[step.name][len(old.id) + 1 :] for step in earlier}
    taken |= {run for run, step in below.items() if step.job_id == UNDO_LATER and _facet(step).number <= len(earlier)}
    for run in sorted(taken):
        if undone := _undone(run, below):
            rule = f"step {run!r} before it was undone by {undone!r}, so its result is void"
            raise BadUse(FIELD, f"{name!r}: {rule}; run the workflow as a whole", name)
    for step in earlier:
        if step.place is None:
            raise BadUse(
                FIELD,
                f"{name!r}: step {step.name!r} before it had not ended when the function did; begin with that one",
            )
    return [run for name, run in below.items() if name in taken or _group_of(name) in taken]


def _group_of(name: str) -> str:
    """Return the step that the run of an item belongs to; empty for any other run."""
    group, _, item = name.partition(".")
    return group if item.isdecimal() else ""


def _taken(workflow: Workflow, name: str, below: Mapping[str, Run]) -> set[str]:
    """Return the steps whose ends hold in the new run: they are over, not undone, and follow only others like them. A
    parallel step is over with all that is inside it."""
    earlier, parts, around = before(workflow), workflow.parts, workflow.around
    begun = {name, *(parts[name].by_id if name in parts else ())}
    while (last := around.get(name)) is not None:
        begun.add(name := last)
    kept = {
        step
        for step in workflow.regular
        if step in below and step not in begun and earlier[step].isdisjoint(begun) and not _undone(step, below)
    }
    while wrong := {
        step
        for step in kept
        if not (_is_over(workflow, step, below) or around.get(step) in kept)
        or not earlier[step].union(parts[step].regular if step in parts else ()) <= kept
    }:
        kept -= wrong
    after = {workflow.by_id[step].on_error.step or "" for step in kept if below[step].state not in DONE}
    inside = {step for name in after if name in parts for step in parts[name].by_id}
    return kept | {step for step in (*after, *inside) if step in below}


def _is_over(workflow: Workflow, name: str, below: Mapping[str, Run]) -> bool:
    state, on_error = below[name].state, workflow.by_id[name].on_error
    goes_on = on_error.then is Then.CONTINUE and (on_error.step is None or on_error.step in below)
    return state in DONE or (goes_on and state is not State.CANCELLED)


def _undone(name: str, below: Mapping[str, Run]) -> str:
    """Return the compensation of a step, or of one of its items; empty if there is none."""
    return next((run for run in below if run == UNDO + name or run.startswith(f"{UNDO}{name}.")), "")


def _check_before(needed: Iterable[str], name: str, taken: set[str], below: Mapping[str, Run]) -> None:
    for step in sorted(set(needed) - taken):
        if undone := _undone(step, below):
            rule = (
                f"step {step!r} before it was undone by {undone!r}, so its result is void; run the workflow as a whole"
            )
        else:
            state = below[step].state if step in below else "not reached"
            rule = f"step {step!r} before it {'was ' * (state == 'not reached')}{state}; begin with that one"
        raise BadUse(FIELD, f"{name!r}: {rule}", name)


def _events_of(old: Run, steps: Iterable[Run]) -> tuple[dict[str, str], dict[str, str]]:
    """Number the events anew that these steps have read. Return step → name of its run, and old name → new name."""
    taken = {step.id for step in steps}
    waits: dict[str, str] = {}
    names: dict[str, str] = {}
    for step, run in old.workflow_facet.waits.items():
        if f"{old.id}@{run}" in taken:
            event = run.rpartition(".")[0]
            number = 1 + sum(name.rpartition(".")[0] == event for name in names)
            waits[step] = names[run] = f"{event}.{number}"
    return waits, names


def take_over(p: Pass, again: Run, old: Run, name: str, steps: list[Run]) -> None:
    """Make the steps that a new workflow run takes over. It begins with another."""
    waits, names = _events_of(old, steps)
    workflow = p.state.job_of(again).workflow
    assert workflow is not None
    facet = WorkflowFacet(begins_with=name, waits=waits)
    numbers: dict[str, int] = {}  # of a function: run of an old step → its place in the order of request
    if workflow.is_code:
        record, ids = stored_record(old, steps)
        numbers = {ids[step.name]: number for number, step in enumerate(record.steps)}
        facet = replace(facet, changes=old.workflow_facet.changes, seed=old.workflow_facet.seed or old.id)
    p.set_facet(again, workflow=facet)
    flow = Flow(again, 0)
    groups: dict[str, Flow] = {}
    made: list[tuple[Run, Run]] = []
    for step in sorted(steps, key=_number):
        parent = str(step.parent)
        above = groups.get(parent, flow)
        own = step.id[len(parent) + 1 :]
        own = names.get(own, own)
        reason = f"taken over from {step.id}"
        if step.state is State.SKIPPED:
            make_ended(p, above, own, BUILT_IN[TAKEN_OVER], State.SKIPPED, reason)
            continue
        options = StepOptions(undo=_facet(step).undo)
        run = new_step(
            p, above, own, BUILT_IN[TAKEN_OVER], step.payload or EMPTY, State.UNDER_WAY, reason, options,
            items=_facet(step).items,
        )  # fmt: skip
        made.append((step, run))
        if _facet(step).items is not None:
            each = _facet(step).of_each
            groups[step.id] = Flow(run, 0, step_of(each) if each is not None else workflow.by_id[own])
    read = {f"{old.id}@{run}": old.workflow_facet.places.get(step) for step, run in old.workflow_facet.waits.items()}

    def place_of(step: Run) -> int:
        wait = read.get(step.id)
        return (wait[1] or 0) if wait else _facet(step).completed or _facet(step).done or 0

    places: dict[str, tuple[int, int]] = {}  # run that ends → its places in the orders of request and of completion
    # An event that came early has the place of the step before it: the function asked for it later.
    for step, run in sorted(made, key=lambda pair: (place_of(pair[0]), numbers.get(pair[0].id, 0), pair[0].ended_at)):
        if step.id in numbers:
            p.state.numbers.events += 1
            places[run.id] = number, done = numbers[step.id], p.state.numbers.events
            placed = replace(_facet(run), number=number, done=None if step.id in read else done)
            p.set_facet(run, step=replace(placed, of_each=_facet(step).of_each))
        run.result, run.error = result_of(step), step.error
        run.outcome = step.outcome or Outcome.SUCCEEDED
        p.move(run, step.state if step.state in _KEPT else State.FAILED, f"taken over from {step.id}")
    if workflow.is_code:
        own_places = {step: places[f"{again.id}@{run}"] for step, run in waits.items()}
        p.set_facet(again, workflow=replace(facet, places=own_places))


def _facet(step: Run) -> StepFacet:
    facet = step.facets and step.facets.step
    assert isinstance(facet, StepFacet)
    return facet


def _number(step: Run) -> tuple[int, int]:
    return step.id.count("."), _facet(step).number

"""Faults of a workflow that can be found before it runs, each with the path of its field."""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from interlock.core.workflows.graph import before, cycle_of, unreachable
from interlock.core.workflows.values import INPUT, STEP_VALUES, references
from interlock.error import InterlockError, shown
from interlock.fields.field_types import did_you_mean
from interlock.fields.template import expressions, path_of
from interlock.model.workflow import MOST_ITEMS, Workflow, WorkflowStep
from interlock.policy.value_expression import ROOTS, compiled_value, roots_in

Fault = tuple[str, str]  # path of the field, and the rule that it breaks
Steps = tuple[WorkflowStep, ...]


def faults_of(workflow: Workflow) -> list[Fault]:
    """Return every fault of a graph and of its values. What is wrong is left out for the next check, so that no fault
    hides another."""
    found: list[Fault] = []
    workflow = _with_own_ids(workflow, found)
    workflow = _with_known_names(workflow, found)
    places = _paths(workflow)
    while cycle := next(filter(None, map(cycle_of, (workflow, *workflow.parts.values()))), []):
        found.append((f"{places[cycle[0]]}.needs", f"{' needs '.join(map(repr, cycle))}; a cycle never starts"))
        workflow = _without_need(workflow, cycle[0], cycle[1])
    lost = [name for graph in (workflow, *workflow.parts.values()) for name in unreachable(graph)]
    for name in lost:
        found.append((places[name], f"{name!r} can never start: it follows only errors of steps that never start"))
    if not lost:
        found += _faults_of_values(workflow, places)
    return found


def places_of(steps: Steps, above: str = "steps") -> Iterator[tuple[WorkflowStep, str]]:
    """Yield each step, those inside others too, with its path."""
    for index, step in enumerate(steps):
        place = f"{above}[{index}]"
        yield step, place
        yield from _inside(step, place)


def _inside(step: WorkflowStep, place: str) -> Iterator[tuple[WorkflowStep, str]]:
    for number, branch in enumerate(step.parallel or ()):
        below = f"{place}.parallel[{number}]"
        if len(branch) > 1:
            yield from places_of(branch, below)
        else:  # written as a step, or as a list of one
            yield branch[0], below
            yield from _inside(branch[0], below)


def _changed(steps: Steps, change: Callable[[WorkflowStep], WorkflowStep]) -> Steps:
    """Return these steps, and those inside them, as `change` makes them."""

    def of(step: WorkflowStep) -> WorkflowStep:
        step = change(step)
        inside = step.parallel
        return step if inside is None else replace(step, parallel=tuple(_changed(branch, change) for branch in inside))

    return tuple(map(of, steps))


def _with_own_ids(workflow: Workflow, found: list[Fault]) -> Workflow:
    """Refuse an id that two steps have, and rename the second one."""
    places = iter([place for _, place in places_of(workflow.steps)])
    seen: dict[str, str] = {}

    def rename(step: WorkflowStep) -> WorkflowStep:
        place = next(places)
        first = seen.setdefault(step.id, place)
        if first == place:
            return step
        found.append((f"{place}.id", f"{step.id!r} is the id of {first} too; give each step its own"))
        return replace(step, id=f"_same_{len(found)}")

    return replace(workflow, steps=_changed(workflow.steps, rename))


def _paths(workflow: Workflow) -> dict[str, str]:
    return {step.id: place for step, place in places_of(workflow.steps)}


def _with_known_names(workflow: Workflow, found: list[Fault]) -> Workflow:
    """Refuse names of steps that are none, or that stand elsewhere, and fields that a step does not have; leave the
    names out."""
    paths = _paths(workflow)

    def check(step: WorkflowStep) -> WorkflowStep:
        place, needs, on_error = paths[step.id], step.needs, step.on_error
        if needs is not None:
            rules = [_fault_of_need(workflow, step, need) for need in needs]
            found.extend((f"{place}.needs[{at}]", rule) for at, rule in enumerate(rules) if rule is not None)
            needs = tuple(need for need, rule in zip(needs, rules, strict=True) if rule is None)
        if needs is not None and step.id in workflow.handlers:
            found.append((f"{place}.needs", f"{step.id!r} runs only after an error, and needs nothing else"))
            needs = None
        if (after := on_error.step) is not None and (rule := _fault_of_name(workflow, step, after)) is not None:
            found.append((f"{place}.on_error.step", rule))
            on_error = replace(on_error, step=None)
        found.extend((f"{place}.{name}", rule) for name, rule in _misplaced(step))
        return replace(step, needs=needs, on_error=on_error)

    return replace(workflow, steps=_changed(workflow.steps, check))


def _fault_of_need(workflow: Workflow, step: WorkflowStep, need: str) -> str | None:
    rule = _fault_of_name(workflow, step, need)
    if rule is None and need in workflow.handlers:
        return f"{need!r} runs only after an error, so nothing can need it"
    return rule


def _fault_of_name(workflow: Workflow, step: WorkflowStep, name: str) -> str | None:
    """Return why a step cannot name this one in `needs` or `on_error`: both stand in one parallel step, or in none."""
    known, here, there = workflow.by_id, workflow.around.get(step.id), workflow.around.get(name)
    if name not in known:
        return f"{name!r} is not a step{did_you_mean(name, known)}"
    if here == there:
        return None
    if here is not None:
        return f"{name!r} is not inside {here!r}, as {step.id!r} is"
    return f"{name!r} is inside {there!r}, and {step.id!r} is not; name {there!r}"


def _without_need(workflow: Workflow, name: str, need: str) -> Workflow:
    needs = next(graph.needs[name] for graph in (workflow, *workflow.parts.values()) if name in graph.needs)
    left = tuple(other for other in needs if other != need)
    steps = _changed(workflow.steps, lambda step: replace(step, needs=left) if step.id == name else step)
    return replace(workflow, steps=steps)


def _misplaced(step: WorkflowStep) -> Iterator[Fault]:
    """Yield the fields that this kind of step does not have."""
    if step.is_built_in:
        given = {"with": step.with_, "for_each": step.for_each, "retry": step.retry, "lane": step.lane,
                 "compensate": step.compensate}  # fmt: skip
        yield from ((name, f"a step with {step.kind} has none") for name, value in given.items() if value is not None)
    if isinstance(step.for_each, list) and len(step.for_each) > MOST_ITEMS:
        yield "for_each", f"{len(step.for_each):,} items; at most {MOST_ITEMS:,} are allowed"
    if step.workflow is not None and step.retry is not None:
        yield "retry", "a workflow is not retried; give it to its steps"
    if step.run is not None and step.run.job is not None:
        yield "run.job", f"use job: {step.run.job} instead"


def _faults_of_values(workflow: Workflow, places: Mapping[str, str]) -> Iterator[Fault]:
    earlier = before(workflow)
    for step in workflow.by_id.values():
        for field, text in step.expressions():
            in_item = step.for_each is not None and field.startswith("with")
            for rule in _faults_of(text, workflow, earlier[step.id], in_item):
                yield f"{places[step.id]}.{field}", rule
        for field, text in expressions(step.compensate and step.compensate.with_, "compensate.with"):
            if wrong := _roots(text) - {"input", "result"}:
                rule = f"${{{text}}}: {', '.join(sorted(wrong))} is not known in a compensation; use input or result"
                yield f"{places[step.id]}.{field}", rule
    for place, text in expressions(workflow.result, "result"):
        yield from ((place, rule) for rule in _faults_of(text, workflow, set(workflow.regular), False))


def _roots(text: str) -> set[str]:
    path = path_of(text)
    return {str(path[0])} if path is not None else roots_in(text)


def _faults_of(text: str, workflow: Workflow, earlier: set[str], in_item: bool) -> Iterator[str]:
    path, written = path_of(text), f"${{{text}}}"
    if path is None:
        try:
            compiled_value(text)
        except InterlockError as error:
            yield f"{written}: {error}"
            return
    roots, known = _roots(text), [root for root in ROOTS if root != "result"]
    if "result" in roots or (path is not None and path[0] not in ROOTS):
        yield f"{written} begins with none of {', '.join(known)}"
    if not in_item and roots & {"item", "index"}:
        yield f"{written}: item and index are known only in `with` of a step with for_each"
    for name in sorted(references([text]) - {INPUT}):
        if name not in workflow.by_id:
            yield f"{written}: {shown(name)} is not a step{did_you_mean(name, workflow.by_id)}"
        elif name not in earlier:
            yield f"{written} is used before step {name!r} has ended; add it to needs"
    if "steps" in roots and not references([text]) - {INPUT}:
        yield f"{written}: name the step, as in steps.{workflow.steps[0].id}.result"
    if path is not None and path[0] == "steps" and len(path) > 1 and (len(path) < 3 or path[2] not in STEP_VALUES):
        yield f"{written}: a step has {', '.join(STEP_VALUES)}"

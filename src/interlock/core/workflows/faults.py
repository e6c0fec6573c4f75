"""Faults of a workflow that can be found before it runs, each with the path of its field."""

from collections.abc import Iterator

from interlock.core.workflows.graph import before, cycle_of, unreachable
from interlock.core.workflows.values import INPUT, STEP_VALUES, references
from interlock.error import InterlockError, shown
from interlock.fields.field_types import did_you_mean
from interlock.fields.template import expressions, path_of
from interlock.model.workflow import Workflow, WorkflowStep
from interlock.policy.value_expression import ROOTS, compiled_value, roots_in

Fault = tuple[str, str]  # path of the field, and the rule that it breaks


def faults_of(workflow: Workflow) -> Iterator[Fault]:
    """Yield every fault of the graph, then those of its values."""
    found = list(_faults_of_names(workflow))
    yield from found
    if found:
        return
    if cycle := cycle_of(workflow):
        yield f"{_place(workflow, cycle[0])}.needs", f"{' needs '.join(map(repr, cycle))}; a cycle never starts"
        return
    lost = list(unreachable(workflow))
    for name in lost:
        yield _place(workflow, name), f"{name!r} can never start: it follows only errors of steps that never start"
    if not lost:
        yield from _faults_of_values(workflow)


def _place(workflow: Workflow, name: str) -> str:
    return f"steps[{[step.id for step in workflow.steps].index(name)}]"


def _faults_of_names(workflow: Workflow) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    known = workflow.by_id
    for index, step in enumerate(workflow.steps):
        place = f"steps[{index}]"
        first = seen.setdefault(step.id, index)
        if first != index:
            yield f"{place}.id", f"{step.id!r} is the id of steps[{first}] too; give each step its own"
        for at, need in enumerate(step.needs or ()):
            if need not in known:
                yield f"{place}.needs[{at}]", f"{need!r} is not a step{did_you_mean(need, known)}"
            elif need in workflow.handlers:
                yield f"{place}.needs[{at}]", f"{need!r} runs only after an error, so nothing can need it"
        if step.needs is not None and step.id in workflow.handlers:
            yield f"{place}.needs", f"{step.id!r} runs only after an error, and needs nothing else"
        after = step.on_error.step
        if after is not None and after not in known:
            yield f"{place}.on_error.step", f"{after!r} is not a step{did_you_mean(after, known)}"
        yield from ((f"{place}.{name}", rule) for name, rule in _misplaced(step))


def _misplaced(step: WorkflowStep) -> Iterator[Fault]:
    """Yield the fields that this kind of step does not have."""
    if step.is_built_in:
        given = {"with": step.with_, "for_each": step.for_each, "retry": step.retry, "lane": step.lane,
                 "compensate": step.compensate}  # fmt: skip
        yield from ((name, f"a step with {step.kind} has none") for name, value in given.items() if value is not None)
    if step.workflow is not None and step.retry is not None:
        yield "retry", "a workflow is not retried; give it to its steps"
    if step.run is not None and step.run.job is not None:
        yield "run.job", f"use job: {step.run.job} instead"


def _faults_of_values(workflow: Workflow) -> Iterator[Fault]:
    earlier = before(workflow)
    for index, step in enumerate(workflow.steps):
        for place, text in step.expressions():
            in_item = step.for_each is not None and place.startswith("with")
            for rule in _faults_of(text, workflow, earlier[step.id], in_item):
                yield f"steps[{index}].{place}", rule
        for place, text in expressions(step.compensate and step.compensate.with_, "compensate.with"):
            if wrong := _roots(text) - {"input", "result"}:
                rule = f"${{{text}}}: {', '.join(sorted(wrong))} is not known in a compensation; use input or result"
                yield f"steps[{index}].{place}", rule
    for place, text in expressions(workflow.result, "result"):
        yield from ((place, rule) for rule in _faults_of(text, workflow, set(workflow.needs), False))


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

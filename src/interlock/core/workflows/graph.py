"""The author of a workflow that is a graph: what follows from the steps that have ended. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from interlock.core.workflows.flow import DONE, StepEnd
from interlock.model.state import State
from interlock.model.workflow import Then, Workflow, WorkflowStep


class Orders(msgspec.Struct, frozen=True):
    """What a workflow does next."""

    start: list[str] = []
    failed: str | None = None  # step whose error ends the workflow
    keeps: tuple[str, ...] = ()  # steps that follow errors, and run to their ends although it ends
    is_done: bool = False


def orders(workflow: Workflow, live: Collection[str], ended: Mapping[str, StepEnd], goes_on: bool = False) -> Orders:
    """Return what follows in a graph. If it `goes_on`, a step that fails stops only those that need it."""
    start: list[str] = []
    bad = {name for name, end in ended.items() if end.state not in DONE}
    if bad:
        failed = [step for step in workflow.steps if step.id in bad]
        start += [name for name in _after(failed, ended) if name not in live and name not in ended]
        for step in failed if not goes_on else ():
            if _ends_all(step, ended[step.id]):
                return Orders(start, step.id, tuple(dict.fromkeys([*start, *_after([step], ended)])))
    for name, needs in workflow.needs.items():
        if name in ended or name in live:
            continue
        for need in needs:
            if need not in ended or (need in bad and not _is_handled(workflow, need, ended)):
                break
        else:
            start.append(name)
    return Orders(start, is_done=not live and not start)


def after_errors(
    workflow: Workflow, kept: Collection[str], live: Collection[str], ended: Mapping[str, StepEnd]
) -> list[str]:
    """Return the steps that follow errors of these, which run to their ends."""
    bad = [workflow.by_id[name] for name in kept if name in ended and not ended[name].is_done]
    return [name for name in _after(bad, ended) if name not in live and name not in ended]


def _after(failed: Iterable[WorkflowStep], ended: Mapping[str, StepEnd]) -> list[str]:
    """Return the steps that run after the errors of these. A cancelled step has none."""
    found = (step.on_error.step for step in failed if ended[step.id].state is not State.CANCELLED)
    return list(dict.fromkeys(name for name in found if name is not None))


def _ends_all(step: WorkflowStep, end: StepEnd) -> bool:
    """Return whether the graph of a step fails with it; `on_error` does not follow a cancelled one."""
    return not end.is_done and (step.on_error.then is Then.FAIL or end.state is State.CANCELLED)


def _is_handled(workflow: Workflow, name: str, ended: Mapping[str, StepEnd]) -> bool:
    """Return whether the steps that need this one may start: its error does not end the graph, and the step that
    follows the error has ended."""
    step = workflow.by_id[name]
    if _ends_all(step, ended[name]):
        return False
    after = step.on_error.step
    return after is None or (after in ended and not _ends_all(workflow.by_id[after], ended[after]))


def before(workflow: Workflow) -> dict[str, set[str]]:
    """Return for each step those that have always ended when it starts. The graph has no cycle."""
    found: dict[str, set[str]] = {}

    def start_of(graph: Workflow, name: str, above: set[str]) -> set[str]:
        if name not in found:
            found[name] = set()  # two steps may follow the errors of each other
            if name in graph.handlers:
                found[name] = set.intersection(*(end_of(graph, step, above) for step in graph.handlers[name]))
            else:
                found[name] = above.union(*(end_of(graph, need, above) for need in graph.needs[name]))
        return found[name]

    def end_of(graph: Workflow, name: str, above: set[str]) -> set[str]:
        inside, earlier = graph.parts.get(name), start_of(graph, name, above)
        return {name, *earlier}.union(*(end_of(inside, step, earlier) for step in inside.needs) if inside else ())

    def walk(graph: Workflow, above: set[str]) -> None:
        for step in graph.steps:
            earlier = start_of(graph, step.id, above)
            if step.parallel is not None:
                walk(graph.parts[step.id], earlier)

    walk(workflow, set())
    return found


def cycle_of(workflow: Workflow) -> list[str]:
    """Return the steps of a cycle, the first one also last; empty if there is none."""
    state: dict[str, bool] = {}  # step → whether all below it is known to be without a cycle

    def visit(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if state.get(name):
            return []
        for need in workflow.needs.get(name, ()):
            if found := visit(need, [*way, name]):
                return found
        state[name] = True
        return []

    return next(filter(None, (visit(step.id, []) for step in workflow.steps)), [])


def unreachable(workflow: Workflow) -> Iterator[str]:
    """Yield the steps that can never start: each follows only the errors of others like it."""
    reached = set(workflow.needs)
    while more := {
        name for name, steps in workflow.handlers.items() if name not in reached and not reached.isdisjoint(steps)
    }:
        reached |= more
    yield from (step.id for step in workflow.steps if step.id not in reached)

"""The author of a workflow that is a graph: what follows from the steps that have ended. Pure."""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from interlock.core.workflows.flow import DONE, StepEnd
from interlock.model.state import State
from interlock.model.workflow import Then, Workflow


class Orders(msgspec.Struct, frozen=True):
    """What a workflow does next."""

    start: list[str] = []
    failed: str | None = None  # step whose error ends the workflow
    keeps: tuple[str, ...] = ()  # steps that follow errors, and run to their ends although it ends
    is_done: bool = False


def orders(workflow: Workflow, live: Collection[str], ended: Mapping[str, StepEnd]) -> Orders:
    start: list[str] = []
    bad = {name for name, end in ended.items() if end.state not in DONE}
    failed = [step for step in workflow.steps if step.id in bad] if bad else []
    for step in failed:
        after = step.on_error.step
        if after is not None and after not in live and after not in ended and after not in start:
            start.append(after)
    for step in failed:
        if step.on_error.then is Then.FAIL:
            own = [name for name in (step.on_error.step,) if name is not None]
            return Orders(start, step.id, tuple(dict.fromkeys([*start, *own])))
    is_over = True
    for name, needs in workflow.needs.items():
        if name in ended or name in live:
            continue
        is_over = False
        for need in needs:
            if need not in ended or (need in bad and not _is_handled(workflow, need, ended)):
                break
        else:
            start.append(name)
    return Orders(start, is_done=is_over and not live and not start)


def after_errors(
    workflow: Workflow, kept: Collection[str], live: Collection[str], ended: Mapping[str, StepEnd]
) -> list[str]:
    """Return the steps that follow errors of these, which run to their ends. A cancelled step has none."""
    bad = [
        name for name in kept if name in ended and not ended[name].is_done and ended[name].state is not State.CANCELLED
    ]
    after = dict.fromkeys(workflow.by_id[name].on_error.step for name in bad)
    return [name for name in after if name is not None and name not in live and name not in ended]


def _is_handled(workflow: Workflow, name: str, ended: Mapping[str, StepEnd]) -> bool:
    """Return whether the steps that need this one may start: its error does not end the workflow, and the step that
    follows the error has ended."""
    after = workflow.by_id[name].on_error.step
    return after is None or after in ended


def before(workflow: Workflow) -> dict[str, set[str]]:
    """Return for each step those that have always ended when it starts. The graph has no cycle."""
    found: dict[str, set[str]] = {}

    def of(name: str) -> set[str]:
        if name not in found:
            found[name] = set()
            if name in workflow.handlers:
                ways = [{step, *of(step)} for step in workflow.handlers[name]]
                found[name] = set.intersection(*ways)
            else:
                found[name] = {step for need in workflow.needs[name] for step in (need, *of(need))}
        return found[name]

    for step in workflow.steps:
        of(step.id)
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

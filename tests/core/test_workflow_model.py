"""Random graphs against a sequential model: whatever the order in which steps end, the outcome is that of the model."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from interlock.core.workflows.faults import faults_of
from interlock.core.workflows.values import NoValue, UndoScope
from interlock.fields.template import path_of
from interlock.model.state import State
from interlock.model.workflow import OnError, Then, Workflow, WorkflowStep
from interlock.policy.value_expression import compiled_value
from tests.core.flows import CONTINUE, FlowMachine, flow, step

BAD = "bad"


class Failed(Exception):
    pass


class Model:
    """The sequential model: it carries out the steps one after the other, each after those that it needs."""

    def __init__(self, workflow: Workflow, acts: dict[str, Any]) -> None:
        self.workflow, self.acts = workflow, acts
        self.values: dict[str, Any] = {}
        self.ran: set[str] = set()
        self.raced: set[str] = set()  # steps inside a parallel step that fails: an error may come before they begin
        self.state = State.SUCCEEDED
        try:
            self.run_graph(workflow)
        except Failed:
            self.state = State.FAILED

    def run_graph(self, graph: Workflow, goes_on: bool = False) -> None:
        left, failed = dict(graph.needs), set[str]()
        while name := next(
            (name for name in left if failed.isdisjoint(left[name]) and left.keys().isdisjoint(left[name])), ""
        ):
            del left[name]
            try:
                self.run_step(name)
            except Failed:
                if not goes_on:
                    raise
                failed.add(name)
        assert goes_on or not left
        failed |= left.keys()
        self.values |= dict.fromkeys(set(graph.regular) - self.values.keys())

    def run_step(self, name: str) -> None:
        step = self.workflow.by_id[name]
        try:
            self.values[name] = None
            if step.if_ is False:
                self.values |= dict.fromkeys(self.workflow.parts[name].regular if step.parallel else ())
                return
            self.ran.add(name)
            if step.parallel is not None:
                self.run_graph(self.workflow.parts[name], step.on_error == CONTINUE)
            else:
                self.values[name] = self.act(step)
        except Failed:
            if step.parallel is not None:
                self.raced |= self.workflow.parts[name].by_id.keys()
                self.values |= dict.fromkeys(set(self.workflow.parts[name].regular) - self.values.keys())
            if step.on_error.step is not None:
                self.run_step(step.on_error.step)
            if step.on_error.then is Then.FAIL:
                raise

    def act(self, step: WorkflowStep) -> Any:
        act = self.acts[step.id]
        items = None if step.for_each is None else [act, *range(1, len(step.for_each))][: len(step.for_each)]
        found = [act] if items is None else items
        if BAD in found and not (items is not None and step.on_error == CONTINUE):
            raise Failed
        found = [None if value == BAD else value for value in found]
        return found if items is not None else found[0]


class Drawing:
    """Draws the steps of a graph, and how each of them ends."""

    def __init__(self, draw: st.DrawFn, plain: bool = False) -> None:
        self.draw, self.plain = draw, plain  # without what `needs` alone cannot say
        self.acts: dict[str, Any] = {}

    def name(self, letter: str) -> str:
        name = f"{letter}{len(self.acts)}"
        self.acts[name] = self.draw(st.sampled_from([1, 2, "x" * 300, None, BAD]))
        return name

    def steps(self, most: int, depth: int, is_chain: bool = False) -> list[WorkflowStep]:
        """The steps of one graph, with those that follow their errors at its end."""
        draw = self.draw
        handlers = [self.name("h") for _ in range(draw(st.integers(0, 2)))]
        found: list[WorkflowStep] = []
        for _ in range(draw(st.integers(1, most))):
            inside = depth > 0 and draw(st.integers(0, 2)) == 0
            fields: dict[str, Any] = {}
            if not is_chain and draw(st.booleans()):
                names = [step.id for step in found]
                fields["needs"] = tuple(draw(st.lists(st.sampled_from(names), unique=True)) if names else ())
            if inside:
                fields["parallel"] = self.branches(depth)
            elif draw(st.integers(0, 3)) == 0:
                fields["for_each"] = [0] * draw(st.integers(0, 4))
                fields["max_parallel"] = draw(st.integers(1, 3))
            if not (inside and self.plain):
                if draw(st.integers(0, 4)) == 0:
                    fields["if_"] = draw(st.booleans())
                fields["on_error"] = OnError(
                    step=draw(st.sampled_from([None, *handlers])), then=draw(st.sampled_from(Then))
                )
            found.append(step(self.name("s"), **fields))
        used = {step.on_error.step for step in found}
        return [*found, *(step(name) for name in handlers if name in used)]

    def branches(self, depth: int) -> list[list[WorkflowStep]]:
        """One graph, cut into branches."""
        steps = self.steps(4, depth - 1)
        at = sorted(self.draw(st.sets(st.integers(1, len(steps)))) | {0, len(steps)})
        return [steps[first:last] for first, last in pairwise(at)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Workflow, dict[str, Any]]:
    drawing = Drawing(draw)
    workflow = Workflow(steps=tuple(drawing.steps(6, 2)))
    result = {name: f"${{steps.{name}.result}}" for name in workflow.regular}
    return replace(workflow, result=result), drawing.acts


def play(workflow: Workflow, acts: dict[str, Any], choose: Callable[[list[str]], str]) -> tuple[FlowMachine, str]:
    """Carry out a workflow; the step that ends next is chosen, an empty name is a restart."""
    machine = FlowMachine(flow(*workflow.steps, result=workflow.result))
    run_id = machine.begin()
    while run_id in machine.state.runs:
        names = sorted(run.id.partition("@")[2] for run in machine.state.runs.values() if run.worker_id is not None)
        assert names, machine.live(run_id)
        if not (chosen := choose(names)):
            machine.restart_with_worker()
            continue
        name, _, item = chosen.partition(".")
        act = acts[name] if item in ("", "0") else int(item)
        if machine.run(f"{run_id}@{chosen}").stop is not None:
            machine.done(f"{run_id}@{chosen}", outcome="cancelled")
        elif act == BAD:
            machine.fail(f"{run_id}@{chosen}")
        else:
            machine.done(f"{run_id}@{chosen}", act)
    assert not [other for other in machine.store.runs_by_id.values() if other.ended_at is None]
    return machine, run_id


@pytest.mark.behaviour("WFL-1", "WFL-2", "WFL-12")
@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_every_order_of_ends_gives_the_outcome_of_the_model(graph: tuple[Workflow, Any], data: st.DataObject) -> None:
    workflow, acts = graph
    assert list(faults_of(workflow)) == []
    restarts = st.integers(0, 5).map(lambda number: number == 0)
    machine, run_id = play(
        workflow, acts, lambda names: "" if data.draw(restarts) else data.draw(st.sampled_from(names))
    )
    model = Model(workflow, acts)
    assert machine.state_of(run_id) is model.state
    if model.state is State.SUCCEEDED:
        results = machine.result_of(run_id)
        expected = {name: model.values[name] for name in workflow.regular}
        for name in model.raced & expected.keys():
            assert results[name] in (None, expected.pop(name), acts.get(name)) or isinstance(results[name], list)
            del results[name]
        assert results == expected
        began = {name for name, state in steps_of(machine, run_id).items() if state is not State.SKIPPED}
        assert began - model.raced == model.ran - model.raced


def steps_of(machine: FlowMachine, run_id: str) -> dict[str, State]:
    runs = {id.partition("@")[2]: run for id, run in machine.store.runs_by_id.items() if id != run_id}
    return {name: run.state for name, run in runs.items() if "." not in name}


def with_needs(graph: Workflow, top: Workflow, above: tuple[str, ...] = ()) -> Iterator[WorkflowStep]:
    """The same graph without parallel steps: each becomes a step that waits for those that were inside."""
    for one in graph.steps:
        needs = None if one.id in top.handlers else (*above, *graph.needs[one.id])
        if one.parallel is not None:
            inside = top.parts[one.id]
            yield from with_needs(inside, top, needs or ())
            yield step(one.id, for_each=[], needs=tuple(dict.fromkeys((*(needs or ()), *inside.needs))))
        else:
            yield replace(one, needs=needs)


@pytest.mark.behaviour("WFL-1", "WFL-2")
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_parallel_steps_do_what_the_same_graph_does_with_needs(data: st.DataObject) -> None:
    workflow, acts = data.draw(plain_graphs())
    other = Workflow(steps=tuple(with_needs(workflow, workflow)), result=workflow.result)
    order = data.draw(st.permutations(sorted(acts)))

    def first(names: list[str]) -> str:
        return min(names, key=lambda name: (order.index(name.partition(".")[0]), name))

    found = []
    for one in (workflow, other):
        machine, run_id = play(one, acts, first)
        dispatched = [name.partition("@")[2] for name in machine.dispatched()]
        steps = {name: machine.state_of(f"{run_id}@{name}") for name in dispatched}
        found.append((machine.state_of(run_id), machine.result_of(run_id), steps))
    (state, result, steps), other_way = found
    assert (state, result) == other_way[:2]
    if state is State.SUCCEEDED or workflow.parts.keys().isdisjoint(workflow.around):
        assert steps == other_way[2], "the branches around a nested step that fails are cancelled once it has stopped"


@st.composite
def plain_graphs(draw: st.DrawFn) -> tuple[Workflow, dict[str, Any]]:
    """Chains with parallel steps that fail with their branches."""
    drawing = Drawing(draw, plain=True)
    workflow = Workflow(steps=tuple(drawing.steps(3, 2, is_chain=True)))
    result = {name: f"${{steps.{name}.result}}" for name in workflow.regular if name not in workflow.parts}
    return replace(workflow, result=result), drawing.acts


MACHINE = FlowMachine(flow(step("a")))
UNDONE = MACHINE.run(MACHINE.begin())
NAMES = st.sampled_from(["a", "b", "key"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("xyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(VALUES, st.lists(NAMES | st.integers(0, 2), max_size=3))
def test_a_path_has_the_value_that_cel_gives_it(value: Any, parts: list[str | int]) -> None:
    text = "input" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    assert path_of(text) is not None
    native: Any = NoValue
    with suppress(NoValue):
        native = UndoScope(value, UNDONE).arguments({"it": f"${{{text}}}"})["it"]
    try:
        found = compiled_value(text)({"input": value})
    except Exception:  # noqa: BLE001 - whatever the library says, there is no value
        found = NoValue
    assert (found, type(found)) == (native, type(native))

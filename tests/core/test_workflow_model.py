"""Random graphs against a sequential model: whatever the order in which steps end, the outcome is that of the model."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from interlock.core.workflows.faults import faults_of
from interlock.fields.template import path_of
from interlock.model.state import State
from interlock.model.workflow import OnError, Then, Workflow, WorkflowStep
from interlock.policy.value_expression import compiled_value
from tests.core.flows import CONTINUE, FlowMachine, flow, step

BAD = "bad"


class Failed(Exception):
    pass


def model(workflow: Workflow, acts: dict[str, Any]) -> tuple[State, Any, set[str]]:
    """Carry out the steps one after the other, each after those that it needs; return the steps that ran as well."""
    values: dict[str, Any] = {}
    ran: set[str] = set()

    def run_step(name: str) -> None:
        one = workflow.by_id[name]
        act = acts[name]
        if one.if_ is False:
            values[name] = None
            return
        ran.add(name)
        items = [None] * len(one.for_each) if one.for_each is not None else None
        found = [act] if items is None else [act if index == 0 else index for index in range(len(items))]
        if BAD in found and not (items is not None and one.on_error == CONTINUE):
            values[name] = None
            if one.on_error.step is not None:
                run_step(one.on_error.step)
            if one.on_error.then is Then.FAIL:
                raise Failed
            return
        found = [None if value == BAD else value for value in found]
        values[name] = found if items is not None else found[0]

    try:
        left = dict(workflow.needs)
        while left:
            name = next(name for name, needs in left.items() if all(need in values for need in needs))
            del left[name]
            run_step(name)
    except Failed:
        return State.FAILED, None, ran
    return State.SUCCEEDED, {name: values[name] for name in workflow.needs}, ran


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Workflow, dict[str, Any]]:
    names = [f"s{index}" for index in range(draw(st.integers(1, 6)))]
    handlers = [f"h{index}" for index in range(draw(st.integers(0, 2)))]
    steps: list[WorkflowStep] = []
    acts: dict[str, Any] = {}
    for place, name in enumerate(names):
        fields: dict[str, Any] = {}
        if draw(st.booleans()):
            fields["needs"] = tuple(draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else ())
        if draw(st.integers(0, 4)) == 0:
            fields["if_"] = draw(st.booleans())
        if draw(st.integers(0, 3)) == 0:
            fields["for_each"] = [0] * draw(st.integers(0, 4))
            fields["max_parallel"] = draw(st.integers(1, 3))
        then = draw(st.sampled_from(Then))
        fields["on_error"] = OnError(step=draw(st.sampled_from([None, *handlers])), then=then)
        steps.append(step(name, **fields))
        acts[name] = draw(st.sampled_from([1, 2, "x" * 300, None, BAD]))
    for name in handlers:
        steps.append(step(name))
        acts[name] = draw(st.sampled_from([1, BAD]))
    used = {one.on_error.step for one in steps}
    kept = [one for one in steps if one.id in names or one.id in used]
    result = {one: f"${{steps.{one}.result}}" for one in names}
    return Workflow(steps=tuple(kept), result=result), acts


@pytest.mark.behaviour("WFL-1", "WFL-2")
@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_every_order_of_ends_gives_the_outcome_of_the_model(graph: tuple[Workflow, Any], data: st.DataObject) -> None:
    workflow, acts = graph
    assert list(faults_of(workflow)) == []
    machine = FlowMachine(flow(*workflow.steps, result=workflow.result))
    run_id = machine.begin()
    while run_id in machine.state.runs:
        if data.draw(st.integers(0, 5)) == 0:
            machine.restart()
            machine.worker_up()
            continue
        executing = sorted(run.id for run in machine.state.runs.values() if run.worker_id is not None)
        assert executing, machine.live(run_id)
        chosen = data.draw(st.sampled_from(executing))
        name, _, item = chosen.partition("@")[2].partition(".")
        act = acts[name] if item in ("", "0") else int(item)
        if machine.run(chosen).stop is not None:
            machine.done(chosen, outcome="cancelled")
        elif act == BAD:
            machine.fail(chosen)
        else:
            machine.done(chosen, act)
    state, result, ran = model(workflow, acts)
    assert machine.state_of(run_id) is state
    dispatched = [one.partition("@")[2] for one in machine.dispatched()]
    if state is State.SUCCEEDED:
        assert machine.result_of(run_id) == result
        assert {name.partition(".")[0] for name in dispatched} | {
            one.id for one in workflow.steps if one.for_each == []
        } & ran == ran
    assert not [other for other in machine.store.runs_by_id.values() if other.ended_at is None]


NAMES = st.sampled_from(["a", "b", "key"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("xyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.lists(NAMES | st.integers(0, 2), max_size=3))
def test_a_path_has_the_value_that_cel_gives_it(value: Any, parts: list[str | int]) -> None:
    text = "input" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    path = path_of(text)
    assert path is not None
    try:
        native = value
        for part in path[1:]:
            if not isinstance(native, dict if isinstance(part, str) else list):
                raise KeyError(part)
            native = native[part]  # type: ignore[index]
    except (KeyError, IndexError):
        native = KeyError
    try:
        found = compiled_value(text)({"input": value})
    except Exception:  # noqa: BLE001 - whatever the library says, there is no value
        found = KeyError
    assert found == native

"""Steps with items, in the core: windows, failed items, bounds."""

import tracemalloc
from typing import Any

import pytest

from interlock.model.job import Job
from interlock.model.state import State
from interlock.wire.message import Stop
from tests.core.flows import CONTINUE, MEDIA, PROBED, FlowMachine, flow, step


def test_the_media_pipeline() -> None:
    machine = FlowMachine(MEDIA)
    run_id = machine.begin({"url": "x"})
    results: dict[str, Any] = {"probe": PROBED, "join": "movie"}
    assert machine.play(run_id, lambda name: results.get(name, name.upper())) is State.SUCCEEDED
    assert machine.payload_of(f"{run_id}@join") == {"parts": ["ENCODE.0", "ENCODE.1", "ENCODE.2"]}
    assert machine.result_of(run_id) == {"file": "movie"}


@pytest.mark.behaviour("WFL-2")
def test_a_failed_item_ends_its_group_once_the_others_have_stopped_then_the_step_for_errors_runs() -> None:
    machine = FlowMachine(MEDIA)
    run_id = machine.begin({"url": "x"})
    machine.done(f"{run_id}@probe", PROBED)
    assert machine.live(run_id) == ["encode", "encode.0", "encode.1"]
    machine.fail(f"{run_id}@encode.1")
    assert [message.run_id for message in machine.messages(Stop)] == [f"{run_id}@encode.0"]
    assert machine.live(run_id) == ["encode", "encode.0"]
    machine.done(f"{run_id}@encode.0", outcome="cancelled")
    assert machine.live(run_id) == ["clean"]
    assert machine.payload_of(f"{run_id}@clean") == {"path": "/tmp/x"}
    machine.done(f"{run_id}@clean")
    run = machine.run(run_id)
    assert (run.state, run.reason) == (State.FAILED, "step 'encode' failed")
    assert run.error == "step 'encode' failed: item 1 failed: boom"


def test_a_group_keeps_its_window() -> None:
    machine = FlowMachine(flow(step("all", for_each=list(range(7)), max_parallel=3, with_={"n": "${item}"})))
    run_id = machine.begin()
    seen = 0
    while run_id in machine.state.runs:
        live = [name for name in machine.live(run_id) if name != "all"]
        assert len(live) == min(3, 7 - seen)
        machine.done(f"{run_id}@{live[0]}", seen)
        seen += 1
    assert machine.result_of(f"{run_id}@all") == list(range(7))


def test_a_group_that_goes_on_has_null_for_a_failed_item() -> None:
    machine = FlowMachine(flow(step("all", for_each=[1, 2, 3], on_error=CONTINUE), result="${steps.all.result}"))
    run_id = machine.begin()
    machine.fail(f"{run_id}@all.1")
    machine.done(f"{run_id}@all.0", 1)
    machine.done(f"{run_id}@all.2", 3)
    assert machine.result_of(run_id) == [1, None, 3]


def test_a_group_of_nothing_succeeds() -> None:
    machine = FlowMachine(flow(step("all", for_each="${input.items}"), result="${steps.all.result}"))
    run_id = machine.begin({"items": []})
    assert (machine.state_of(run_id), machine.result_of(run_id)) == (State.SUCCEEDED, [])


@pytest.mark.behaviour("WFL-2", "WFL-13")
@pytest.mark.parametrize(
    ("items", "error"),
    [
        ([0] * 1001, "for_each: 1,001 items; at most 1,000 are allowed"),
        ({"a": 1}, "for_each: the value is a mapping; it must be a list"),
    ],
)
def test_a_list_that_no_group_can_have(items: object, error: str) -> None:
    machine = FlowMachine(flow(step("all", for_each="${input.items}")))
    run_id = machine.begin({"items": items})
    assert machine.run(f"{run_id}@all").error == error
    assert machine.state_of(run_id) is State.FAILED


def test_a_group_that_is_too_large_is_refused_before_all_of_it_is_made() -> None:
    machine = FlowMachine(flow(step("all", for_each="${input.items}", with_={"text": "x${input.big}"})))
    tracemalloc.start()
    run_id = machine.begin({"items": [0] * 1000, "big": "y" * 100_000})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(machine.run(f"{run_id}@all").error).startswith("for_each: 1,")
    assert peak < 30_000_000


@pytest.mark.behaviour("WFL-2")
def test_a_thousand_items_and_a_hundred_at_once() -> None:
    machine = FlowMachine(flow(step("all", for_each="${input.items}")), lanes={"main": 1000})
    machine.worker_up("two", slots=1000)
    run_id = machine.begin({"items": [0] * 1000})
    assert len(machine.live(run_id)) == 101
    assert machine.play(run_id, lambda name: 1) is State.SUCCEEDED


def test_a_group_goes_on_after_a_restart() -> None:
    items = [{"n": index, "fill": "x" * 100} for index in range(6)]
    machine = FlowMachine(flow(step("all", for_each=items, max_parallel=2, with_={"item": "${item}"})))
    run_id = machine.begin()
    machine.done(f"{run_id}@all.0", "y" * 300)
    machine.restart_with_worker()
    assert machine.play(run_id, lambda name: name) is State.SUCCEEDED
    assert machine.result_of(f"{run_id}@all") == ["y" * 300, *(f"all.{index}" for index in range(1, 6))]
    assert machine.payload_of(f"{run_id}@all.5") == {"item": items[5]}


def test_items_of_two_workflows_have_the_options_of_their_own_step() -> None:
    def of(id: str, lane: str) -> Job:
        return flow(step("all", for_each=[1], lane=lane), id=id)

    machine = FlowMachine(of("flow", "team"), of("other", "subagent"))
    runs = [machine.submit(id) for id in ("flow", "other")]
    assert [machine.run(f"{run_id}@all.0").lane for run_id in runs] == ["team", "subagent"]

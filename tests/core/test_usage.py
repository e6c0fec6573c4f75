"""The adaptive throttle: a session that has used much of its window starts one run at a time."""

import math
from typing import Any

import pytest

from interlock.core.state import CoreLimits
from interlock.error import BadValue
from interlock.model.session import SessionAction
from interlock.wire.message import Usage
from interlock.wire.session_request import ActOnSession
from tests.core.machine import AT_ONCE, Machine
from tests.core.test_redaction import context_of

pytestmark = pytest.mark.behaviour("SES-8")

LIMITS = CoreLimits(session_patterns=AT_ONCE)


def machine_with(lane: int = 100) -> Machine:
    machine = Machine(lanes={"main": lane}, limits=LIMITS)
    machine.worker_up(slots=100)
    return machine


def report(machine: Machine, run_id: str, tokens: int, window: int = 100) -> None:
    run = machine.run(run_id)
    machine.step((str(run.worker_id), Usage(run_id, run.fence, tokens, window)))


@pytest.mark.parametrize(
    ("tokens", "window", "starts"),
    [(59, 100, 3), (60, 100, 1), (600, 100, 1), (60, 0, 3), (0, 100, 3), (119_999, 200_000, 3), (120_000, 200_000, 1)],
)
def test_from_60_percent_on_a_session_starts_one_run_at_a_time(tokens: int, window: int, starts: int) -> None:
    machine = machine_with()
    first = machine.submit(session="a")
    report(machine, first, tokens, window)
    machine.finished(first)
    runs = machine.submit_many(3, session="a")
    assert machine.dispatched()[1:] == runs[:starts]
    for run_id in runs:
        assert run_id in machine.dispatched(), "its turn has come"
        machine.finished(run_id)


def test_running_ones_are_left_alone_and_the_rest_starts_when_the_usage_falls() -> None:
    machine = machine_with()
    first, second = machine.submit_many(2, session="a")
    report(machine, first, 60)
    third, fourth = machine.submit_many(2, session="a")
    assert machine.dispatched() == [first, second]
    machine.finished(first)
    assert machine.dispatched() == [first, second]
    machine.restart_with_worker(held=[machine.held(second)])
    assert machine.dispatched() == [first, second]
    report(machine, second, 59)
    assert machine.dispatched() == [first, second, third, fourth]


def test_runs_that_wait_in_their_lane_wait_in_their_session_again() -> None:
    machine = machine_with(lane=2)
    blocker = machine.submit(job_id="work")
    runs = machine.submit_many(4, session="a")
    assert machine.dispatched() == [blocker, runs[0]]
    report(machine, runs[0], 60)
    machine.finished(blocker)
    assert machine.dispatched() == [blocker, runs[0]]
    machine.cancel(runs[1])
    machine.finished(runs[0])
    assert machine.dispatched() == [blocker, runs[0], runs[2]]
    report(machine, runs[2], 0)
    assert machine.dispatched() == [blocker, runs[0], *runs[2:]]
    for run_id in runs[2:]:
        machine.finished(run_id)
    lane = machine.state.lanes["main"]
    assert (lane.waiting, lane.holding, lane.dead, lane.moved) == (0, {}, 0, {})


@pytest.mark.behaviour("SES-7")
def test_a_reset_forgets_the_usage_and_runs_before_it_report_none() -> None:
    machine = machine_with()
    first = machine.submit(session="a")
    report(machine, first, 60)
    machine.step(("client", ActOnSession(7, "a", SessionAction.RESET)))
    report(machine, first, 61)
    runs = machine.submit_many(2, session="a")
    assert machine.dispatched() == [first, *runs]


def test_a_report_of_a_run_without_a_session_changes_nothing() -> None:
    machine = machine_with()
    report(machine, machine.submit(), 60)
    assert not [name for name in machine.store.memos if name.startswith("session:")]


@pytest.mark.parametrize("field", ["tokens", "window"])
@pytest.mark.parametrize("value", [-1, True, math.nan, math.inf, 10.0, "10", None, 2**53])
def test_what_is_no_number_of_tokens_is_refused_in_the_handler(field: str, value: Any) -> None:
    context, sent = context_of(b"{}")
    with pytest.raises(BadValue) as caught:
        context.usage(**{"tokens": 1, "window": 2, field: value})
    assert caught.value.field == field
    assert caught.value.value is value
    assert sent == []

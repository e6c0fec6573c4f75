"""A run whose worker first creates what will execute it: `starting`, its reasons, and the limit on its time."""

import pytest

from interlock.core import explain
from interlock.core.attempts.log_table import Logs
from interlock.core.recovery.sweep import PendingMoves, why_missed
from interlock.core.routing.roster import Worker
from interlock.model.explanation import ReasonKind
from interlock.model.job import Job
from interlock.model.state import State
from interlock.wire.message import Finished, Lost, Returned, Started, Starting, Stop
from tests.core.machine import START, Machine, retrying_job

JOB = Job(id="work", max_runtime=60.0)


def tell(machine: Machine, run_id: str, reason: str) -> None:
    run = machine.run(run_id)
    machine.step((str(run.worker_id), Starting(run_id, run.fence, reason)))


def starting(machine: Machine, reason: str = "pulls image a:1") -> str:
    if not machine.state.workers:
        machine.worker_up()
    run_id = machine.submit()
    tell(machine, run_id, reason)
    assert machine.state_of(run_id) is State.STARTING
    return run_id


def pass_time(machine: Machine, run_id: str, times: int) -> None:
    """Twenty seconds each, with the signs of life of its worker."""
    for _ in range(times):
        machine.advance(20)
        machine.heartbeat("one", run_id)


def reasons(machine: Machine, run_id: str) -> list[tuple[ReasonKind, str]]:
    found = explain.explain(machine.state, machine.run(run_id), machine.now)
    return [(reason.kind, reason.text) for reason in found.reasons]


@pytest.mark.behaviour("RUN-3", "RUN-21")
def test_the_first_word_of_a_start_moves_the_run_and_later_ones_only_show() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    before = machine.history(run_id)
    assert (before[-1].reason, before[-1].actor) == ("pulls image a:1", "one")
    machine.advance(5)
    tell(machine, run_id, "pulls image a:1: 2 of 3 layers")
    assert machine.history(run_id) == before
    text = "has been starting on worker one for 5.0s: pulls image a:1: 2 of 3 layers"
    assert (ReasonKind.STARTING, text) in reasons(machine, run_id)
    assert machine.last.progressed[run_id] == (run_id, "work", "default", 0.0, "pulls image a:1: 2 of 3 layers")
    machine.started(run_id)
    tell(machine, run_id, "a late word")
    assert machine.path(run_id)[-3:] == ["dispatched", "starting", "running"]
    assert machine.state.of(Logs).progress == {}
    assert machine.last.progressed == {}


@pytest.mark.behaviour("RUN-22")
def test_the_run_time_begins_when_the_start_is_over() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.advance(300)
    machine.heartbeat("one", run_id)
    machine.started(run_id)
    assert machine.run(run_id).started_at == START + 300
    machine.advance(59.5)
    assert machine.run(run_id).stop is None
    machine.advance(0.5)
    assert machine.run(run_id).stop == "timeout"


@pytest.mark.behaviour("RUN-22")
@pytest.mark.parametrize("again", ["", "restart", "recover"])
def test_a_start_that_takes_ten_minutes_is_stopped_and_counts_as_a_failure(again: str) -> None:
    machine = Machine(retrying_job(1))
    run_id = starting(machine)
    pass_time(machine, run_id, 29)
    tell(machine, run_id, "waits for quota")
    if again:
        getattr(machine, again)()
        machine.worker_up(held=[machine.held(run_id)])
        tell(machine, run_id, "waits for quota")
    machine.advance(19.5)
    assert machine.run(run_id).stop is None
    machine.advance(0.5)
    run = machine.run(run_id)
    assert machine.messages(Stop)[-1] == Stop(run_id, run.fence, "attempt_timeout")
    assert run.stop_reason == "start_timeout of 10m passed (waits for quota), with a grace of 10s on top"
    machine.finished(run_id, "cancelled")
    assert machine.path(run_id)[-2:] == ["starting", "retrying"], "it has never been running"
    assert (machine.run(run_id).failures, machine.run(run_id).started_at) == (1, None)
    machine.advance(2)
    tell(machine, run_id, "waits for quota")
    pass_time(machine, run_id, 30)
    machine.finished(run_id, "cancelled")
    assert machine.state_of(run_id) is State.TIMEOUT
    assert machine.run(run_id).reason.startswith("start_timeout of 10m passed (waits for quota)")


@pytest.mark.behaviour("RUN-11", "RUN-10")
def test_a_cancelled_start_ends_once_its_worker_has_undone_it() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.cancel(run_id)
    assert machine.state_of(run_id) is State.STARTING, "it keeps its slot until it has stopped"
    pass_time(machine, run_id, 31)
    assert why_missed(PendingMoves(machine.state, machine.now), machine.run(run_id)) is None
    machine.finished(run_id, "cancelled")
    assert machine.path(run_id)[-2:] == ["starting", "cancelled"]


def test_a_start_that_fails_for_good_ends_the_run_without_it_ever_running() -> None:
    machine = Machine(retrying_job(3))
    run_id = starting(machine)
    machine.finished(run_id, "failed_fatal", error="no image a:1")
    run = machine.run(run_id)
    assert machine.path(run_id)[-2:] == ["starting", "failed"]
    assert (run.error, run.started_at, run.due_at) == ("no image a:1", None, None)


def test_an_end_whose_start_was_not_reported_was_running_all_the_same() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.finished(run_id, "failed", took=3.0)
    assert machine.path(run_id)[-3:] == ["running", "terminating", "failed"]
    run_id = starting(machine)
    machine.finished(run_id, result=b"1")
    assert machine.path(run_id)[-3:] == ["running", "terminating", "succeeded"]


@pytest.mark.behaviour("LIV-2", "RUN-7")
def test_a_start_that_is_lost_is_a_crash_and_begins_again_without_its_old_limit() -> None:
    machine = Machine(JOB)
    for message in (Lost, Returned):
        run_id = starting(machine)
        fence = machine.run(run_id).fence
        machine.step(("one", message(run_id, fence, "gone")))
        assert machine.path(run_id)[-5:] == ["starting", "retrying", "pending", "scheduled", "dispatched"]
        assert machine.run(run_id).due_at is None
        machine.step(("one", Starting(run_id, fence, "late")))
        assert machine.state_of(run_id) is State.DISPATCHED, "a word of the old attempt is stale"
        machine.started(run_id)
        machine.finished(run_id)


@pytest.mark.behaviour("LIV-2")
def test_a_silent_worker_loses_its_starts() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.worker_down()
    machine.advance(30)
    assert (machine.run(run_id).crashes, machine.state_of(run_id)) == (1, State.SCHEDULED)


@pytest.mark.behaviour("REC-2")
def test_a_sweep_finds_a_start_whose_end_was_forgotten() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.state.timers.spans.clear()
    machine.wall, machine.elapsed = machine.wall + 606, machine.elapsed + 606
    moves = PendingMoves(machine.state, machine.now)
    assert why_missed(moves, machine.run(run_id)) == "past the end of its wait"


def test_a_worker_that_rejoins_adopts_its_starts() -> None:
    machine = Machine(JOB)
    run_id = starting(machine)
    machine.restart()
    assert isinstance(machine.state.workers["one"], Worker)
    machine.worker_up(held=[machine.held(run_id)])
    assert machine.state_of(run_id) is State.STARTING
    run = machine.run(run_id)
    machine.step(("one", Started(run_id, run.fence)), ("one", Finished(run_id, run.fence, "succeeded")))
    assert machine.state_of(run_id) is State.SUCCEEDED

"""Who is alive: silence at exactly its limit, work adopted after a restart, a scheduler that stood still itself."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.core.attempts.silence import Silence
from interlock.core.state import CoreLimits
from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.state import State
from interlock.wire.command import Stalled
from interlock.wire.message import Dispatch, Finished, Heartbeat, Held, Leaving, Returned, Stop
from tests.core.machine import ELAPSED, Machine

LIMIT = 30.0


def elapse_to(machine: Machine, elapsed: float) -> None:
    """Only elapsed time decides about silence; the wall clock may stand, or jump back."""
    machine.elapsed = elapsed
    machine.wall -= 1.0
    machine.step()


@pytest.mark.behaviour("LIV-2")
def test_an_attempt_is_lost_at_three_intervals_of_silence_and_not_before(machine: Machine) -> None:
    run_id = machine.running()
    fence = machine.run(run_id).fence
    assert machine.state.of(Silence).due == ELAPSED + LIMIT
    elapse_to(machine, math.nextafter(ELAPSED + LIMIT, 0.0))
    assert machine.state_of(run_id) is State.RUNNING
    assert machine.messages(Stop) == []
    machine.worker_down()
    elapse_to(machine, ELAPSED + LIMIT)
    run = machine.run(run_id)
    assert machine.path(run_id)[-3:] == ["retrying", "pending", "scheduled"]
    assert run.fence > fence
    assert (run.crashes, run.failures) == (1, 0)
    assert machine.messages(Stop) == [Stop(run_id, fence, "stale")], "what it started is told to stop"


@pytest.mark.behaviour("LIV-2")
@pytest.mark.parametrize(("interval", "missed", "silence"), [(10.0, 5, 50.0), (2.0, 1, 2.0)])
def test_the_number_of_missed_heartbeats_is_a_setting(interval: float, missed: int, silence: float) -> None:
    machine = Machine(limits=CoreLimits(heartbeat_interval=interval, missed_heartbeats=missed))
    run_id = machine.running()
    elapse_to(machine, math.nextafter(ELAPSED + silence, 0.0))
    assert machine.run(run_id).crashes == 0
    elapse_to(machine, ELAPSED + silence)
    assert machine.run(run_id).crashes == 1


@pytest.mark.behaviour("LIV-2")
def test_a_heartbeat_begins_the_silence_anew(machine: Machine) -> None:
    run_id = machine.running()
    elapse_to(machine, ELAPSED + 29)
    machine.heartbeat("one", run_id)
    machine.worker_down()
    elapse_to(machine, math.nextafter(ELAPSED + 59, 0.0))
    assert machine.state_of(run_id) is State.RUNNING
    elapse_to(machine, ELAPSED + 59)
    assert machine.run(run_id).crashes == 1


@pytest.mark.behaviour("LIV-2")
def test_a_late_message_from_a_lost_attempt_changes_nothing(machine: Machine) -> None:
    run_id = machine.running()
    late = machine.finish_command(run_id, result=b"1")
    machine.advance(LIMIT)
    run = machine.run(run_id)
    assert run.state is State.DISPATCHED
    before = repr(run)
    machine.step(late)
    assert repr(run) == before
    assert machine.state.of(Silence).stale_messages == 1


@pytest.mark.behaviour("LIV-2")
def test_silence_of_one_worker_does_not_touch_the_others(machine: Machine) -> None:
    silent = machine.running(worker_id="one")
    machine.worker_up("two", slots=200)
    heard = machine.submit()
    assert machine.run(heard).worker_id == "two"
    machine.worker_down("one")
    machine.advance(20)
    machine.heartbeat("two", heard)
    machine.advance(10)
    assert machine.run(silent).crashes == 1
    assert machine.run(heard).crashes == 0
    assert "one" not in machine.state.workers, "a worker that is gone and has nothing is forgotten"


@pytest.mark.behaviour("LIV-2")
@given(
    heard=st.floats(0, 1e7),
    interval=st.floats(0.001, 1000),
    waits=st.lists(st.floats(0, 1000), max_size=3),
)
def test_woken_at_the_time_it_asked_for_the_machine_always_gets_on(
    heard: float, interval: float, waits: list[float]
) -> None:
    machine = Machine(limits=CoreLimits(heartbeat_interval=interval))
    machine.elapsed = heard
    run_id = machine.running()
    for wait in waits:
        machine.elapsed += wait
        machine.step(("", Stalled(wait)))
    machine.worker_down()
    for _ in range(3):
        wake = machine.state.of(Silence).due
        if wake is None:
            break
        machine.elapsed = max(machine.elapsed, wake)
        machine.step()
        following = machine.state.of(Silence).due
        assert following is None or following > machine.elapsed
    assert machine.run(run_id).crashes == 1


def test_what_a_connected_worker_never_took_is_given_back_and_not_a_crash(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.advance(LIMIT)
    run = machine.run(run_id)
    assert (run.crashes, run.attempt, run.state) == (0, 2, State.DISPATCHED)
    assert machine.dispatched() == [run_id, run_id]


def test_a_stall_of_the_scheduler_itself_is_no_silence_of_its_workers(machine: Machine) -> None:
    run_id = machine.running()
    machine.advance(10)
    machine.elapsed += 300
    machine.step(("", Stalled(300.0)))
    assert machine.state_of(run_id) is State.RUNNING
    assert machine.state.of(Silence).due == ELAPSED + 300 + LIMIT
    machine.worker_down()
    elapse_to(machine, ELAPSED + 300 + LIMIT - 0.5)
    assert machine.state_of(run_id) is State.RUNNING
    elapse_to(machine, ELAPSED + 300 + LIMIT)
    assert machine.run(run_id).crashes == 1


@pytest.mark.behaviour("LIV-4")
@pytest.mark.parametrize("started", [True, False])
def test_after_a_restart_running_work_is_adopted(machine: Machine, started: bool) -> None:
    machine.worker_up()
    run_id = machine.submit()
    if started:
        machine.started(run_id)
    held = machine.held(run_id)
    machine.restart_with_worker("other")
    machine.worker_up("one", held=[held])
    run = machine.run(run_id)
    assert (run.fence, run.attempt, run.crashes, run.worker_id) == (held.fence, 1, 0, "one")
    assert machine.dispatched() == [run_id], "it is not started a second time"
    assert machine.messages(Stop) == []
    machine.advance(29)
    machine.step(("one", Finished(run_id, held.fence, "succeeded", b"1")))
    assert machine.store.runs_by_id[run_id].state is State.SUCCEEDED
    assert machine.store.runs_by_id[run_id].result == b"1"
    assert machine.dispatched() == [run_id]


@pytest.mark.behaviour("LIV-4", "LAN-4")
def test_adopted_work_holds_its_slot_before_its_worker_is_back() -> None:
    machine = Machine(lanes={"main": 1})
    running = machine.running()
    waiting = machine.submit()
    machine.restart_with_worker("other")
    assert machine.state_of(waiting) is State.SCHEDULED
    machine.advance(LIMIT - 1)
    assert machine.state_of(waiting) is State.SCHEDULED
    machine.worker_up("one", held=[machine.held(running)])
    machine.finished(running)
    assert machine.state_of(waiting) is State.DISPATCHED


@pytest.mark.behaviour("LIV-4", "LIV-2")
def test_work_of_a_worker_that_never_comes_back_is_lost_after_a_full_silence(machine: Machine) -> None:
    run_id = machine.running()
    machine.advance(20)
    machine.restart_with_worker("other")
    machine.advance(LIMIT - 0.5)
    assert machine.state_of(run_id) is State.RUNNING
    machine.advance(0.5)
    assert machine.run(run_id).crashes == 1
    assert machine.run(run_id).worker_id == "other"


@pytest.mark.behaviour("LIV-4", "ROU-9")
def test_a_dispatch_that_was_stored_but_never_sent_goes_out_again(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    old = machine.run(run_id).fence
    machine.restart_with_worker(held=[])
    run = machine.run(run_id)
    assert (run.state, run.attempt, run.crashes) == (State.DISPATCHED, 2, 0)
    assert run.fence > old
    assert machine.path(run_id)[-3:] == ["dispatched", "scheduled", "dispatched"]


def test_a_worker_that_holds_what_is_not_its_own_is_told_to_stop_it(machine: Machine) -> None:
    run_id = machine.running()
    old = machine.held(run_id)
    machine.advance(LIMIT)
    machine.sent.clear()
    machine.worker_up("one", held=[old, Held("never-heard-of", 4)])
    stops = machine.messages(Stop)
    assert stops == [Stop(run_id, old.fence, "stale"), Stop("never-heard-of", 4, "stale")]


def test_a_link_that_breaks_is_no_loss_and_a_process_that_ended_is(machine: Machine) -> None:
    run_id = machine.running()
    machine.worker_down(dead=False)
    assert machine.state_of(run_id) is State.RUNNING
    assert machine.state.workers["one"].connected is False
    machine.worker_down(dead=True, reason="worker 17 was killed")
    assert machine.run(run_id).crashes == 1
    assert "worker 17 was killed" in machine.history(run_id)[4].reason
    assert machine.state.workers == {}
    machine.worker_down("nobody", dead=True)


@pytest.mark.parametrize("how", ["leaving", "joined draining"])
def test_a_worker_that_leaves_gets_nothing_new_and_finishes_what_it_has(machine: Machine, how: str) -> None:
    has = machine.running()
    if how == "leaving":
        machine.step(("one", Leaving()))
    else:
        machine.worker_up(held=[machine.held(has)], draining=True)
    later = machine.submit()
    assert machine.state_of(later) is State.SCHEDULED
    machine.finished(has)
    assert machine.state_of(has) is State.SUCCEEDED
    machine.worker_up("two")
    assert machine.run(later).worker_id == "two"
    machine.step(("nobody", Leaving()))


def lost_with_its_process(machine: Machine, run_id: str) -> None:
    machine.lost(run_id)


def lost_before_its_process_had_loaded(machine: Machine, run_id: str) -> None:
    machine.lost(run_id, exit_code=None)


def lost_with_its_worker(machine: Machine, run_id: str) -> None:
    machine.worker_down(dead=True)
    machine.worker_up()


def lost_in_silence(machine: Machine, run_id: str) -> None:
    machine.advance(LIMIT)


@pytest.mark.behaviour("RET-5", "LAN-3")
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("how", "suspected"),
    [
        (lost_with_its_process, True),
        (lost_before_its_process_had_loaded, False),
        (lost_with_its_worker, False),
        (lost_in_silence, False),
    ],
)
def test_only_a_run_whose_own_process_died_is_suspected(
    how: Callable[[Machine, str], None], suspected: bool, begun: bool
) -> None:
    machine = Machine(Job(id="work", max_crashes=9))
    machine.worker_up()
    run_id = machine.submit()
    if begun:
        machine.started(run_id)
    for _ in range(2):
        how(machine, run_id)
        assert machine.state_of(run_id) is State.DISPATCHED
        assert machine.messages(Dispatch)[-1].isolated is suspected
    machine.restart_with_worker(held=[machine.held(run_id)])
    machine.step((str(machine.run(run_id).worker_id), Returned(run_id, machine.run(run_id).fence, "leaving")))
    assert machine.messages(Dispatch)[-1].isolated is suspected, "the record knows after a restart"


def test_an_attempt_that_ended_by_itself_raises_no_suspicion() -> None:
    """Its handler called `sys.exit`, and its worker had died before: no process died alone."""
    machine = Machine(Job(id="work", retry=Retry(max_retries=3, jitter=0)))
    run_id = machine.running()
    lost_with_its_worker(machine, run_id)
    machine.started(run_id)
    machine.finished(run_id, "failed", exit_code=3)
    machine.advance(60)
    assert machine.state_of(run_id) is State.DISPATCHED
    assert not machine.messages(Dispatch)[-1].isolated


def test_a_run_that_is_stopped_before_it_began_is_not_recorded_as_begun(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.cancel(run_id)
    machine.step(("one", Returned(run_id, machine.run(run_id).fence, "it was stopped before it began")))
    assert machine.path(run_id)[2:] == ["dispatched", "cancelled"]


@pytest.mark.behaviour("LAN-3")
def test_suspects_have_places_of_their_own_in_proportion_to_the_slots() -> None:
    own = Job(id="own", executor=ExecutorKind.PROCESS)
    machine = Machine(Job(id="work", max_crashes=9), own, lanes={"main": 100})
    machine.worker_up(slots=16, processes=2)
    runs = machine.submit_many(16)
    for run_id in runs:
        machine.lost(run_id)
    apart = [run_id for run_id in runs if machine.state_of(run_id) is State.DISPATCHED]
    assert len(apart) == 4
    others = [*machine.submit_many(16), *machine.submit_many(2, "own")]
    assert all(machine.state_of(run_id) is State.DISPATCHED for run_id in others), "suspects take nothing from others"
    for run_id in runs:
        machine.finished(run_id)
    assert all(machine.state_of(run_id) is State.SUCCEEDED for run_id in runs)


def test_a_run_that_crashed_goes_to_a_process_of_its_own() -> None:
    machine = Machine(Job(id="work", max_crashes=9))
    machine.worker_up(slots=5, processes=1)
    first, second = machine.submit(), machine.submit()
    assert [message.isolated for message in machine.messages(Dispatch)] == [False, False]
    machine.sent.clear()
    machine.lost(first)
    assert [message.isolated for message in machine.messages(Dispatch)] == [True]
    machine.lost(second)
    assert machine.state_of(second) is State.SCHEDULED, "the only process is taken, and shared ones are not for it"
    other = machine.submit()
    assert machine.state_of(other) is State.DISPATCHED, "others do not wait for it"
    machine.restart_with_worker(slots=5, processes=1, held=[machine.held(first), machine.held(other)])
    assert machine.state_of(second) is State.SCHEDULED
    machine.finished(first)
    assert machine.state_of(second) is State.DISPATCHED
    assert machine.messages(Dispatch)[-1].isolated


@pytest.mark.parametrize("how", ["beat", "join"])
def test_a_start_whose_word_was_lost_is_learned_from_what_the_worker_says_it_has(machine: Machine, how: str) -> None:
    machine.worker_up()
    run_id = machine.submit()
    held = Held(run_id, machine.run(run_id).fence, begun=True)
    machine.advance(5)
    for _ in range(2):
        if how == "beat":
            machine.step(("one", Heartbeat([held])))
        else:
            machine.worker_up(held=[held])
    assert machine.path(run_id)[2:] == ["dispatched", "running"]
    assert machine.run(run_id).started_at == machine.wall


@pytest.mark.behaviour("RUN-11")
def test_a_stop_whose_word_was_lost_is_said_again_with_every_beat(machine: Machine) -> None:
    run_id = machine.running()
    machine.cancel(run_id)
    machine.sent.clear()
    machine.heartbeat("one", run_id)
    assert machine.messages(Stop) == [Stop(run_id, machine.run(run_id).fence, "cancel")]
    machine.finished(run_id, "cancelled")
    assert machine.state_of(run_id) is State.CANCELLED


def test_a_run_that_has_seen_a_crash_finds_a_worker_that_would_rather_have_no_processes(machine: Machine) -> None:
    machine.worker_up(processes=0)
    run_id = machine.submit()
    machine.lost(run_id)
    assert machine.state_of(run_id) is State.DISPATCHED
    assert machine.messages(Dispatch)[-1].isolated


def test_timers_of_ended_runs_do_not_pile_up() -> None:
    machine = Machine(Job(id="work", deadline=86_400.0, max_runtime=3600.0), lanes={"main": 5})
    machine.worker_up()
    for _ in range(1500):
        run_id = machine.submit()
        machine.started(run_id)
        machine.finished(run_id)
    assert len(machine.state.timers.heap) < 1100

"""Fences: what an old attempt says is counted and has no effect, and one result ends a run once."""

import itertools

import pytest

from interlock.core.attempts.log_table import Logs
from interlock.core.attempts.silence import Silence
from interlock.model.facets import ProgressInfo
from interlock.model.failure import Outcome, read_outcome
from interlock.model.state import State
from interlock.wire import message as m
from tests.core.machine import START, Machine, acted_on, retrying_job
from tests.core.test_records import contents


def old_messages(run_id: str, fence: int) -> list[m.Message]:
    return [
        m.Started(run_id, fence),
        m.Finished(run_id, fence, "succeeded", b"1"),
        m.Finished(run_id, fence, "failed_fatal"),
        m.Lost(run_id, fence, "gone"),
        m.Returned(run_id, fence, "no room"),
        m.Heartbeat([m.Held(run_id, fence)]),
        m.Progress(run_id, fence, 50.0, "half"),
        m.Usage(run_id, fence, 90, 100),
        m.LogMessage(run_id, fence, 1, START, "info", "late"),
        m.Checkpoint(run_id, fence, b"1"),
    ]


@pytest.mark.behaviour("RUN-7")
def test_every_dispatch_raises_the_fence() -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    fences = [machine.run(run_id).fence]
    machine.finished(run_id, "failed")
    machine.advance(60)
    fences.append(machine.run(run_id).fence)
    machine.lost(run_id)
    fences.append(machine.run(run_id).fence)
    machine.restart_with_worker()
    machine.advance(0)
    fences.append(machine.run(run_id).fence)
    assert machine.dispatched() == [run_id] * 4
    assert all(earlier < later for earlier, later in itertools.pairwise(fences))


@pytest.mark.behaviour("RUN-7")
def test_no_attempt_number_is_used_twice_however_an_attempt_is_given_up() -> None:
    machine = Machine(retrying_job(3, max_crashes=9))
    machine.worker_up()
    run_id = machine.submit()
    machine.step(("one", m.Returned(run_id, machine.run(run_id).fence, "leaving")))
    machine.worker_up(held=[])
    machine.advance(machine.limits.silence)
    machine.lost(run_id)
    machine.started(run_id)
    machine.finished(run_id, "failed")
    machine.advance(60)
    assert [one.attempt for one in machine.messages(m.Dispatch)] == [1, 2, 3, 4, 5, 6]
    assert [one.attempt for one in machine.history(run_id) if one.after is State.DISPATCHED] == [1, 2, 3, 4, 5, 6]


@pytest.mark.behaviour("RUN-7")
def test_an_offer_stands_as_long_as_the_scheduler_waits_for_it() -> None:
    """Whoever obeys `begin_by` begins nothing that was given to another worker since."""
    machine = Machine()
    machine.worker_up()
    run_id = machine.submit()
    (offer,) = machine.messages(m.Dispatch)
    machine.elapsed = offer.begin_by - 1e-6
    machine.step()
    assert machine.run(run_id).fence == offer.fence
    machine.elapsed = offer.begin_by
    machine.step()
    assert machine.run(run_id).fence > offer.fence


@pytest.mark.behaviour("RUN-7")
def test_the_answer_to_a_heartbeat_keeps_an_offer_for_as_long_again(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    fence = machine.run(run_id).fence
    machine.advance(20)
    machine.step(("one", m.Heartbeat([m.Held(run_id, fence)], 7.5)))
    assert machine.messages(m.Heard) == [m.Heard(7.5, machine.elapsed)]
    machine.elapsed += machine.limits.silence - 1e-6
    machine.step()
    assert machine.run(run_id).fence == fence


@pytest.mark.behaviour("RUN-7")
@pytest.mark.parametrize("place", range(9))
def test_a_message_with_an_older_fence_changes_nothing_and_is_counted(place: int) -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    old = machine.run(run_id).fence
    machine.finished(run_id, "failed")
    machine.advance(60)
    machine.started(run_id)
    machine.advance(5)
    heard = machine.state.workers["one"].attempts[run_id].heard
    run, stored = repr(machine.run(run_id)), contents(machine.store)
    message = old_messages(run_id, old)[place]

    decisions = machine.step(("one", message))

    assert machine.state.of(Silence).stale_messages == 1
    assert not decisions.batch
    assert not decisions.ended
    assert repr(machine.run(run_id)) == run
    assert contents(machine.store) == stored
    assert machine.state.workers["one"].attempts[run_id].heard == heard
    assert machine.state.of(Logs).progress == {}
    told = [(type(one), getattr(one, "fence", None)) for one in decisions.sends.get("one", [])]
    if isinstance(message, (m.Finished, m.Lost, m.Returned)):
        assert told == [(m.Settled, old)], "the worker may forget what is of no use"
    elif isinstance(message, m.Heartbeat):
        assert told == [(m.Stop, old), (m.Heard, None)], "the worker stops what is no longer its own, then may go on"
    else:
        assert told == []


@pytest.mark.behaviour("RUN-7")
@pytest.mark.parametrize("place", range(9))
def test_a_message_from_a_worker_that_does_not_have_the_run_changes_nothing(machine: Machine, place: int) -> None:
    run_id = machine.running()
    machine.worker_up("two")
    run, stored = repr(machine.run(run_id)), contents(machine.store)
    for origin in ("two", "nobody"):
        machine.step((origin, old_messages(run_id, machine.run(run_id).fence)[place]))
    assert repr(machine.run(run_id)) == run
    assert contents(machine.store) == stored
    assert machine.state.of(Silence).stale_messages == 2


@pytest.mark.behaviour("RUN-7")
def test_the_current_attempts_messages_do_count(machine: Machine) -> None:
    run_id = machine.running()
    fence = machine.run(run_id).fence
    machine.advance(5)
    machine.step(
        ("one", m.Progress(run_id, fence, 50.0, "half")),
        ("one", m.LogMessage(run_id, fence, 1, START, "info", "line")),
        ("one", m.Checkpoint(run_id, fence, b"1")),
        ("one", m.Heartbeat([m.Held(run_id, fence)])),
    )
    assert machine.state.of(Silence).stale_messages == 0
    assert machine.state.of(Logs).progress == {run_id: ProgressInfo(50.0, "half")}
    assert machine.store.checkpoints == {run_id: b"1"}
    assert [line.text for line in machine.store.lines[run_id].values()] == ["line"]
    assert machine.state.workers["one"].attempts[run_id].heard == machine.elapsed
    assert machine.run(run_id).has_checkpoint


@pytest.mark.behaviour("RUN-8")
@pytest.mark.parametrize("together", [True, False])
def test_five_copies_of_a_result_complete_a_run_once(machine: Machine, together: bool) -> None:
    run_id = machine.running()
    copies = [machine.finish_command(run_id, result=b"1")] * 5
    if together:
        machine.step(*copies)
    else:
        for one in copies:
            machine.step(one)
    assert machine.path(run_id)[-2:] == ["terminating", "succeeded"]
    assert len(machine.history(run_id)) == 6
    assert [run.id for run in machine.ended] == [run_id]
    assert len(machine.messages(m.Settled)) == 5, "every copy is answered, or the worker would go on sending it"
    assert machine.state.of(Silence).stale_messages == 4


@pytest.mark.behaviour("RUN-8", "RUN-4")
@pytest.mark.parametrize("end", ["succeeded", "failed_fatal", "cancelled", "timeout"])
def test_no_message_changes_a_run_that_has_ended(machine: Machine, end: str) -> None:
    run_id = machine.running()
    fence = machine.run(run_id).fence
    machine.finished(run_id, end)
    stored = contents(machine.store)
    for restarted in (False, True):
        if restarted:
            machine.restart_with_worker(held=[m.Held(run_id, fence)])
        for message in old_messages(run_id, fence):
            machine.step(("one", message))
        assert contents(machine.store) == stored
    assert len(machine.ended) == 1


@pytest.mark.behaviour("RUN-9")
def test_cancel_then_success_in_one_pass_leaves_one_end(machine: Machine) -> None:
    run_id = machine.running()
    decisions = machine.step(machine.cancel_command(run_id), machine.finish_command(run_id))
    assert [run.state for run in decisions.ended] == [State.SUCCEEDED]
    assert_it_stays(machine, run_id, State.SUCCEEDED)


@pytest.mark.behaviour("RUN-9")
def test_success_then_cancel_in_one_pass_leaves_one_end(machine: Machine) -> None:
    run_id = machine.running()
    decisions = machine.step(machine.finish_command(run_id), machine.cancel_command(run_id))
    answer = decisions.answers[-1][1]
    assert acted_on(answer).state is State.SUCCEEDED, "whoever cancels is told how it has ended"
    assert_it_stays(machine, run_id, State.SUCCEEDED)


@pytest.mark.behaviour("RUN-9")
def test_cancel_then_the_cancelled_end_then_a_late_success(machine: Machine) -> None:
    run_id = machine.running()
    success = machine.finish_command(run_id)
    machine.step(machine.cancel_command(run_id))
    machine.finished(run_id, "cancelled")
    machine.step(success)
    assert_it_stays(machine, run_id, State.CANCELLED)


def assert_it_stays(machine: Machine, run_id: str, end: State) -> None:
    assert machine.store.runs_by_id[run_id].state is end
    assert len(machine.ended) == 1
    machine.restart()
    machine.advance(1000)
    assert machine.store.runs_by_id[run_id].state is end
    assert machine.history(run_id)[-1].after is end
    assert len([entry for entry in machine.history(run_id) if entry.after in ("succeeded", "cancelled")]) == 1


@pytest.mark.behaviour("RUN-13")
@pytest.mark.parametrize(
    ("word", "outcome", "end"),
    [
        ("succeeded", Outcome.SUCCEEDED, State.SUCCEEDED),
        ("completed", Outcome.SUCCEEDED, State.SUCCEEDED),
        ("failed", Outcome.FAILED, State.RETRYING),
        ("failed_fatal", Outcome.FAILED_FATAL, State.FAILED),
        ("cancelled", Outcome.CANCELLED, State.CANCELLED),
        ("timeout", Outcome.TIMEOUT, State.RETRYING),
        ("", Outcome.FAILED, State.RETRYING),
        ("Succeeded", Outcome.FAILED, State.RETRYING),
        ("exploded", Outcome.FAILED, State.RETRYING),
    ],
)
def test_the_words_for_how_an_attempt_ended(word: str, outcome: Outcome, end: State) -> None:
    assert read_outcome(word) is outcome
    machine = Machine(retrying_job(1))
    run_id = machine.running()
    machine.finished(run_id, word)
    assert machine.state_of(run_id) is end
    assert machine.run(run_id).outcome == outcome


@pytest.mark.behaviour("RUN-13")
def test_there_are_five_outcomes() -> None:
    assert {str(one) for one in Outcome} == {"succeeded", "failed", "failed_fatal", "cancelled", "timeout"}


def test_a_result_before_the_start_was_seen_still_counts(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    machine.finished(run_id)
    assert machine.path(run_id)[2:] == ["dispatched", "running", "terminating", "succeeded"]
    assert machine.run(run_id).started_at == START

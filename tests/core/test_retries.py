"""Retries: exact delays, what is not retried, and attempts lost with their worker."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.job import Job, Retry
from interlock.model.letter import DeadLetter
from interlock.model.run import SCHEDULE, TRIGGER
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import HOLDS_SLOT, State
from interlock.wire.message import Returned
from tests.core.machine import START, Machine, retrying_job

HOURLY = Schedule(every=3600.0)


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(max_retries=6, jitter=0), [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (Retry(max_retries=3, jitter=0, initial_delay="500ms", multiplier=3, max_delay="5s"), [0.5, 1.5, 4.5]),
        (Retry(max_retries=4, jitter=0, initial_delay="500ms", multiplier=3, max_delay="5s"), [0.5, 1.5, 4.5, 5.0]),
        (Retry(max_retries=3, jitter=0, initial_delay=1, multiplier=1, max_delay=10), [1.0, 1.0, 1.0]),
        (Retry(max_retries=2, jitter=0, initial_delay=0), [0.0, 0.0]),
        (Retry(max_retries=1, jitter=0, initial_delay=60, max_delay=30), [30.0]),
    ],
)
def test_the_delays_of_a_run_are_exactly_these(retry: Retry, delays: list[float]) -> None:
    machine = Machine(Job(id="work", retry=retry))
    run_id = machine.running()
    for delay in delays:
        machine.finished(run_id, "failed")
        if delay:
            due = machine.wall + delay
            assert machine.run(run_id).due_at == due
            machine.advance_to(math.nextafter(due, 0.0))
            assert machine.state_of(run_id) is State.RETRYING
            machine.advance_to(due)
        assert machine.state_of(run_id) is State.DISPATCHED
        machine.started(run_id)
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.FAILED
    assert machine.run(run_id).attempt == len(delays) + 1


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize(("max_retries", "attempts"), [(0, 1), (1, 2), (2, 3)])
def test_max_retries_bounds_the_attempts(max_retries: int, attempts: int) -> None:
    machine = Machine(retrying_job(max_retries))
    run_id = machine.running()
    for _ in range(attempts):
        assert machine.state_of(run_id) is State.RUNNING
        machine.finished(run_id, "failed")
        machine.advance(31)
        if machine.state_of(run_id) is State.DISPATCHED:
            machine.started(run_id)
    assert machine.state_of(run_id) is State.FAILED
    assert machine.dispatched() == [run_id] * attempts
    assert machine.run(run_id).failures == attempts


@pytest.mark.behaviour("RET-1")
@pytest.mark.parametrize(
    ("schedule", "origin", "retry", "retries"),
    [
        (None, None, Retry(), 0),
        (None, None, Retry(initial_delay=1.0), 0),
        (None, None, Retry(max_retries=1), 1),
        (HOURLY, SCHEDULE, Retry(), 3),
        (HOURLY, SCHEDULE, Retry(initial_delay=1.0), 3),
        (HOURLY, SCHEDULE, Retry(max_retries=0), 0),
        (HOURLY, TRIGGER, Retry(), 3),
        (HOURLY, None, Retry(), 3),
        (Schedule(cron="47 13 * * *"), SCHEDULE, Retry(), 3),
        (Schedule(at=START + 20), SCHEDULE, Retry(), 3),
        (Schedule(once=True), SCHEDULE, Retry(), 0),
        (Schedule(once=True), TRIGGER, Retry(), 0),
        (Schedule(once=True), SCHEDULE, Retry(max_retries=1), 1),
    ],
)
def test_jobs_with_a_schedule_are_retried_unless_they_say_otherwise(
    schedule: Schedule | None, origin: str | None, retry: Retry, retries: int
) -> None:
    machine = Machine(Job(id="work", schedule=schedule, retry=retry))
    machine.worker_up()
    machine.advance(20)
    occurrence = next((run.id for run in machine.state.runs.values() if run.origin == SCHEDULE), "")
    run_id = occurrence if origin == SCHEDULE else machine.submit(origin=origin)
    for count in range(retries):
        machine.finished(run_id, "failed")
        wait = float(machine.run(run_id).due_at or 0.0) - machine.wall
        exact = float(retry.initial_delay) * 2**count
        assert 0.75 * exact <= wait <= 1.25 * exact, "2 s, doubled each time, and a quarter more or less"
        machine.advance(wait + 0.001)
    machine.finished(run_id, "failed")
    assert (machine.state_of(run_id), machine.run(run_id).failures) == (State.FAILED, retries + 1)


@pytest.mark.behaviour("RET-1")
def test_the_usual_delays() -> None:
    assert (Retry().initial_delay, Retry().multiplier, Retry().max_delay, Retry().jitter) == (2.0, 2.0, 30.0, 0.25)


@pytest.mark.behaviour("RET-1")
@given(
    retry=st.integers(0, 10**6),
    jitter=st.floats(0, 1),
    initial=st.floats(0, 1000),
    multiplier=st.floats(1, 1000),
    longest=st.floats(0, 10000),
    spread=st.floats(-1, 1),
)
def test_a_delay_stays_within_its_jitter(
    retry: int, jitter: float, initial: float, multiplier: float, longest: float, spread: float
) -> None:
    policy = Retry(max_retries=1, initial_delay=initial, multiplier=multiplier, max_delay=longest, jitter=jitter)
    exact = Retry(max_retries=1, initial_delay=initial, multiplier=multiplier, max_delay=longest, jitter=0)
    middle = exact.delay(retry, spread)
    assert middle <= longest
    assert policy.delay(retry, 0) == middle
    low, high = policy.delay(retry, -1), policy.delay(retry, 1)
    assert 0 <= low <= policy.delay(retry, spread) <= high
    assert low == pytest.approx(middle * (1 - jitter))
    assert high == pytest.approx(middle * (1 + jitter))


@pytest.mark.behaviour("RET-1")
def test_jitter_spreads_to_both_sides_and_repeats_from_a_seed() -> None:
    delays = []
    for seed in range(200):
        machine = Machine(Job(id="work", retry=Retry(max_retries=1, initial_delay=4)), seed=seed)
        run_id = machine.running()
        machine.rng = Random(seed)
        machine.finished(run_id, "failed")
        due = machine.run(run_id).due_at
        assert due is not None
        delays.append(due - machine.wall)
        assert due - machine.wall == pytest.approx(4 * (1 + 0.25 * Random(seed).uniform(-1, 1)))
    assert all(3 <= delay <= 5 for delay in delays)
    assert min(delays) < 3.2
    assert max(delays) > 4.8


@pytest.mark.behaviour("RET-2", "RUN-18")
def test_a_fatal_failure_is_not_retried() -> None:
    machine = Machine(retrying_job(5))
    run_id = machine.running()
    machine.finished(run_id, "failed_fatal", error="Fatal: no such customer")
    machine.advance(1000)
    assert machine.state_of(run_id) is State.FAILED
    assert machine.run(run_id).error == "Fatal: no such customer"
    assert machine.run(run_id).failures == 1
    assert machine.dispatched() == [run_id]


@pytest.mark.behaviour("RET-2")
@pytest.mark.parametrize("asked", [True, False])
def test_a_cancel_is_not_retried(asked: bool) -> None:
    machine = Machine(retrying_job(5))
    run_id = machine.running()
    if asked:
        machine.cancel(run_id)
    machine.finished(run_id, "cancelled")
    machine.advance(1000)
    assert machine.state_of(run_id) is State.CANCELLED
    assert machine.dispatched() == [run_id]


@pytest.mark.behaviour("RET-2", "RUN-4")
def test_a_denied_run_leads_nowhere() -> None:
    machine = Machine(retrying_job(5))
    run_id = machine.submit()
    # No policy denies anything yet; a run that is stored as denied must stay so.
    machine.store.runs_by_id[run_id].state = State.DENIED
    machine.store.runs_by_id[run_id].ended_at = machine.wall
    machine.restart_with_worker()
    machine.advance(1000)
    assert machine.dispatched() == []
    assert machine.store.runs_by_id[run_id].state is State.DENIED


@pytest.mark.behaviour("RET-3", "LAN-4")
def test_a_retry_waits_without_a_slot_and_goes_through_pending() -> None:
    machine = Machine(retrying_job(1), lanes={"main": 1})
    machine.worker_up()
    first, second = machine.submit(), machine.submit()
    machine.started(first)
    machine.finished(first, "failed")
    assert machine.state_of(first) is State.RETRYING
    assert State.RETRYING not in HOLDS_SLOT
    assert machine.state_of(second) is State.DISPATCHED, "the slot is free while the first waits"
    machine.advance(2)
    assert machine.path(first)[-3:] == ["retrying", "pending", "scheduled"]
    machine.finished(second)
    assert machine.state_of(first) is State.DISPATCHED


@pytest.mark.behaviour("RET-4")
def test_a_retry_delay_survives_a_restart() -> None:
    machine = Machine(retrying_job(1))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    machine.advance(1.5)
    machine.restart_with_worker()
    assert machine.state_of(run_id) is State.RETRYING
    assert machine.last.wake_at == START + 2
    machine.advance_to(math.nextafter(START + 2, 0.0))
    assert machine.state_of(run_id) is State.RETRYING
    machine.advance_to(START + 2)
    assert machine.state_of(run_id) is State.DISPATCHED
    assert machine.run(run_id).attempt == 2


@pytest.mark.behaviour("RUN-22")
def test_a_clock_set_back_before_a_restart_makes_no_retry_wait_longer_than_its_own_delay() -> None:
    machine = Machine(retrying_job(3))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    machine.wall -= 1000.0
    machine.restart_with_worker()
    machine.advance(1.9)
    assert machine.state_of(run_id) is State.RETRYING
    machine.advance(0.2)
    assert machine.state_of(run_id) is State.DISPATCHED, "the first retry waits for 2 s"


@pytest.mark.behaviour("RET-4")
def test_a_retry_that_fell_due_while_nobody_was_there_begins_at_once() -> None:
    machine = Machine(retrying_job(1))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    machine.wall += 3600
    machine.restart_with_worker()
    assert machine.state_of(run_id) is State.DISPATCHED


def lose(machine: Machine, run_id: str, how: str) -> None:
    if how == "process":
        machine.lost(run_id)
    elif how == "worker":
        machine.worker_down(dead=True)
        machine.worker_up()
    elif how == "forgotten":
        machine.worker_up(held=[])
    else:
        machine.advance(30)


@pytest.mark.behaviour("RET-5")
@pytest.mark.parametrize("how", ["process", "worker", "forgotten", "silence"])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_third_crash_ends_a_run_as_orphaned_with_a_dead_letter_in_the_same_batch(
    machine: Machine, how: str, restarted: bool
) -> None:
    run_id = machine.running()
    for crash in (1, 2):
        lose(machine, run_id, how)
        assert machine.state_of(run_id) is State.DISPATCHED, "a crash is followed by another attempt, without a delay"
        assert (machine.run(run_id).crashes, machine.run(run_id).failures) == (crash, 0)
        machine.started(run_id)
        if restarted:
            machine.restart_with_worker(held=[machine.held(run_id)])
    fence = machine.run(run_id).fence
    if how == "worker":
        machine.worker_down(dead=True)
    else:
        lose(machine, run_id, how)
    batch = machine.last.batch
    assert [row[0] for rows in batch.updated.values() for row in rows] == [run_id]
    assert [(letter.id, letter.code) for letter in batch.of(DeadLetter)] == [(run_id, "orphaned")]
    run = machine.store.runs_by_id[run_id]
    assert (run.state, run.crashes, run.failures, run.attempt) == (State.ORPHANED, 3, 0, 3)
    assert run.fence > fence
    assert run.error == batch.of(DeadLetter)[0].error
    assert list(machine.store.all_of(DeadLetter)) == [run_id]


@pytest.mark.behaviour("RET-5")
@pytest.mark.parametrize(("max_crashes", "survived"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_max_crashes_is_honoured(max_crashes: int, survived: int) -> None:
    machine = Machine(Job(id="work", max_crashes=max_crashes))
    run_id = machine.running()
    for _ in range(survived):
        machine.lost(run_id)
        machine.started(run_id)
    machine.lost(run_id)
    assert machine.state_of(run_id) is State.ORPHANED


@pytest.mark.behaviour("RET-5")
def test_crashes_and_retries_are_counted_apart() -> None:
    machine = Machine(retrying_job(2))
    run_id = machine.running()
    machine.lost(run_id)
    machine.finished(run_id, "failed")
    machine.advance(2)
    machine.lost(run_id)
    machine.finished(run_id, "failed")
    due = machine.run(run_id).due_at
    assert due == machine.wall + 4, "the second retry, whatever crashed between"
    machine.advance(4)
    machine.finished(run_id)
    run = machine.run(run_id)
    assert (run.state, run.failures, run.crashes, run.attempt) == (State.SUCCEEDED, 2, 2, 5)


@pytest.mark.behaviour("RET-5")
def test_a_crash_records_the_exit_code_and_why() -> None:
    machine = Machine(Job(id="work", max_crashes=1))
    run_id = machine.running()
    machine.lost(run_id, "killed by signal 11", -11)
    run = machine.run(run_id)
    assert (run.exit_code, run.error) == (-11, "killed by signal 11")
    assert "killed by signal 11" in machine.history(run_id)[-1].reason


@pytest.mark.behaviour("RET-5")
@pytest.mark.parametrize("started", [False, True])
def test_an_attempt_given_back_unharmed_counts_as_nothing(started: bool) -> None:
    machine = Machine(Job(id="work", max_crashes=1))
    machine.worker_up()
    run_id = machine.submit()
    if started:
        machine.started(run_id)
    run = machine.run(run_id)
    fence = run.fence
    machine.worker_up("two")
    machine.step(("one", Returned(run_id, fence, "leaving")))
    assert (run.state, run.crashes, run.failures) == (State.DISPATCHED, 0, 0)
    assert run.fence > fence
    assert run.attempt == 2, "a number that was given out is not given out again"


@pytest.mark.behaviour("RUN-7")
def test_an_attempt_given_back_after_it_began_is_on_record_though_its_start_was_not_reported(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    fence = machine.run(run_id).fence
    machine.step(("one", Returned(run_id, fence, "its worker stopped", begun=True)))
    assert State.RUNNING in machine.path(run_id)
    assert machine.run(run_id).may_have_begun

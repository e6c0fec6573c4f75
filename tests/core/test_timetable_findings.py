"""What once went wrong with schedules, each under the circumstances in which it did."""

from collections import Counter
from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.core.timetable import MISSED
from interlock.model.command import Define, Put
from interlock.model.job import Job, Retry
from interlock.model.message import Dispatch
from interlock.model.request import DropJob, SetPaused
from interlock.model.run import replay
from interlock.model.schedule import CatchUp, Schedule
from interlock.model.state import State
from interlock.model.work import ProcessWork
from tests.core.machine import START, Machine, at_once
from tests.core.scheduling import TRUE, job, machine_of, pass_time, pause, stop_for, times
from tests.core.test_backfill import backfill

DAY = 86_400.0


def check_records(machine: Machine) -> None:
    """Memory and store agree, and every history tells how its run came to its state."""
    for run in machine.store.runs_by_id.values():
        assert replay(at_once(machine.store.history(run.id))) is run.state, run.id
    for run in machine.state.runs.values():
        assert machine.store.runs_by_id[run.id].state is run.state
    sent = [(one.run_id, one.fence) for one in machine.messages(Dispatch)]
    assert len(set(sent)) == len(sent), "no attempt is begun twice"


def declare(machine: Machine, *jobs: Job) -> None:
    machine.jobs = list(jobs)
    machine.step(("", Define(1, machine.jobs)))


@pytest.mark.behaviour("RUN-5", "RUN-4", "TIM-18")
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("schedule", [{"every": 60}, {"cron": "* * * * *"}, {"every": 7}])
def test_a_job_that_goes_and_comes_back_takes_no_id_twice(schedule: dict[str, Any], restart: bool) -> None:
    machine = machine_of(job(**schedule))
    for _ in range(4):
        pass_time(machine, 13)
        declare(machine)
        declare(machine, job(**schedule))
        if restart:
            stop_for(machine, 0)
        declare(machine, Job(id="work"))
        declare(machine, job(**schedule))
    before = machine.wall - START
    pass_time(machine, 130)
    check_records(machine)
    assert [at for at in times(machine, State.SUCCEEDED) if at > before], "and it goes on"


@pytest.mark.behaviour("TIM-14")
def test_what_was_skipped_because_its_job_went_happens_when_the_job_is_back_in_time() -> None:
    machine = machine_of(job(cron="* * * * *"))
    pass_time(machine, 12)
    assert times(machine, State.PRERUN) == [20]
    declare(machine)
    declare(machine, job(cron="* * * * *"))
    pass_time(machine, 10)
    assert times(machine, State.SKIPPED) == times(machine, State.SUCCEEDED) == [20]
    assert machine.dispatched() == [f"work:{int(START) + 20}~again"]


def test_a_time_that_was_submitted_before_there_was_a_schedule_is_not_taken_again() -> None:
    machine = machine_of(Job(id="work"))
    own = machine.submit(occurrence=START + 60)
    machine.cancel(own)
    declare(machine, job(every=60))
    pass_time(machine, 130)
    check_records(machine)
    assert times(machine, State.SUCCEEDED) == [0, 120]


def test_an_at_job_that_is_put_again_after_its_run_was_cancelled_runs() -> None:
    machine = machine_of()
    put = Job(id="put", schedule=Schedule(at=START + 5), work=TRUE)
    machine.step(("client", Put(1, [put], "client")))
    machine.cancel(f"put:{int(START) + 5}")
    assert "put" not in machine.state.jobs
    machine.step(("client", Put(2, [put], "client")))
    pass_time(machine, 10)
    check_records(machine)
    assert times(machine, State.SUCCEEDED, job_id="put") == [5]


def test_what_was_backfilled_before_its_place_within_the_jitter_does_not_run_again() -> None:
    one = job(cron="0 * * * *", jitter=3000)
    machine = machine_of(one)
    hour = 3600 - START % 3600
    pass_time(machine, hour + 5)
    assert one.schedule is not None
    assert one.schedule.offset("work") > 10
    assert len(backfill(machine, hour, hour + 1).created) == 1
    pass_time(machine, 3600)
    check_records(machine)


@pytest.mark.behaviour("TIM-9")
def test_of_a_sparse_schedule_everything_is_made_up_for_that_should_be() -> None:
    machine = machine_of(job(cron="0 0 * * *", catch_up="all", catch_up_window="30d", max_concurrent_runs=50))
    pass_time(machine, 10)
    stop_for(machine, 20 * DAY)
    pass_time(machine, 10)
    assert len(times(machine, State.SUCCEEDED)) == 20
    assert times(machine, State.SKIPPED) == []


@pytest.mark.behaviour("TIM-9")
def test_after_a_long_stop_of_many_jobs_what_is_recorded_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.timetable.MOST_RECORDED", 3000)
    jobs = [job(f"job{number}", cron="* * * * *") for number in range(50)]
    machine = machine_of(*jobs)
    pass_time(machine, 10)
    stop_for(machine, 7 * DAY)
    passes = 0
    while machine.last.wake_at is not None and machine.last.wake_at <= machine.wall:
        machine.step()
        passes += 1
        assert passes < 100
    skipped = [run for run in machine.ended if run.state is State.SKIPPED]
    assert 3000 < len(skipped) < 5000
    assert len({run.job_id for run in skipped}) == 50, "each job is told of"
    told = Counter(run.job_id for run in skipped if "stands for" in run.reason)
    assert len(told) == 50
    assert told.total() <= 60, "but for a few that passes had begun with"


@pytest.mark.behaviour("RUN-5", "TIM-18")
def test_more_uncertain_times_than_one_pass_asks_about_are_all_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.timetable.MOST_ASKED", 2)
    names = [f"job{number}" for number in range(10)]
    machine = machine_of(*(job(name, every=60, wait=5) for name in names))
    machine.advance(1)
    declare(machine, *(job(name, every=60, wait=4) for name in names))
    at = int(START) + 5
    assert {run.id for run in machine.state.runs.values()} == {f"{name}:{at}~again" for name in names}


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("schedule", [{"at": START + 500}, {"once": True, "wait": 500}])
def test_at_and_once_fire_at_their_time_after_a_clock_that_was_ahead_is_put_back(
    schedule: dict[str, Any], restart: bool
) -> None:
    machine = machine_of(job("other", every=60))
    machine.wall += DAY if "at" not in schedule else 495
    declare(machine, job("other", every=60), job(**schedule))
    machine.worker_up()
    machine.wall -= DAY if "at" not in schedule else 495
    machine.step()
    if restart:
        stop_for(machine, 0)
    pass_time(machine, 700)
    assert times(machine, State.SUCCEEDED) == [500]
    check_records(machine)


def test_a_retry_does_not_wait_for_an_instant_that_the_clock_was_ahead_of() -> None:
    scheduled = Schedule(every=60)
    machine = machine_of(Job(id="work", schedule=scheduled, retry=Retry(max_retries=3, initial_delay=2.0, jitter=0)))
    machine.wall += DAY
    machine.step()
    live = next(run for run in machine.state.runs.values() if run.state is State.DISPATCHED)
    machine.finished(live.id, "failed")
    machine.wall -= DAY
    machine.step()
    pass_time(machine, 120)
    assert machine.run(live.id).attempt == 2


@pytest.mark.parametrize("restart", [False, True])
def test_a_deadline_counts_from_when_an_occurrence_really_fires_and_changes_with_its_job(restart: bool) -> None:
    scheduled = Schedule(every=600, jitter=300)
    machine = machine_of(Job(id="work", deadline=5.0, schedule=scheduled))
    offset = scheduled.offset("work")
    pass_time(machine, offset - 3)
    declare(machine, Job(id="work", deadline=20.0, schedule=scheduled))
    if restart:
        stop_for(machine, 0)
    pass_time(machine, 4, length=1)
    run = machine.run(f"work:{int(START)}")
    assert run.deadline_at == pytest.approx(START + offset + 20)
    pass_time(machine, 3, length=1)
    assert run.state is State.SUCCEEDED


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("catch_up", ["latest", "none"])
def test_however_often_the_scheduler_is_away_no_more_than_one_occurrence_waits(catch_up: str) -> None:
    machine = machine_of(job(every=10, catch_up=catch_up))
    pass_time(machine, 5, length=1e6)
    for _ in range(6):
        machine.wall += 15
        machine.elapsed += 15
        machine.restart()
        machine.worker_up(held=[machine.held(f"work:{int(START)}")])
        machine.step()
        waiting = [run for run in machine.state.runs.values() if run.state is State.PRERUN and run.due_at is None]
        assert len(waiting) <= 1


@pytest.mark.behaviour("TIM-10")
def test_what_waits_for_its_turn_does_not_happen_after_a_pause() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 70, length=1e6)
    pause(machine, True)
    pass_time(machine, 500, length=1e6)
    pause(machine, False)
    machine.finished(f"work:{int(START)}")
    assert times(machine, State.SKIPPED) == [60]


def test_what_waits_goes_with_its_job_when_that_is_removed_while_nobody_looks() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 70, length=1e6)
    machine.jobs = []
    machine.restart()
    machine.worker_up(held=[machine.held(f"work:{int(START)}")])
    machine.finished(f"work:{int(START)}")
    pass_time(machine, 100)
    assert times(machine, State.SKIPPED) == [60]


def test_a_jitter_that_is_taken_away_makes_nothing_late() -> None:
    machine = machine_of(job(every=600, wait=100, jitter=30))
    pass_time(machine, 104)
    assert times(machine, State.PRERUN) == [100]
    declare(machine, job(every=600, wait=100))
    pass_time(machine, 40)
    assert times(machine, State.SUCCEEDED) == [100]


def test_the_tenant_of_a_run_is_never_taken_for_a_second_try() -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 5)
    machine.submit(occurrence=START + 20, tenant="again")
    stop_for(machine, 30)
    pass_time(machine, 4)
    assert 20 in times(machine, State.SKIPPED)
    assert backfill(machine, 15, 25).created == [f"work:{int(START) + 20}~again"]


def test_definitions_that_nobody_refers_to_are_dropped_from_memory() -> None:
    machine = machine_of()
    for number in range(1500):
        put = Job(id="put", schedule=Schedule(at=START + number + 1), work=ProcessWork(command=("true", str(number))))
        machine.step(("client", Put(1, [put], "client")))
        machine.wall = START + number + 1
        machine.step()
        for run in list(machine.state.runs.values()):
            machine.finished(run.id)
    assert len(machine.state.versions) < 1100


def test_pausing_and_dropping_in_one_pass_is_answered() -> None:
    machine = machine_of()
    put = Job(id="put", schedule=Schedule(every=60, wait=30), work=TRUE)
    machine.step(("client", Put(1, [put], "client")))
    answers = machine.step(
        ("client", SetPaused(2, "put", True, "client")), ("client", DropJob(3, "put", "client"))
    ).answers
    assert [getattr(answer, "request", None) for _, answer in answers] == [2, 3]
    assert not any(isinstance(answer, Failed) for _, answer in answers)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ({"catch_up": "none"}, "(catch_up: none)"),
        ({"catch_up": "latest"}, "(catch_up: latest)"),
        ({"catch_up": "all", "catch_up_window": 15}, "(older than catch_up_window)"),
        ({"catch_up": "all", "catch_up_max": 1}, "(beyond catch_up_max)"),
    ],
)
def test_a_missed_occurrence_says_which_option_decided(schedule: dict[str, Any], reason: str) -> None:
    machine = machine_of(job(every=10, **schedule))
    pass_time(machine, 5)
    stop_for(machine, 30)
    skipped = [run.reason for run in machine.ended if run.state is State.SKIPPED]
    assert skipped
    assert set(skipped) == {f"{MISSED} {reason}"}


@pytest.mark.behaviour("TIM-14")
def test_a_done_job_is_not_told_of_as_new_at_every_reload() -> None:
    machine = machine_of(job(at=START + 20), job("other", every=60))
    pass_time(machine, 30)
    declare(machine, job(at=START + 20), job("other", every=60))
    answer: Any = machine.last.answers[-1][1]
    assert answer.difference.unchanged == ["work", "other"]
    assert list(machine.state.jobs) == ["other"]
    assert CatchUp.LATEST is machine.state.timetable.entries["other"].schedule.catch_up


@pytest.mark.behaviour("TIM-13")
def test_a_job_that_is_put_between_others_starts_between_them() -> None:
    machine = machine_of(job("a", every=60), job("c", every=60))
    pass_time(machine, 5)
    declare(machine, job("a", every=60), job("b", every=60, wait=55), job("c", every=60))
    machine.worker_up()
    pass_time(machine, 60)
    assert [run_id.partition(":")[0] for run_id in machine.dispatched()] == ["a", "c", "a", "b", "c"]

"""Jobs with schedules that are paused, changed, put, and removed; and clocks that are set back."""

from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.model.job import Job, StoredJob
from interlock.model.schedule.schedule import CatchUp, Schedule
from interlock.model.state import State
from interlock.wire.command import Define, Put
from interlock.wire.message import Dispatch
from interlock.wire.request import DropJob, JobsReport, SetPaused
from tests.core.machine import START, Machine
from tests.core.scheduling import (
    LIMITS,
    TRUE,
    check_records,
    declare,
    job,
    machine_of,
    pass_time,
    pause,
    stop_for,
    times,
)

# ── pausing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-10")
@pytest.mark.parametrize("restart", [False, True])
def test_a_paused_job_has_no_new_occurrences_and_catches_nothing_up(restart: bool) -> None:
    machine = machine_of(job(every=10, catch_up="all", catch_up_window=1000))
    pass_time(machine, 5)
    assert isinstance(pause(machine, True), JobsReport)
    if restart:
        machine.restart_with_worker()
    pass_time(machine, 50)
    assert times(machine, State.SUCCEEDED) == [0]
    assert [(run.scheduled_at - START, run.reason) for run in machine.ended if run.state is State.SKIPPED] == [
        (10, "paused")
    ], "it was created ahead"
    pause(machine, False)
    pass_time(machine, 20)
    assert times(machine, State.SUCCEEDED) == [0, 60, 70]
    assert times(machine, State.SKIPPED) == [10]


@pytest.mark.behaviour("TIM-10")
def test_what_was_created_ahead_goes_on_when_the_job_is_resumed_before_its_time() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 5)
    pause(machine, True)
    pass_time(machine, 2)
    pause(machine, False)
    pass_time(machine, 20)
    assert times(machine, State.SUCCEEDED) == [0, 10, 20]


@pytest.mark.behaviour("TIM-10")
def test_pausing_or_resuming_twice_changes_nothing() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 5)
    assert isinstance(pause(machine, False), JobsReport)
    assert not machine.last.batch
    pause(machine, True)
    pause(machine, True)
    assert not machine.last.batch


@pytest.mark.behaviour("TIM-10")
@pytest.mark.parametrize("schedule", [{"at": START + 20}, {"at": START + 20, "keep": True}, {"once": True, "wait": 20}])
def test_what_has_expired_cannot_be_resumed(schedule: dict[str, Any]) -> None:
    machine = machine_of(job(**schedule))
    pause(machine, True)
    pass_time(machine, 19)
    pause(machine, False)
    pause(machine, True)
    pass_time(machine, 5)
    refused = pause(machine, False)
    assert isinstance(refused, Failed)
    assert refused.error.code == "bad_schedule"
    assert machine.dispatched() == []
    machine.restart()
    assert isinstance(pause(machine, False), Failed)


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_far_ahead_and_is_set_back_stops_no_schedule(restart: bool) -> None:
    machine = machine_of(job(every=60), job("daily", cron="0 0 * * *"))
    pass_time(machine, 30)
    machine.wall += 40 * 86_400
    for _ in range(20):
        machine.step()
    assert machine.store.schedules["work"][3] > START + 39 * 86_400
    machine.wall -= 40 * 86_400
    if restart:
        machine.restart_with_worker()
    pass_time(machine, 300)
    assert [at for at in times(machine, State.SUCCEEDED) if at < 400] == [0, 60, 120, 180, 240, 300]
    pass_time(machine, 86_400)
    midnight = 86_400 - START % 86_400
    assert midnight in times(machine, State.SUCCEEDED, job_id="daily")
    assert len(machine.state.timetable.heap) < 1010


def test_what_a_client_has_submitted_for_a_time_is_the_occurrence_of_that_time() -> None:
    machine = machine_of(job(every=60, wait=30))
    own = machine.submit(occurrence=START + 90, payload=b'{"own": 1}')
    assert own == f"work:{int(START) + 90}"
    machine.cancel(own)
    pass_time(machine, 160)
    assert times(machine, State.SUCCEEDED) == [30, 150]
    assert times(machine, State.CANCELLED) == [90]


def test_an_occurrence_has_the_deadline_of_its_job_from_its_time_on() -> None:
    machine = Machine(Job(id="work", deadline=5.0, schedule=Schedule(every=60, wait=20)), limits=LIMITS)
    pass_time(machine, 24.9)
    assert times(machine, State.SCHEDULED) == [20], "nobody is there to take it"
    pass_time(machine, 0.2)
    assert times(machine, State.TIMEOUT) == [20]


def test_a_job_without_a_schedule_cannot_be_paused() -> None:
    refused = pause(Machine(), True)
    assert isinstance(refused, Failed)
    assert refused.error.code == "bad_schedule"
    assert str(refused.error).startswith("job: 'work'")


# ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-14")
def test_an_unchanged_schedule_keeps_its_times_whatever_else_changes() -> None:
    machine = machine_of(job(every=60, wait=50))
    pass_time(machine, 45)
    changed = Job(id="work", lane="team", schedule=Schedule(every=60, wait=50, catch_up=CatchUp.NONE))
    machine.step(("", Define(1, [job("other", every=60), changed])))
    difference = machine.last.answers[-1][1]
    assert difference.difference.added == ["other"]  # type: ignore[union-attr]
    assert difference.difference.changed == ["work"]  # type: ignore[union-attr]
    pass_time(machine, 70)
    assert times(machine) == [50, 110]
    assert machine.run(f"work:{int(START) + 50}").lane == "team", "it was still in prerun"


@pytest.mark.behaviour("TIM-14")
def test_another_schedule_begins_anew_and_what_was_created_ahead_does_not_happen() -> None:
    machine = machine_of(job(every=60, wait=50))
    pass_time(machine, 45)
    machine.jobs = [job(every=30)]
    machine.step(("", Define(1, machine.jobs)))
    pass_time(machine, 40)
    assert times(machine, State.SUCCEEDED) == [45, 75]
    assert [(run.scheduled_at - START, run.state, run.reason) for run in machine.ended][:1] == [
        (50, State.SKIPPED, "its job has another schedule now")
    ]


@pytest.mark.behaviour("TIM-10")
def test_a_pause_outlives_another_schedule_and_an_absence() -> None:
    machine = machine_of(job(every=60, wait=20))
    pause(machine, True)
    machine.step(("", Define(1, [job(every=30)])))
    pass_time(machine, 100)
    machine.jobs = []
    machine.restart()
    machine.jobs = [job(every=30)]
    machine.restart_with_worker()
    pass_time(machine, 100)
    assert times(machine, State.SUCCEEDED) == []
    pause(machine, False)
    pass_time(machine, 30)
    assert len(times(machine, State.SUCCEEDED)) == 1


def test_a_removed_job_takes_what_was_created_ahead_along() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 5)
    machine.step(("", Define(1, [])))
    assert times(machine, State.SKIPPED) == [10]
    assert machine.store.schedules == {}
    machine.jobs = []
    machine.restart()
    pass_time(machine, 100)
    assert times(machine) == [0, 10]


@pytest.mark.behaviour("TIM-12")
def test_jobs_that_are_put_are_there_after_a_restart_and_may_not_take_the_id_of_one_that_is_declared() -> None:
    machine = machine_of(job(every=60))
    put = Job(id="put", schedule=Schedule(every=30), work=TRUE)
    machine.step(("client", Put(1, [put], "client")))
    refused = machine.step(("client", Put(2, [job(every=30)], "client"))).answers[-1][1]
    assert isinstance(refused, Failed)
    assert refused.error.code == "job_declared"
    pass_time(machine, 5)
    machine.restart_with_worker()
    assert list(machine.state.jobs) == ["work", "put"]
    pass_time(machine, 60)
    assert times(machine, State.SUCCEEDED, job_id="put") == [0, 30, 60]
    machine.step(("", Define(1, [job("put", every=5)])))
    refused = machine.last.answers[-1][1]
    assert isinstance(refused, Failed)
    assert str(refused.error).startswith("id: 'put'")
    assert list(machine.state.jobs) == ["work", "put"]
    machine.step(("client", DropJob(3, "put", "client")))
    assert list(machine.state.jobs) == ["work"]
    assert machine.store.all_of(StoredJob) == {}
    assert list(machine.store.schedules) == ["work"]


def test_what_is_put_and_dropped_in_one_pass_is_gone() -> None:
    machine = machine_of()
    put = Job(id="put", schedule=Schedule(every=60, wait=30), work=TRUE)
    machine.step(("client", Put(1, [put], "client")), ("client", DropJob(2, "put", "client")))
    assert machine.store.all_of(StoredJob) == {} == machine.store.schedules
    machine.step(("client", Put(3, [put], "client")))
    machine.step(("client", DropJob(4, "put", "client")), ("client", Put(5, [put], "client")))
    assert list(machine.store.all_of(StoredJob)) == list(machine.store.schedules) == ["put"]
    expired = Job(id="late", schedule=Schedule(at=START + 20, catch_up=CatchUp.NONE), work=TRUE)
    machine.step(("client", Put(6, [expired], "client")))
    stop_for(machine, 100)
    assert times(machine, State.SKIPPED, job_id="late") == [20]
    assert "late" not in machine.store.all_of(StoredJob)
    assert "late" not in machine.store.schedules


def test_jobs_with_work_go_to_any_worker_and_say_what_to_do() -> None:
    machine = Machine(limits=LIMITS)
    machine.worker_up()
    machine.step(("client", Put(1, [Job(id="put", work=TRUE)], "client")))
    run_id = machine.submit("put")
    assert machine.state_of(run_id) is State.DISPATCHED
    assert [message.work for message in machine.messages(Dispatch)] == [TRUE]


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
    machine.restart_with_worker(held=[machine.held(f"work:{int(START)}")])
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


def test_pausing_and_dropping_in_one_pass_is_answered() -> None:
    machine = machine_of()
    put = Job(id="put", schedule=Schedule(every=60, wait=30), work=TRUE)
    machine.step(("client", Put(1, [put], "client")))
    answers = machine.step(
        ("client", SetPaused(2, "put", True, "client")), ("client", DropJob(3, "put", "client"))
    ).answers
    assert [getattr(answer, "request", None) for _, answer in answers] == [2, 3]
    assert not any(isinstance(answer, Failed) for _, answer in answers)


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

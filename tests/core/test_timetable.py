"""Occurrences: created ahead of their time, each once, never over one another, and never lost in silence."""

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.decisions import Failed, Jobs
from interlock.core.state import Limits
from interlock.core.timetable import MISSED, OVERTAKEN
from interlock.model.command import Define, Drop, Pause, Put, StartDraining
from interlock.model.job import Job
from interlock.model.message import Dispatch
from interlock.model.run import SCHEDULE
from interlock.model.schedule import CatchUp, Schedule
from interlock.model.state import State
from interlock.model.work import ProcessWork
from tests.core.machine import START, Machine

TRUE = ProcessWork(command=("true",))
LIMITS = Limits(heartbeat_interval=1e6)


def job(job_id: str = "work", max_concurrent_runs: int = 1, **schedule: Any) -> Job:
    return Job(id=job_id, schedule=Schedule(**schedule), max_concurrent_runs=max_concurrent_runs)


def machine_of(*jobs: Job) -> Machine:
    machine = Machine(*jobs, limits=LIMITS)
    machine.worker_up()
    return machine


def pass_time(machine: Machine, seconds: float, length: float = 0.0) -> None:
    """Go from one thing to be done to the next; whatever runs ends after so long."""
    end = machine.wall + seconds
    while True:
        _work(machine, length)
        if machine.wall >= end:
            return
        ends = [run.started_at + length for run in machine.state.runs.values() if run.started_at is not None]
        wake = machine.last.wake_at if machine.last.wake_at is not None else end
        machine.advance(max(0.0, min([wake, end, *ends]) - machine.wall))


def _work(machine: Machine, length: float) -> None:
    """Start what is dispatched and end what has had its time, until there is neither."""
    while True:
        runs = list(machine.state.runs.values())
        starting = [run for run in runs if run.state is State.DISPATCHED]
        ending = [
            run for run in runs if run.state is State.RUNNING and float(run.started_at or 0) + length <= machine.wall
        ]
        for run in starting:
            machine.started(run.id)
        for run in ending:
            machine.finished(run.id)
        if not starting and not ending:
            return


def times(machine: Machine, *states: State, job_id: str = "work") -> list[float]:
    """The times of a job's runs, from the start on; of those that ended so, if it is said how."""
    runs = [run for run in machine.store.runs_by_id.values() if run.job_id == job_id]
    return sorted(run.scheduled_at - START for run in runs if not states or run.state in states)


def begun(machine: Machine) -> list[tuple[float, float]]:
    """For each run that was started, its nominal time and when it was."""
    runs = [run for run in machine.store.runs_by_id.values() if run.started_at is not None]
    return sorted((run.scheduled_at - START, float(run.started_at or 0) - START) for run in runs)


def pause(machine: Machine, paused: bool, job_id: str = "work") -> Any:
    return machine.step(("client", Pause(1, job_id, paused, "client"))).answers[-1][1]


# ── when ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-2")
def test_every_fires_after_its_wait_and_then_at_its_interval_however_long_runs_take() -> None:
    machine = machine_of(job(every=60, wait=10))
    pass_time(machine, 300, length=45)
    assert begun(machine) == [(10, 10), (70, 70), (130, 130), (190, 190), (250, 250)]


@pytest.mark.behaviour("TIM-2")
@pytest.mark.parametrize("schedule", [{"every": 60}, {"every": 60, "wait": 0}, {"once": True}])
def test_without_a_wait_it_fires_at_once(schedule: dict[str, Any]) -> None:
    machine = machine_of(job(**schedule))
    assert times(machine) == [0]
    assert machine.dispatched() == [f"work:{int(START)}"]


@pytest.mark.behaviour("TIM-6")
def test_cron_fires_strictly_after_now() -> None:
    machine = Machine(job(cron="* * * * *"), limits=LIMITS)
    assert START % 60 == 40
    machine.wall += 20
    machine.restart()
    machine = Machine(limits=LIMITS)
    machine.wall += 20
    machine.worker_up()
    machine.step(("", Define(0, [job(cron="* * * * *")])))
    pass_time(machine, 59)
    assert machine.dispatched() == []
    pass_time(machine, 1)
    assert times(machine) == [80]


@pytest.mark.behaviour("TIM-4", "RUN-5")
@pytest.mark.parametrize(
    "schedule", [{"once": True, "wait": 500}, {"at": START + 500}, {"at": START + 500, "keep": True}]
)
def test_once_and_at_fire_once_though_the_run_fails(schedule: dict[str, Any]) -> None:
    machine = machine_of(job(**schedule))
    pass_time(machine, 499)
    assert machine.dispatched() == []
    machine.advance(1)
    assert machine.dispatched() == [f"work:{int(START) + 500}"]
    machine.finished(f"work:{int(START) + 500}", "failed")
    pass_time(machine, 100_000)
    machine.restart()
    pass_time(machine, 100_000)
    assert times(machine) == [500]


@pytest.mark.behaviour("TIM-4")
def test_an_at_job_is_removed_after_its_run_and_its_declaration_may_stay_where_it_is() -> None:
    declared = job(at=START + 20)
    machine = machine_of(declared)
    pass_time(machine, 19)
    assert "work" in machine.state.jobs
    machine.advance(1)
    assert "work" in machine.state.jobs, "it runs"
    machine.finished(f"work:{int(START) + 20}")
    assert "work" not in machine.state.jobs
    machine.restart()
    assert "work" not in machine.state.jobs
    machine.step(("", Define(1, [declared])))
    assert not isinstance(machine.last.answers[-1][1], Failed), "it is known that it was there"
    assert "work" not in machine.state.jobs
    machine.step(("", Define(2, [])))
    machine.step(("", Define(3, [declared])))
    refused = machine.last.answers[-1][1]
    assert isinstance(refused, Failed)
    assert str(refused.error).startswith("schedule.at: '1970-01-12 13:47:00Z' is not a time that is still to come")


@pytest.mark.behaviour("TIM-4")
def test_an_at_job_that_is_put_is_gone_for_good_after_its_run() -> None:
    machine = machine_of()
    machine.step(("client", Put(1, [Job(id="put", schedule=Schedule(at=START + 20), work=TRUE)], "client")))
    pass_time(machine, 30)
    assert times(machine, State.SUCCEEDED, job_id="put") == [20]
    machine.restart()
    assert "put" not in machine.state.jobs
    assert machine.store.put_jobs == {} == machine.store.schedules


@pytest.mark.behaviour("RUN-5")
def test_runs_are_created_ahead_with_the_id_of_their_time_and_the_cursor_moves_with_them() -> None:
    machine = machine_of(job(every=4))
    assert times(machine) == [0, 4, 8]
    assert set(machine.store.runs_by_id) == {f"work:{int(START) + at}" for at in (0, 4, 8)}
    assert machine.store.schedules["work"][3:5] == (START + 8, START + 12)
    states = [machine.run(f"work:{int(START) + at}").state for at in (0, 4, 8)]
    assert states == [State.DISPATCHED, State.PRERUN, State.PRERUN]
    assert machine.run(f"work:{int(START) + 4}").origin == SCHEDULE
    assert machine.last.wake_at == START + 2


@pytest.mark.behaviour("TIM-15")
def test_jitter_moves_the_time_and_not_the_id() -> None:
    one = job(every=60, jitter=30)
    machine = machine_of(one)
    assert one.schedule is not None
    offset = one.schedule.offset("work")
    assert 0 < offset < 30
    pass_time(machine, 179)
    assert [nominal for nominal, _ in begun(machine)] == [0, 60, 120]
    assert [at - nominal for nominal, at in begun(machine)] == pytest.approx([offset] * 3)
    assert set(machine.dispatched()) == {f"work:{int(START) + at}" for at in (0, 60, 120)}


@pytest.mark.behaviour("TIM-13")
def test_those_that_fire_together_start_in_the_order_of_their_declaration() -> None:
    names = ["zebra", "apple", "mango", "cherry", "banana"]
    machine = machine_of(*(job(name, every=60) for name in names))
    assert [run_id.partition(":")[0] for run_id in machine.dispatched()] == names
    pass_time(machine, 60)
    assert [run_id.partition(":")[0] for run_id in machine.dispatched()] == names * 2


# ── one after the other ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-5")
def test_of_those_that_come_while_a_run_goes_on_the_latest_follows_it_and_the_others_are_missed() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 33, length=34)
    assert times(machine, State.SKIPPED) == [10, 20]
    assert {run.reason for run in machine.ended} == {OVERTAKEN}
    pass_time(machine, 1, length=34)
    assert begun(machine) == [(0, 0), (30, 34)]
    pass_time(machine, 65, length=34)
    assert begun(machine) == [(0, 0), (30, 34), (60, 68)]
    assert times(machine, State.SKIPPED) == [10, 20, 40, 50, 70, 80]


@pytest.mark.behaviour("TIM-5")
def test_as_many_overlap_as_are_allowed_to() -> None:
    machine = machine_of(job(every=10, max_concurrent_runs=3))
    pass_time(machine, 45, length=100)
    assert begun(machine) == [(0, 0), (10, 10), (20, 20)]
    assert times(machine, State.SKIPPED) == [30]
    assert times(machine, State.PRERUN) == [40, 50]


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("restart", [False, True])
def test_what_waits_for_its_turn_is_there_after_a_restart(restart: bool) -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 12, length=100)
    if restart:
        machine.restart()
        machine.worker_up(held=[machine.held(f"work:{int(START)}")])
    pass_time(machine, 1, length=100)
    assert machine.state_of(f"work:{int(START) + 10}") is State.PRERUN
    machine.finished(f"work:{int(START)}")
    assert machine.state_of(f"work:{int(START) + 10}") is State.DISPATCHED


def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 12, length=100)
    machine.cancel(f"work:{int(START) + 10}")
    pass_time(machine, 5, length=100)
    machine.finished(f"work:{int(START)}")
    assert times(machine, State.CANCELLED) == [10]
    pass_time(machine, 4, length=100)
    assert begun(machine) == [(0, 0), (20, 20)]


def test_a_raised_limit_holds_for_what_waits() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 15, length=100)
    machine.jobs = [job(every=10, max_concurrent_runs=2)]
    machine.step(("", Define(1, machine.jobs)))
    pass_time(machine, 6, length=100)
    assert begun(machine) == [(0, 0), (10, 15)]


# ── what was missed ─────────────────────────────────────────────────────────────────────────────────────────────────


def stop_for(machine: Machine, seconds: float) -> None:
    machine.wall += seconds
    machine.elapsed += seconds
    machine.restart()
    machine.worker_up()


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize(
    ("catch_up", "window", "most", "run", "skipped"),
    [
        ("latest", 60, 100, [60], [10, 20, 30, 40, 50]),
        ("none", 60, 100, [], [10, 20, 30, 40, 50, 60]),
        ("all", 60, 100, [10, 20, 30, 40, 50, 60], []),
        ("all", 35, 100, [30, 40, 50, 60], [10, 20]),
        ("all", 60, 2, [50, 60], [10, 20, 30, 40]),
        ("all", 60, 0, [], [10, 20, 30, 40, 50, 60]),
        ("latest", 2, 100, [], [10, 20, 30, 40, 50, 60]),
        ("latest", 5.1, 100, [60], [10, 20, 30, 40, 50]),
    ],
)
def test_missed_occurrences_are_made_up_for_as_the_job_says(
    catch_up: str, window: float, most: int, run: list[float], skipped: list[float]
) -> None:
    machine = machine_of(job(every=10, catch_up=catch_up, catch_up_window=window, catch_up_max=most))
    pass_time(machine, 5)
    stop_for(machine, 60)
    assert machine.wall == START + 65
    pass_time(machine, 4)
    assert times(machine, State.SKIPPED) == skipped
    assert all(one.reason.startswith(MISSED) for one in machine.ended if one.state is State.SKIPPED)
    assert times(machine, State.SUCCEEDED) == sorted([0, *run])
    pass_time(machine, 11)
    assert times(machine, State.SUCCEEDED) == sorted([0, *run, 70, 80]), "and it goes on as before"


@pytest.mark.behaviour("TIM-9")
def test_all_that_is_made_up_for_runs_one_after_the_other_and_is_not_overtaken() -> None:
    machine = machine_of(job(every=10, catch_up="all", catch_up_window=100))
    pass_time(machine, 5)
    stop_for(machine, 30)
    pass_time(machine, 100, length=8)
    started = begun(machine)
    assert [nominal for nominal, _ in started][:4] == [0, 10, 20, 30]
    assert [at for _, at in started][:4] == [0, 35, 43, 51]
    assert {40, 50, 60} <= set(times(machine)), "what came meanwhile is there too"
    assert times(machine, State.SKIPPED) == [40]
    assert all(later - earlier >= 8 for earlier, later in pairwise(at for _, at in started[1:]))


@pytest.mark.behaviour("TIM-9")
def test_a_scheduler_that_stood_still_makes_up_for_it_too() -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 5)
    machine.advance(26)
    assert times(machine, State.SKIPPED) == [10, 20]
    assert machine.state_of(f"work:{int(START) + 30}") is State.DISPATCHED, "one second late is not missed"


@pytest.mark.behaviour("TIM-9")
def test_a_long_stop_is_recorded_in_bounded_passes_and_what_is_too_long_ago_in_one_run() -> None:
    machine = machine_of(job(every=1, catch_up="latest"))
    pass_time(machine, 1)
    day = 86_400
    stop_for(machine, day)
    assert len(machine.last.batch.created) <= 2000
    for _ in range(20):
        machine.step()
    skipped = [run for run in machine.ended if run.state is State.SKIPPED]
    assert 1000 <= len(skipped) <= 1020
    told = [run.reason for run in skipped if "stands for" in run.reason]
    assert told == [f"{MISSED}; it stands for all of 85387s, which were too many to record"]
    pass_time(machine, 3)
    assert machine.wall - START - 1 in times(machine, State.SUCCEEDED, State.DISPATCHED, State.RUNNING)


@pytest.mark.behaviour("TIM-9")
@pytest.mark.parametrize("every", [{"every": 60}, {"cron": "* * * * *"}])
def test_nothing_stops_a_schedule_for_good(every: dict[str, Any]) -> None:
    machine = machine_of(job(**every))
    pass_time(machine, 10)
    for seconds in (400 * 86_400, 3, 7_200):
        stop_for(machine, seconds)
        for _ in range(20):
            machine.step()
    before = machine.wall
    pass_time(machine, 180)
    assert len([at for at in times(machine, State.SUCCEEDED) if at + START > before]) >= 2


@pytest.mark.behaviour("TIM-9")
def test_a_missed_at_is_recorded_or_made_up_for() -> None:
    for stop, state in ((50, State.SUCCEEDED), (500, State.SKIPPED)):
        machine = machine_of(job(at=START + 20, keep=True))
        stop_for(machine, stop)
        pass_time(machine, 5)
        assert times(machine, state) == [20]


def test_while_it_is_stopping_nothing_is_created() -> None:
    machine = machine_of(job(every=10))
    machine.step(("", StartDraining()))
    pass_time(machine, 30)
    assert times(machine) == [0, 10]


# ── pausing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-10")
@pytest.mark.parametrize("restart", [False, True])
def test_a_paused_job_has_no_new_occurrences_and_catches_nothing_up(restart: bool) -> None:
    machine = machine_of(job(every=10, catch_up="all", catch_up_window=1000))
    pass_time(machine, 5)
    assert isinstance(pause(machine, True), Jobs)
    if restart:
        machine.restart()
        machine.worker_up()
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
    assert isinstance(pause(machine, False), Jobs)
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
    assert str(refused.error).endswith("has passed")
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
        machine.restart()
        machine.worker_up()
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
    assert str(refused.error) == "job: 'work' has no schedule, so there is nothing to pause or resume"


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
    machine.restart()
    machine.worker_up()
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
    machine.restart()
    machine.worker_up()
    assert list(machine.state.jobs) == ["work", "put"]
    pass_time(machine, 60)
    assert times(machine, State.SUCCEEDED, job_id="put") == [0, 30, 60]
    machine.step(("", Define(1, [job("put", every=5)])))
    refused = machine.last.answers[-1][1]
    assert isinstance(refused, Failed)
    assert str(refused.error) == "id: 'put' is taken by a job that was put over the API"
    assert list(machine.state.jobs) == ["work", "put"]
    machine.step(("client", Drop(3, "put", "client")))
    assert list(machine.state.jobs) == ["work"]
    assert machine.store.put_jobs == {}
    assert list(machine.store.schedules) == ["work"]


def test_what_is_put_and_dropped_in_one_pass_is_gone() -> None:
    machine = machine_of()
    put = Job(id="put", schedule=Schedule(every=60, wait=30), work=TRUE)
    machine.step(("client", Put(1, [put], "client")), ("client", Drop(2, "put", "client")))
    assert machine.store.put_jobs == {} == machine.store.schedules
    machine.step(("client", Put(3, [put], "client")))
    machine.step(("client", Drop(4, "put", "client")), ("client", Put(5, [put], "client")))
    assert list(machine.store.put_jobs) == list(machine.store.schedules) == ["put"]
    expired = Job(id="late", schedule=Schedule(at=START + 20, catch_up=CatchUp.NONE), work=TRUE)
    machine.step(("client", Put(6, [expired], "client")))
    stop_for(machine, 100)
    assert times(machine, State.SKIPPED, job_id="late") == [20]
    assert "late" not in machine.store.put_jobs
    assert "late" not in machine.store.schedules


def test_jobs_with_work_go_to_any_worker_and_say_what_to_do() -> None:
    machine = Machine(limits=LIMITS)
    machine.worker_up()
    machine.step(("client", Put(1, [Job(id="put", work=TRUE)], "client")))
    run_id = machine.submit("put")
    assert machine.state_of(run_id) is State.DISPATCHED
    assert [message.work for message in machine.messages(Dispatch)] == [TRUE]

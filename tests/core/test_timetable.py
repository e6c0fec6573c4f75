"""Occurrences: created ahead of their time, each once, never over one another, and never lost in silence."""

from itertools import pairwise
from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.core.timetable import MISSED, OVERTAKEN
from interlock.model.command import Define, Put, StartDraining
from interlock.model.job import Job
from interlock.model.run import SCHEDULE
from interlock.model.schedule import Schedule
from interlock.model.state import State
from tests.core.machine import START, Machine
from tests.core.scheduling import LIMITS, TRUE, begun, job, machine_of, pass_time, stop_for, times

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
    machine = Machine(limits=LIMITS)
    assert START % 60 == 40
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

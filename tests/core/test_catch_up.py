"""Missed occurrences: which of them run late, and how the others are recorded."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from interlock.core.timetable.occurrences import MISSED
from interlock.model.state import State
from tests.core.machine import START
from tests.core.scheduling import (
    DAY,
    begun,
    job,
    machine_of,
    pass_time,
    stop_for,
    times,
)

pytestmark = pytest.mark.behaviour("TIM-9")


def test_of_a_sparse_schedule_everything_is_made_up_for_that_should_be() -> None:
    machine = machine_of(job(cron="0 0 * * *", catch_up="all", catch_up_window="30d", max_concurrent_runs=50))
    pass_time(machine, 10)
    stop_for(machine, 20 * DAY)
    pass_time(machine, 10)
    assert len(times(machine, State.SUCCEEDED)) == 20
    assert times(machine, State.SKIPPED) == []


def test_after_a_long_stop_of_many_jobs_what_is_recorded_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.timetable.occurrences.MOST_RECORDED", 3000)
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


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("catch_up", ["latest", "none"])
def test_however_often_the_scheduler_is_away_no_more_than_one_occurrence_waits(catch_up: str) -> None:
    machine = machine_of(job(every=10, catch_up=catch_up))
    pass_time(machine, 5, length=1e6)
    for _ in range(6):
        machine.wall += 15
        machine.elapsed += 15
        machine.restart_with_worker(held=[machine.held(f"work:{int(START)}")])
        machine.step()
        waiting = [run for run in machine.state.runs.values() if run.state is State.PRERUN and run.due_at is None]
        assert len(waiting) <= 1


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


def test_a_scheduler_that_stood_still_makes_up_for_it_too() -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 5)
    machine.advance(26)
    assert times(machine, State.SKIPPED) == [10, 20]
    assert machine.state_of(f"work:{int(START) + 30}") is State.DISPATCHED, "one second late is not missed"


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
    assert len(told) == 1
    assert "85387s" in told[0]
    pass_time(machine, 3)
    assert machine.wall - START - 1 in times(machine, State.SUCCEEDED, State.DISPATCHED, State.RUNNING)


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


def test_a_missed_at_is_recorded_or_made_up_for() -> None:
    for stop, state in ((50, State.SUCCEEDED), (500, State.SKIPPED)):
        machine = machine_of(job(at=START + 20, keep=True))
        stop_for(machine, stop)
        pass_time(machine, 5)
        assert times(machine, state) == [20]

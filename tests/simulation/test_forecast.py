"""Forecasts of schedules with known answers, by the real scheduler on virtual time."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from interlock.cli.check.forecast_plan import past_lengths
from interlock.core.timetable.table import times_between
from interlock.fields.duration import seconds
from interlock.model.guard import Action, Constraints
from interlock.model.job import Job, Retry
from interlock.model.schedule.schedule import Schedule, instant
from interlock.model.state import State
from interlock.model.tenant import TenantSpec
from interlock.simulation import forecast_model as f
from interlock.simulation.forecast import estimate, forecast
from tests.core.machine import specs
from tests.simulation.remembered import ended, remember

PARIS = ZoneInfo("Europe/Paris")
LANES = {"main": 30, "narrow": 1}
START = instant("2026-01-05T00:00Z", "start")


def job(
    job_id: str = "job",
    *,
    every: str = "",
    cron: str = "",
    schedule: Schedule | None = None,
    most: int | None = None,
    **fields: Any,
) -> Job:
    if schedule is None:
        schedule = Schedule(every=every) if every else Schedule(cron=cron)  # type: ignore[arg-type] # as people write it
    return Job(id=job_id, schedule=schedule, constraints=Constraints(max_concurrent_runs=most), **fields)


def plan_of(
    jobs: list[Job], span: str = "1h", start: float = START, lengths: Mapping[str, float] | None = None, **options: Any
) -> f.Plan:
    known = {job.id: f.Length((lengths or {}).get(job.id, 1.0), "given") for job in jobs}
    given: dict[str, Any] = {"lanes": LANES} | options
    given["lanes"] = specs(given["lanes"])
    return f.Plan(start=start, until=start + seconds(span, "span"), lengths=known, **given)


def look(jobs: list[Job], span: str = "1h", **options: Any) -> f.Forecast:
    return forecast(jobs, plan_of(jobs, span, **options))


def begins(found: f.Forecast, job_id: str = "job") -> list[float]:
    """When the runs of a job begin, in seconds from the start."""
    return [run.started_at - found.start for run in found.runs if run.job_id == job_id and run.started_at is not None]


def missed(found: f.Forecast) -> list[float]:
    return [run.nominal_at - found.start for run in found.runs if run.state is State.SKIPPED]


def in_paris(found: f.Forecast) -> list[str]:
    began = (run.started_at for run in found.runs if run.started_at is not None)
    return [datetime.fromtimestamp(at, PARIS).strftime("%d %H:%M%z") for at in began]


def only(found: f.Forecast) -> f.JobForecast:
    assert len(found.jobs) == 1
    return found.jobs[0]


def _any_job(job_id: str, rng: Random) -> Job:
    every = rng.choice((60.0, 90.0, 600.0))
    schedules = [
        Schedule(every=every, wait=float(rng.randrange(60))),
        Schedule(cron=rng.choice(("*/7 * * * *", "5,50 */2 * * *")), tz="Asia/Kathmandu"),
        Schedule(every=every, jitter=30.0),
    ]
    lane = _LANE_OF[job_id[1:]]
    return job(job_id, schedule=rng.choice(schedules), lane=lane, most=rng.randint(1, 3))


_LANE_OF = {str(number): "narrow" if number < 3 else "main" for number in range(8)}


def _most_at_once(runs: list[f.RunForecast]) -> int:
    """Counted anew, from nothing but when they begin and end."""
    changes = [(run.started_at, 1) for run in runs if run.started_at is not None]
    changes += [(run.ended_at, -1) for run in runs if run.started_at is not None and run.ended_at is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


# ── when ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-7")
def test_the_week_in_which_the_clocks_are_put_forward() -> None:
    found = look(
        [job(schedule=Schedule(cron="30 2 * * *", tz="Europe/Paris"))],
        "4d",
        start=instant("2026-03-28T00:00", "", "Europe/Paris"),
    )
    assert in_paris(found) == ["28 02:30+0100", "29 03:00+0200", "30 02:30+0200", "31 02:30+0200"]
    assert {run.state for run in found.runs} == {State.SUCCEEDED}
    assert (found.notable, only(found).missed) == ([], 0)


@pytest.mark.behaviour("TIM-7")
def test_the_day_on_which_they_are_put_back() -> None:
    start = instant("2026-10-25T00:00", "", "Europe/Paris")
    assert in_paris(look([job(schedule=Schedule(cron="30 2 * * *", tz="Europe/Paris"))], "25h", start=start)) == [
        "25 02:30+0200"
    ]
    assert len(look([job(schedule=Schedule(cron="*/30 * * * *", tz="Europe/Paris"))], "25h", start=start).runs) == 50


@pytest.mark.behaviour("TIM-2")
def test_what_lies_between_the_start_and_the_end() -> None:
    jobs = [
        job("cron", cron="0 * * * *"),
        job("every", every="30m"),
        job("late", schedule=Schedule(once=True, wait=60)),
    ]
    found = look(jobs, "2h")
    assert begins(found, "cron") == [0, 3600]
    assert begins(found, "every") == [0, 1800, 3600, 5400]
    assert begins(found, "late") == [60]
    assert [job.runs for job in found.jobs] == [2, 4, 1]


@pytest.mark.parametrize(("ahead", "first"), [(0.5, 59.5), (0.0, 0.0), (-0.25, 0.25)])
def test_a_start_that_is_no_whole_second(ahead: float, first: float) -> None:
    found = look([job("cron", cron="* * * * *"), job("every", every="1m")], "2m", start=START + ahead)
    assert begins(found, "cron") == [first, first + 60]
    assert begins(found, "every") == [0, 60]


def test_what_has_its_time_once() -> None:
    ahead, past = Schedule(at=START + 90.0), Schedule(at=START - 90.0)
    found = look([job("ahead", schedule=ahead), job("past", schedule=past), Job(id="on.demand")])
    assert begins(found, "ahead") == [90]
    assert [(job.id, job.runs) for job in found.jobs] == [("ahead", 1), ("past", 0)]


@pytest.mark.behaviour("TIM-15")
def test_jitter_is_seen_and_is_no_wait() -> None:
    spread = job(schedule=Schedule(cron="0 * * * *", jitter=600.0))
    assert spread.schedule is not None
    (run,) = look([spread]).runs
    assert run.nominal_at == START
    assert run.due_at == run.started_at == pytest.approx(START + spread.schedule.offset("job"), abs=0.002)
    assert START < run.due_at < START + 600
    assert (run.waited, run.waited_for) == (0.0, None)


# ── what is in the way ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-5")
def test_a_run_that_outlasts_its_interval() -> None:
    found = look([job(every="1m")], "10m", lengths={"job": 130.0})
    assert begins(found) == [0, 130, 260, 390, 520]
    assert missed(found) == [60, 180, 300, 420, 540]
    assert [(run.waited, run.waited_for) for run in found.runs if run.waited] == [
        (10, f.PREVIOUS), (20, f.PREVIOUS), (30, f.PREVIOUS), (40, f.PREVIOUS),
    ]  # fmt: skip
    figures = only(found)
    assert (figures.runs, figures.missed, figures.waited, figures.longest_wait, figures.most_at_once) == (
        10,
        5,
        4,
        40,
        1,
    )
    assert figures.longest_wait_at == START + 480
    assert [(one.what, one.count) for one in found.notable] == [("missed", 5), ("waited", 4)]
    assert found.notable[1].text.startswith("4 of 10 ")
    assert found.notable[1].text.endswith(" 40s")
    assert figures.busy == 5 * 130


@pytest.mark.behaviour("TIM-5")
def test_one_that_ends_just_as_the_next_is_due() -> None:
    found = look([job(every="1m")], "1h", lengths={"job": 150.0})
    figures = only(found)
    assert figures.most_at_once == 1
    assert figures.states == {"succeeded": 60 - figures.missed, "skipped": figures.missed}
    # As soon as one ends the next begins, so that they follow each other without a gap.
    assert begins(found) == [150.0 * place for place in range(len(begins(found)))]
    assert 24 <= len(begins(found)) <= 25


@pytest.mark.behaviour("TIM-5")
def test_runs_of_a_job_at_the_same_time() -> None:
    found = look([job(every="1m", most=2)], "10m", lengths={"job": 90.0})
    figures = only(found)
    assert begins(found) == [60.0 * place for place in range(10)]
    assert (figures.missed, figures.waited, figures.overlaps, figures.most_at_once) == (0, 0, 9, 2)
    assert [(one.what, one.count) for one in found.notable] == [("overlap", 9)]


@pytest.mark.behaviour("LAN-1")
def test_two_jobs_in_a_lane_of_one() -> None:
    jobs = [job("first", cron="0 2 * * *", lane="narrow"), job("second", cron="0 2 * * *", lane="narrow")]
    found = look(jobs, "2d", lengths={"first": 600.0, "second": 300.0})
    two = seconds("2h", "")
    assert begins(found, "first") == [two, two + 86400]
    assert begins(found, "second") == [two + 600, two + 86400 + 600]
    assert [(run.waited, run.waited_for) for run in found.runs if run.job_id == "second"] == [(600, f.LANE)] * 2
    (lane,) = found.lanes
    assert (lane.name, lane.limit, lane.most, lane.most_at, lane.full) == ("narrow", 1, 1, START + two, 1800)
    assert [(one.job_id, one.what, one.count) for one in found.notable] == [("second", "waited", 2)]


@pytest.mark.behaviour("ROU-8")
def test_a_tenant_at_its_limit() -> None:
    jobs = [job("first", cron="0 2 * * *", lane="narrow"), job("second", cron="0 2 * * *")]
    found = look(jobs, "1d", lengths={"first": 600.0}, tenants={"default": TenantSpec(max_running=1)})
    assert [(run.job_id, run.waited, run.waited_for) for run in found.runs] == [
        ("first", 0, None),
        ("second", 600, f.TENANT),
    ]


def test_a_full_lane_is_nothing_to_another() -> None:
    jobs = [job("first", cron="0 * * * *", lane="narrow"), job("second", cron="0 * * * *")]
    found = look(jobs, "2h", lengths={"first": 3000.0})
    assert begins(found, "second") == [0, 3600]
    assert found.notable == []


def test_workers_without_room() -> None:
    jobs = [job(name, cron="0 * * * *") for name in ("a", "b", "c")]
    found = look(jobs, lengths=dict.fromkeys("abc", 60.0), slots=1, workers=2)
    assert sorted(begins(found, "a") + begins(found, "b") + begins(found, "c")) == [0, 0, 60]
    (late,) = [run for run in found.runs if run.waited]
    assert (late.waited, late.waited_for) == (60, f.WORKER)
    assert [(one.what, one.count) for one in found.notable] == [("waited", 1)]


def test_no_workers_at_all() -> None:
    found = look([job(every="30m")], workers=0)
    assert begins(found) == []
    assert [run.state for run in found.runs] == [State.FAILED] * 2, "each is given up after 50 looks for a worker"
    assert "failed" in {one.what for one in found.notable}


def test_a_run_that_lasts_beyond_the_end() -> None:
    (run,) = look([job(cron="30 * * * *")], lengths={"job": 7200.0}).runs
    assert (run.state, run.ended_at) == (State.SUCCEEDED, START + 1800 + 7200)
    (run,) = look([job(cron="30 * * * *")], lengths={"job": 864000.0}).runs
    assert (run.state, run.started_at, run.ended_at) == (State.RUNNING, START + 1800, None)


def test_a_lane_that_there_is_not() -> None:
    found = look([job(cron="0 * * * *", lane="nowhere")])
    assert (only(found).lane, [lane.name for lane in found.lanes]) == ("main", ["main"])


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_every_time_has_its_one_run(seed: int) -> None:
    rng = Random(seed)
    jobs = [_any_job(f"j{number}", rng) for number in range(8)]
    lengths = {one.id: float(rng.choice((1, 45, 60, 130, 600, 1900))) for one in jobs}
    plan = plan_of(jobs, "3h", lengths=lengths, slots=rng.randint(4, 9), workers=rng.randint(1, 2))
    found = forecast(jobs, plan)
    for one in jobs:
        assert one.schedule is not None
        runs = [run for run in found.runs if run.job_id == one.id]
        assert [run.nominal_at for run in runs] == times_between(one.schedule, START, START, plan.until, 10_000)
        began = [run for run in runs if run.started_at is not None]
        for run in began:
            assert run.started_at is not None
            assert run.started_at >= run.due_at
            assert run.ended_at == run.started_at + lengths[one.id]
        assert {run.state for run in runs if run.started_at is None} <= {State.SKIPPED}
        assert _most_at_once(began) <= (one.constraints.max_concurrent_runs or 1)
    for lane in found.lanes:
        assert _most_at_once([run for run in found.runs if _LANE_OF[run.job_id[1:]] == lane.name]) <= lane.limit
    assert _most_at_once(found.runs) <= plan.slots * plan.workers


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_fails_is_tried_again() -> None:
    retried = job(cron="0 * * * *", retry=Retry(max_retries=2, initial_delay=10.0, jitter=0.0))
    found = look([retried], failing=frozenset({"job"}))
    (run,) = found.runs
    assert (run.state, run.attempts, run.ended_at) == (State.FAILED, 3, START + 1 + 10 + 1 + 20 + 1)
    assert [(one.what, one.count) for one in found.notable] == [("failed", 1)]


def test_a_job_that_may_not_take_so_long() -> None:
    (run,) = look([job(cron="0 * * * *", max_runtime=60.0)], lengths={"job": 100.0}).runs
    assert (run.state, run.started_at, run.ended_at) == (State.TIMEOUT, START, START + 60)


def test_the_same_question_has_the_same_answer() -> None:
    jobs = [job(f"j{number}", every=f"{number}m", lane="narrow") for number in range(1, 6)]
    options: dict[str, Any] = {"lengths": {one.id: 70.0 for one in jobs}, "slots": 3}
    assert look(jobs, **options) == look(jobs, **options)


# ── how much ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schedule", "count"),
    [
        (Schedule(every=60.0), 10080),
        (Schedule(cron="* * * * *"), 10080),
        (Schedule(cron="0 2 * * *"), 7),
        (Schedule(once=True), 1),
        (Schedule(at=START - 1), 0),
    ],
)
def test_how_many_runs_there_will_be(schedule: Schedule, count: int) -> None:
    one = job(schedule=schedule)
    assert estimate(one, plan_of([one], "7d")) == pytest.approx(count, rel=0.01)


def test_too_many_runs_are_refused_before_any() -> None:
    jobs = [job("rare", cron="0 2 * * *"), job("frequent", every="1s")]
    with pytest.raises(f.TooManyRuns, match=r"^--for: .* 2,000,000.*'frequent'"):
        look(jobs, "366d")


# ── what is known of how long they take ─────────────────────────────────────────────────────────────────────────────


def test_lengths_are_the_median_of_the_latest_successes(tmp_path: Path) -> None:
    runs = [ended(number, "old", 1000.0) for number in range(30)]
    runs += [ended(number, "old", float(number)) for number in range(30, 50)]
    runs += [ended(60, "old", 5000.0, State.FAILED), ended(61, "once", 2.5), ended(62, "bad", 9.0, State.FAILED)]
    remember(tmp_path / "some.db", *runs)
    assert asyncio.run(past_lengths(str(tmp_path / "some.db"), ["old", "once", "bad", "new"])) == {
        "old": f.Length(39.5, "median of 20 runs in some.db"),
        "once": f.Length(2.5, "median of 1 run in some.db"),
    }


@pytest.mark.behaviour("CON-2", "CON-8")
@pytest.mark.parametrize(
    ("on", "states", "notable"),
    [
        ((), {"succeeded": 7, "skipped": 3}, ["missed", "waited"]),
        ("skip", {"succeeded": 5, "skipped": 5}, ["skipped"]),
        ("kill_old", {"cancelled": 10}, ["cancelled"]),
        (Action(action="retry_later", delay="10s"), {"succeeded": 7, "skipped": 3}, ["missed", "waited"]),
    ],
)
def test_constraints_and_their_actions_are_forecast(on: Any, states: dict[str, int], notable: list[str]) -> None:
    found = look([job(every="1m", most=1, on_constraint_violation=on)], "10m", lengths={"job": 90.0})
    assert only(found).states == states
    assert [one.what for one in found.notable] == notable
    assert only(found).most_at_once == 1


@pytest.mark.behaviour("CON-1")
def test_a_failure_stops_the_runs_that_require_success_and_checks_take_part() -> None:
    strict = Job(
        id="job",
        schedule=Schedule(every=60.0),
        constraints=Constraints(require_previous_success=True, pre_run_hook="https://hook.example"),
        retry=Retry(max_retries=0),
    )
    found = look([strict], "5m", failing=frozenset({"job"}))
    assert only(found).states == {"failed": 1, "skipped": 4}
    assert "require_previous_success: the previous run" in found.notable[0].text
    checked = Job(id="job", schedule=Schedule(every=60.0), constraints=Constraints(checks=["check"]))
    found = look([checked, Job(id="check")], "5m", lengths={"check": 2.0})
    assert [(one.id, one.runs, one.states) for one in found.jobs] == [
        ("job", 5, {"succeeded": 5}),
        ("check", 5, {"succeeded": 5}),
    ]
    assert begins(found)[0] == 2.0

"""APScheduler: jobs, triggers and options; fire times are compared with its own."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from apscheduler.triggers.cron import CronTrigger
from hypothesis import given
from hypothesis import strategies as st

from interlock.error import BadValue
from interlock.model.schedule.cron import NeverAgain, cron_of
from interlock.model.work import FunctionWork
from tests.importers.reading import Written, imported, schedule_of

HEAD = "from datetime import date, datetime, timezone\nfrom proj.tasks import clean\n"


def added(arguments: str, head: str = "") -> Written:
    return imported("apscheduler", f"{HEAD}{head}\nscheduler.add_job({arguments})\n", tz="Europe/Paris")


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ("'cron', hour=5", {"cron": "0 5 * * *"}),
        ("'cron', minute='*/15'", {"cron": "*/15 * * * *"}),
        ("'cron', day_of_week=0, hour=9", {"cron": "0 9 * * 1"}),
        ("'cron', day_of_week='mon-fri', hour=9", {"cron": "0 9 * * 1-5"}),
        ("'cron', day_of_week='6', hour=9", {"cron": "0 9 * * 0"}),
        ("'cron', month='6-8,11-12', day='3rd fri', hour='0-3'", {"cron": "0 0-3 * 6-8,11,12 5#3"}),
        ("'cron', day='last sun'", {"cron": "0 0 * * 0L"}),
        ("'cron', day='1, last'", {"cron": "0 0 1,L * *"}),
        ("'cron', month='jan'", {"cron": "0 0 1 1 *"}),
        ("'cron', year='*', second=0", {"cron": "* * * * *"}),
        ("CronTrigger(hour=5, timezone='UTC')", {"cron": "0 5 * * *", "tz": None}),
        ("CronTrigger.from_crontab('0 5 * * 0')", {"cron": "0 5 * * 1"}),
        ("CronTrigger.from_crontab('0 5 1-7 * fri', 'Asia/Tokyo')", {"cron": "0 5 * * FRI#1", "tz": "Asia/Tokyo"}),
        ("'interval', hours=1, minutes=30", {"every": 5400.0}),
        ("IntervalTrigger(weeks=1)", {"every": 604800.0}),
        ("trigger='interval', seconds=10, jitter=5", {"every": 10.0, "jitter": 5.0}),
        ("'date', run_date=datetime(2039, 1, 2, 3, 4, tzinfo=timezone.utc)", {"at": 2177550240.0}),
        ("'date', run_date='2039-01-02 03:04'", {"at": 2177546640.0, "tz": "Europe/Paris"}),
        ("DateTrigger(date(2039, 1, 2), timezone='UTC')", {"at": 2177539200.0, "tz": None}),
        ("None", {"once": True}),
    ],
)  # fmt: skip
def test_a_trigger(trigger: str, expected: dict[str, Any]) -> None:
    (job,) = added(f"clean, {trigger}").jobs.values()
    zone = {"tz": "Europe/Paris"} if "cron" in expected else {}
    expected = {name: value for name, value in (zone | expected).items() if value is not None}
    assert schedule_of(job) == expected | {"catch_up": "none"}
    assert job.work == FunctionWork(function="proj.tasks:clean")
    assert job.max_retries == 0


@pytest.mark.parametrize(
    "arguments",
    [
        "clean, 'cron', second='*/5'", "clean, 'cron', second=30", "clean, 'cron', year=2030", "clean, 'cron', week=3",
        "clean, 'cron', day='last', day_of_week='fri'", "clean, 'cron', day='13', day_of_week='fri'",
        "clean, 'cron', hours=3", "clean, 'cron', hour=when()", "clean, 'date', run_date='2009-11-06'",
        "clean, 'date', run_date=datetime.now()", "clean, 'interval', minutes=x", "clean, AndTrigger([])",
        "clean, 'calendarinterval', days=1", "clean, CronTrigger.from_crontab('@daily')", "lambda: 1, 'cron', hour=1",
        "self.tick, 'cron', hour=1", "tick, 'cron', hour=1", "clean, 'cron', [1], hour=1", "**options", "",
        "clean, 'cron', hour=1, max_instances=0", "clean, 'interval', seconds=0.5", "clean, 'cron', timezone='Mars'",
    ],
)  # fmt: skip
def test_a_job_that_stays_a_comment(arguments: str) -> None:
    found = added(arguments)
    assert found.jobs == {}
    assert "# NOT CARRIED OVER: " in found.kept


@pytest.mark.parametrize(
    ("options", "head", "catch_up", "most"),
    [
        ("", "", {"catch_up": "none"}, 1),
        ("misfire_grace_time=60, max_instances=3", "", {"catch_up_window": 60.0}, 3),
        ("misfire_grace_time=3600, coalesce=False", "", {"catch_up": "all", "catch_up_window": 3600.0}, 1),
        ("misfire_grace_time=None", "", {"catch_up_window": 36500 * 86400.0}, 1),
        ("", "scheduler = BackgroundScheduler(job_defaults={'max_instances': 2, 'misfire_grace_time': 90})",
         {"catch_up_window": 90.0}, 2),
    ],
)  # fmt: skip
def test_options(options: str, head: str, catch_up: dict[str, Any], most: int) -> None:
    (job,) = added(f"clean, 'interval', hours=1, id='an id', {options}", head).jobs.values()
    assert (job.id, job.constraints.max_concurrent_runs or 1) == ("an-id", most)
    assert schedule_of(job) == {"every": 3600.0} | catch_up


def test_functions_of_the_file_itself(tmp_path: Path) -> None:
    text = (
        "scheduler = BlockingScheduler(timezone=pytz.timezone('America/New_York'))\n"
        "@scheduler.scheduled_job('cron', id='hourly', minute=0, args=['x'])\n"
        "async def tick(name): ...\n"
        "@sched.scheduled_job(IntervalTrigger(minutes=1, start_date='2030-01-01'))\n"
        "def tock(): ...\n"
        "scheduler.add_job(func=tick, trigger='interval', hours=1, kwargs=dict(name='y'))\n"
    )
    found = imported("apscheduler", text, tmp_path / "jobs.py")
    file = tmp_path / "jobs.py"
    assert {name: (job.work, job.payload) for name, job in found.jobs.items()} == {
        "hourly": (FunctionWork(function=f"{file}:tick"), {"name": "x"}),
        "tock": (FunctionWork(function=f"{file}:tock"), None),
        "tick": (FunctionWork(function=f"{file}:tick"), {"name": "y"}),
    }
    assert schedule_of(found.jobs["hourly"])["tz"] == "America/New_York"
    assert "# start_date: not carried over" in found.kept
    assert imported("apscheduler", text).jobs == {}, "the functions of standard input cannot be found"


terms = st.sampled_from(["*", "*/2", "*/3", "1", "2-5", "3-6/2", "1,4", "5/2"])


@given(
    fields=st.dictionaries(st.sampled_from(["month", "day", "day_of_week", "hour", "minute"]), terms, min_size=1),
    start=st.integers(10**9, 2**31),
)
def test_fire_times_are_its_own(fields: dict[str, str], start: int) -> None:
    given = ", ".join(f"{name}={text!r}" for name, text in fields.items())
    try:
        trigger = CronTrigger(timezone=UTC, **fields)
    except ValueError:
        return  # it refuses some steps
    found = added(f"clean, 'cron', timezone='UTC', {given}")
    if not found.jobs:
        assert "must both fit" in found.kept
        return
    schedule = found.jobs["clean"].schedule
    assert schedule is not None
    assert schedule.cron is not None
    at, previous = float(start), None
    for _ in range(4):
        now = datetime.fromtimestamp(at + 1, UTC)
        previous = trigger.get_next_fire_time(previous, now)
        try:
            at = cron_of(schedule.cron, "UTC").after(at)
        except NeverAgain:
            assert previous is None
            return
        assert previous is not None
        assert datetime.fromtimestamp(at, UTC) == previous


def test_python_that_cannot_be_read() -> None:
    with pytest.raises(BadValue):
        imported("apscheduler", "def")

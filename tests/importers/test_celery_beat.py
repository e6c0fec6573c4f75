"""Celery beat: entries, schedules, arguments; and fire times where all fields of crontab(…) fit."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.error import BadValue
from interlock.model.schedule.cron import cron_of
from interlock.model.work import FunctionWork
from tests.importers.reading import NOW, Written, imported, schedule_of

HEAD = (
    "from datetime import timedelta\nfrom celery import Celery\nfrom celery.schedules import crontab, schedule, solar\n"
)


def entry(schedule: str, more: str = "", name: str = "beat_schedule") -> Written:
    return imported(
        "celery_beat", f"{HEAD}{name} = {{'e': {{'task': 'proj.tasks.add', 'schedule': {schedule}, {more}}}}}"
    )


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("30.0", {"every": 30.0}),
        ("60 * 60 * 2", {"every": 7200.0}),
        ("timedelta(minutes=5, seconds=30)", {"every": 330.0}),
        ("schedule(run_every=timedelta(days=1))", {"every": 86400.0}),
        ("schedule(10)", {"every": 10.0}),
        ("crontab()", {"cron": "* * * * *"}),
        ("crontab(minute=0, hour='*/3')", {"cron": "0 */3 * * *"}),
        ("crontab(30, 7)", {"cron": "30 7 * * *"}),
        ("crontab(minute='1,13,30-45,50-59/2', hour=4)", {"cron": "1,13,30-45,50,52,54,56,58 4 * * *"}),
        ("crontab(0, 0, day_of_week='sunday')", {"cron": "0 0 * * 0"}),
        ("crontab(0, 0, day_of_week=1)", {"cron": "0 0 * * 1"}),
        ("crontab(0, 0, day_of_week='fri-mon')", {"cron": "0 0 * * 0,1,5,6"}),
        ("crontab(0, '22-2')", {"cron": "0 0-2,22,23 * * *"}),
        ("crontab(0, [0, 12], day_of_month=[1, 15], month_of_year='*/3')", {"cron": "0 0,12 1,15 */3 *"}),
        ("crontab(0, 0, day_of_month='1-7,15-21', day_of_week='mon')", {"cron": "0 0 * * MON#1,MON#3"}),
        ("crontab(0, 0, day_of_month='1,2', day_of_week='mon,tue')", {"cron": "0 0 */31,2 * 1,2"}),
        ("crontab(0, 0, day_of_month='13', day_of_week='sun,fri')", {"cron": "0 0 13 * */7,5"}),
    ],
)  # fmt: skip
def test_a_schedule(schedule: str, expected: dict[str, Any]) -> None:
    (job,) = entry(schedule).jobs.values()
    assert schedule_of(job) == expected
    assert job.work == FunctionWork(function="proj.tasks:add")
    assert job.max_retries == 0


@pytest.mark.parametrize(
    ("schedule", "more"),
    [
        ("solar('sunset', -37.8, 144.9)", ""),
        ("crontab(0, 0, day_of_month='13', day_of_week='fri')", ""),
        ("crontab(0, 0, 1)", ""),
        ("crontab(minute=61)", ""),
        ("crontab(minute='x')", ""),
        ("crontab(minute='*/0')", ""),
        ("crontab(nowfun=now)", ""),
        ("every()", ""),
        ("0.5", ""),
        ("-5", ""),
        ("10**400", ""),
        ("10", "'args': (1, 2)"),
        ("10", "'kwargs': {'x': object()}"),
        ("10", "'kwargs': {1: 2}"),
        ("10", "**more"),
    ],
)
def test_an_entry_that_stays_a_comment(schedule: str, more: str) -> None:
    found = entry(schedule, more)
    assert found.jobs == {}
    assert "# NOT CARRIED OVER: " in found.kept


@pytest.mark.parametrize(
    "text",
    [
        "app.conf.beat_schedule = {'e': E}",
        "CELERY_BEAT_SCHEDULE = {'e': E}",
        "CELERYBEAT_SCHEDULE: dict = {'e': E}",
        "app.conf.update(beat_schedule={'e': E}, timezone='Europe/London')",
        "app.conf.beat_schedule['e'] = E",
        "app.conf.beat_schedule.update({'e': E})",
        "app = Celery('x', beat_schedule=dict(e=E))",
        "class Config:\n    beat_schedule = {'e': E}",
        "ALL = {'e': E}\napp.conf.beat_schedule = ALL",
    ],
)
def test_where_a_schedule_stands(text: str) -> None:
    found = imported("celery_beat", f"{HEAD}E = dict(task='proj.tasks.add', schedule=crontab(0, 5))\n{text}\n")
    zone = {"tz": "Europe/London"} if "London" in text else {}
    assert {name: schedule_of(job) for name, job in found.jobs.items()} == {"e": {"cron": "0 5 * * *"} | zone}


@pytest.mark.parametrize(
    ("setting", "tz"),
    [("", "UTC"), ("app.conf.timezone = 'Asia/Tokyo'", "Asia/Tokyo"), ("CELERY_TIMEZONE = 'Asia/Tokyo'", "Asia/Tokyo"),
     ("app.conf.enable_utc = False", "Europe/Paris")],
)  # fmt: skip
def test_the_time_zone(setting: str, tz: str) -> None:
    text = f"{HEAD}{setting}\nbeat_schedule = {{'e': dict(task='a.b', schedule=crontab(0, 5))}}"
    (job,) = imported("celery_beat", text, tz="Europe/Paris").jobs.values()
    assert job.schedule is not None
    assert job.schedule.zone == tz


def test_arguments_get_their_names_from_the_function(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / "tasks.py").write_text("@app.task\ndef add(x, y, z=0): ...\ndef bound(self, to): ...\n")
    text = (
        "beat_schedule = {\n"
        "'a': {'task': 'proj.tasks.add', 'schedule': 5, 'args': (1, [2, {'k': None}]), 'kwargs': {'z': 1e3}},\n"
        "'b': {'task': 'proj.tasks.bound', 'schedule': 5, 'args': ['1e5'], 'options': {'queue': 'q', 'expires': 9}},\n"
        "'c': {'task': 'proj.tasks.add', 'schedule': 5, 'args': (1, 2, 3, 4)},\n"
        "}\n"
    )
    found = imported("celery_beat", text, tmp_path / "proj" / "celery.py")
    assert {name: job.payload for name, job in found.jobs.items()} == {
        "a": {"x": 1, "y": [2, {"k": None}], "z": 1000.0},
        "b": {"to": "1e5"},
    }
    assert "# options.queue = 'q': not carried over\n# options.expires = 9: not carried over\n" in found.text


def test_periodic_tasks() -> None:
    text = (
        "from proj.tasks import add\n"
        "def setup(sender, **kwargs):\n"
        "    sender.add_periodic_task(10.0, add.s(x=1), name='add every 10', expires=10)\n"
        "    sender.add_periodic_task(crontab(hour=7, minute=30, day_of_week=1), add.s())\n"
        "    sender.add_periodic_task(5, task)\n"
    )
    found = imported("celery_beat", text)
    assert {name: (schedule_of(job), job.payload) for name, job in found.jobs.items()} == {
        "add-every-10": ({"every": 10.0}, {"x": 1}),
        "add": ({"cron": "30 7 * * 1"}, None),
    }


def test_python_that_cannot_be_read() -> None:
    with pytest.raises(BadValue, match="line 1: "):
        imported("celery_beat", "beat_schedule = {")
    with pytest.raises(BadValue):
        imported("celery_beat", "beat_schedule = \0")


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    imported("celery_beat", f"beat_schedule = {{'e': open({str(mark)!r}, 'w')}}\nopen({str(mark)!r}, 'w')\n")
    assert not mark.exists()


def test_names_that_stand_for_each_other_end() -> None:
    laughs = "".join(f"a{number + 1} = [a{number}, a{number}]\n" for number in range(20))
    found = imported("celery_beat", f"{laughs}a = b\nb = a\nc = [c]\nbeat_schedule = {{'e': a, 'f': c, 'g': a20}}\n")
    assert found.jobs == {}


def chosen(first: int, last: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(first, last), min_size=1, max_size=10, unique=True)


@given(days=chosen(1, 28), weekdays=chosen(0, 6), months=chosen(1, 12), hour=st.integers(0, 23))
def test_both_day_fields_must_fit(days: list[int], weekdays: list[int], months: list[int], hour: int) -> None:
    found = entry(f"crontab(0, {hour}, day_of_month={days}, day_of_week={weekdays}, month_of_year={months})")
    if not found.jobs:
        assert "must both fit" in found.kept
        return
    schedule = found.jobs["e"].schedule
    assert schedule is not None
    assert schedule.cron is not None
    day = datetime.fromtimestamp(NOW, UTC).replace(hour=hour, minute=0, second=0)
    fitting = (day + timedelta(days=number) for number in range(1, 1500))
    expected = [one for one in fitting if one.day in days and one.isoweekday() % 7 in weekdays and one.month in months][
        :4
    ]
    at = day.timestamp()
    for one in expected:
        at = cron_of(schedule.cron, "UTC").after(at)
        assert datetime.fromtimestamp(at, UTC) == one

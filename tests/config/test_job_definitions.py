"""Jobs with schedules, defined in Python: what is taken, and what is refused at once."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import interlock as il
from interlock.error import BadDuration, BadPayload, BadValue, InterlockError, NotJson
from interlock.model.job import Job
from interlock.model.schedule.schedule import CatchUp, Schedule

ALL = CatchUp.ALL


def defined(handler: Callable[..., Any], **options: Any) -> Job:
    app = il.App()
    app.job("daily", **options)(handler)
    return app.definitions["daily"].job


def nothing() -> None: ...


def takes(day: str, count: int = 1) -> None: ...


def takes_secret(key: il.Secret, name: str = "") -> None: ...


@pytest.mark.behaviour("TIM-1", "TIM-12")
@pytest.mark.parametrize(
    ("schedule", "made"),
    [
        (il.cron("0 2 * * *", tz="Europe/Paris"), Schedule(cron="0 2 * * *", tz="Europe/Paris")),
        (il.cron("0 2 * * *", jitter="5m", catch_up="all"), Schedule(cron="0 2 * * *", jitter=300, catch_up=ALL)),
        (il.every("60s", wait="10s", catch_up_max=3), Schedule(every=60, wait=10, catch_up_max=3)),
        (il.every(90, catch_up_window="1h"), Schedule(every=90, catch_up_window=3600)),
        (il.at("2030-01-31T02:00:00Z", keep=True), Schedule(at=1896055200, keep=True)),
        (il.at("2030-01-31 02:00", tz="Europe/Paris"), Schedule(at=1896051600, tz="Europe/Paris")),
        (il.at(datetime(2030, 1, 31, 2, tzinfo=UTC)), Schedule(at=1896055200)),
        (il.once(), Schedule(once=True)),
        (il.once("3d", jitter=5), Schedule(once=True, wait=259200, jitter=5)),
    ],
)  # fmt: skip
def test_schedules(schedule: Schedule, made: Schedule) -> None:
    assert schedule == made
    assert defined(nothing, schedule=schedule).schedule == made


@pytest.mark.behaviour("TIM-3", "TIM-8")
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: il.cron("0 0 31 2 *"), "schedule.cron: '0 0 31 2 *' never fires: there is no such day"),
        (lambda: il.cron("* * * * *", tz="Mars/Base"), "schedule.tz: 'Mars/Base' is not a time zone"),
        (lambda: il.every("60s", wait="60s"), "schedule.wait: '1m' is not"),
        (lambda: il.every(0), "schedule.every: 0 is not"),
        (lambda: il.every("now and then"), "schedule.every: 'now and then' is not a duration"),
        (lambda: il.at("soon"), "schedule.at: 'soon' is not a time like 2030-01-31T02:00:00Z"),
        (lambda: il.once(catch_up="maybe"), "schedule.catch_up: 'maybe' is not one of none, latest, all"),
        (lambda: il.Constraints(max_concurrent_runs=0), "constraints.max_concurrent_runs: 0 is not"),
    ],
)
def test_schedules_that_are_none(make: Callable[[], object], says: str) -> None:
    with pytest.raises((BadValue, BadDuration)) as caught:
        make()
    assert str(caught.value).startswith(says)


def test_constraints_and_payload_are_part_of_the_job() -> None:
    job = defined(takes, payload={"day": "today"}, constraints=il.Constraints(max_concurrent_runs=3))
    assert (job.constraints.max_concurrent_runs, job.payload, job.schedule) == (3, {"day": "today"}, None)
    assert defined(takes).constraints.max_concurrent_runs is None


@pytest.mark.parametrize(
    ("handler", "options", "error", "says"),
    [
        (takes, {"payload": {"dya": "x"}}, BadPayload, "payload of 'daily': "),
        (takes, {"payload": {"day": 5}}, BadPayload, "payload of 'daily': argument 'day': expected str, got int"),
        (takes, {"payload": {}}, BadPayload, "payload of 'daily': argument 'day' is missing"),
        (takes, {"payload": {"day": object()}}, NotJson, "payload.day: a object is not JSON"),
        (takes, {"payload": ["hunter2"]}, BadValue, "payload: '…' is not a mapping of arguments"),
        (takes, {"schedule": il.every("1m")}, BadPayload, "payload of 'daily': argument 'day' is missing"),
        (
            nothing,
            {"schedule": "0 2 * * *"},
            BadValue,
            "schedule: '0 2 * * *' is not",
        ),
        (nothing, {"constraints": 3}, BadValue, "constraints: 3 is not an interlock.Constraints"),
    ],
)
def test_what_could_never_run_is_refused_at_once(
    app: il.App, handler: Callable[..., Any], options: dict[str, Any], error: type[InterlockError], says: str
) -> None:
    with pytest.raises(error) as caught:
        app.job("daily", **options)(handler)
    assert str(caught.value).startswith(says)
    assert app.definitions == {}


def test_a_secret_in_a_payload_stays_one() -> None:
    for value in ("hunter2", il.Secret("hunter2")):
        job = defined(takes_secret, payload={"key": value, "name": "x"}, schedule=il.every("1m"))
        assert job.payload == {"key": {"$secret": "hunter2"}, "name": "x"}
        assert job.secrets == ("key",)


@pytest.mark.behaviour("TIM-14")
def test_whatever_is_changed_makes_another_version() -> None:
    versions = {
        defined(takes, payload={"day": "x"}).version,
        defined(takes, payload={"day": "y"}).version,
        defined(takes, payload={"day": "y"}, schedule=il.every("1m")).version,
        defined(takes, payload={"day": "y"}, schedule=il.every("2m")).version,
        defined(takes, payload={"day": "y"}, constraints=il.Constraints(max_concurrent_runs=2)).version,
    }
    assert len(versions) == 5
    assert defined(takes, payload={"day": "x"}).version in versions

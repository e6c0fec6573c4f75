"""Schedules as values: what each says, what is refused and how, when `at` is, and where jitter puts a job."""

import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlock as il
from interlock.error import BadDuration, BadValue, InterlockError
from interlock.model.schedule.schedule import CatchUp, Schedule, instant

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
OFFSET_OF_REPORT = 8.6949933456


def schedule(**fields: Any) -> Schedule:
    return Schedule(**fields)


def refused(**fields: Any) -> str:
    with pytest.raises((BadValue, BadDuration)) as error:
        schedule(**fields)
    return str(error.value)


@pytest.mark.behaviour("TIM-1")
@pytest.mark.parametrize(
    ("fields", "kind", "told", "identity"),
    [
        ({"once": True}, "once", "once", "once 0.0"),
        ({"once": True, "wait": "90m"}, "once", "once after 90m", "once 5400.0"),
        ({"once": True, "wait": "400d"}, "once", "once after 400d", "once 34560000.0"),
        ({"at": NOON}, "at", "at 2030-01-31 12:00:00Z", "at 1896091200.0"),
        ({"at": "2030-01-31T12:00:00Z", "keep": True}, "at", "at 2030-01-31 12:00:00Z", "at 1896091200.0"),
        ({"at": 0}, "at", "at 1970-01-01 00:00:00Z", "at 0.0"),
        ({"every": "60s", "wait": "10s"}, "every", "every 1m after 10s", "every 60.0 10.0"),
        ({"every": 1}, "every", "every 1s", "every 1.0 0.0"),
        ({"every": timedelta(hours=36)}, "every", "every 36h", "every 129600.0 0.0"),
        ({"every": 1.5, "wait": "800ms"}, "every", "every 1.5s after 800ms", "every 1.5 0.8"),
        ({"cron": "0 2 * * *"}, "cron", "cron 0 2 * * *", "cron 0 2 * * * UTC"),
        ({"cron": "0 2 * * mon", "tz": "Asia/Tokyo"},
         "cron", "cron 0 2 * * mon Asia/Tokyo", "cron 0 2 * * MON Asia/Tokyo"),
    ],
)  # fmt: skip
def test_each_kind(fields: dict[str, Any], kind: str, told: str, identity: str) -> None:
    made = schedule(**fields)
    assert (made.kind, str(made), made.identity) == (kind, told, identity)
    assert made.warnings == []
    # what is stored and sent is the same again
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Schedule) == made
    assert msgspec.json.decode(msgspec.json.encode(made), type=Schedule) == made


@pytest.mark.behaviour("TIM-3")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "schedule: is empty; give exactly one of once, at, every, cron"),
        ({"once": False}, "schedule: is empty; give exactly one of once, at, every, cron"),
        ({"wait": 5}, "schedule: is empty; give exactly one of once, at, every, cron"),
        ({"cron": "* * * * *", "every": 60}, "schedule: every and cron are given together; "),
        ({"once": True, "at": 0}, "schedule: once and at are given together; "),
        ({"every": 60, "wait": 60}, "schedule.wait: '1m' is not"),
        ({"every": "1m", "wait": "60s"}, "schedule.wait: '1m' is not"),
        ({"every": "90s", "wait": "2m"}, "schedule.wait: '2m' is not"),
        ({"every": 60, "wait": -1}, "schedule.wait: -1 is not"),
        ({"once": True, "wait": "-1s"}, "schedule.wait: '-1s' is not"),
        ({"every": 0}, "schedule.every: 0 is not"),
        ({"every": "999ms"}, "schedule.every: '999ms' is not"),
        ({"every": -60}, "schedule.every: -60 is not"),
        ({"every": False}, "schedule.every: False is not"),
        ({"every": "soon"}, "schedule.every: 'soon' is not"),
        ({"every": "1000001d"}, "schedule.every: '1000001d' is not"),
        ({"once": 10}, "schedule.once: 10 is not"),
        ({"once": "10s"}, "schedule.once: '10s' is not"),
        ({"once": None}, "schedule.once: None is not"),
        ({"every": 60, "tz": "UTC"}, "schedule.tz: "),
        ({"once": True, "tz": "UTC"}, "schedule.tz: "),
        ({"cron": "0 2 * * *", "tz": ""}, "schedule.tz: '' is not"),
        ({"cron": "0 2 * * *", "tz": "Mars/Base"}, "schedule.tz: 'Mars/Base' is not"),
        ({"at": NOON, "tz": "Mars/Base"}, "schedule.tz: 'Mars/Base' is not"),
        ({"at": "2030-01-31 12:00", "tz": ""}, "schedule.tz: '' is not"),
        ({"at": NOON, "wait": "5s"}, "schedule.wait: "),
        ({"at": "tomorrow"}, "schedule.at: 'tomorrow' is not"),
        ({"at": date(2030, 1, 31)}, "schedule.at: datetime.date(2030, 1, 31) is not"),
        ({"at": True}, "schedule.at: True is not"),
        ({"at": math.nan}, "schedule.at: nan is not"),
        ({"at": math.inf}, "schedule.at: inf is not"),
        ({"at": -1}, "schedule.at: -1 is not"),
        ({"at": 10**400}, "schedule.at: <int, too long to show> is not"),
        ({"at": "1969-12-31T23:59:59Z"}, "schedule.at: '1969-12-31T23:59:59Z' is not"),
        ({"every": 60, "keep": True}, "schedule.keep: "),
        ({"at": NOON, "keep": 1}, "schedule.keep: 1 is not"),
        ({"every": 60, "catch_up": "some"}, "schedule.catch_up: 'some' is not"),
        ({"every": 60, "catch_up": "ALL"}, "schedule.catch_up: 'ALL' is not"),
        ({"every": 60, "catch_up": []}, "schedule.catch_up: [] is not"),
        ({"every": 60, "catch_up_max": -1}, "schedule.catch_up_max: -1 is not"),
        ({"every": 60, "catch_up_max": 10_001}, "schedule.catch_up_max: 10001 is not"),
        ({"every": 60, "catch_up_max": True}, "schedule.catch_up_max: True is not"),
        ({"every": 60, "catch_up_window": "-1"}, "schedule.catch_up_window: '-1' is not"),
        ({"every": 60, "jitter": None}, "schedule.jitter: None is not"),
        ({"every": 60, "wait": 10**400}, "schedule.wait: <int, too long to show> is not"),
        ({"cron": 5}, "schedule.cron: 5 is not"),
        ({"cron": ""}, "schedule.cron: '' is not"),
        ({"cron": "0 0 31 2 *"}, "schedule.cron: '0 0 31 2 *' never fires: "),
    ],
)  # fmt: skip
def test_what_is_refused(fields: dict[str, Any], message: str) -> None:
    assert refused(**fields).startswith(message)


@pytest.mark.behaviour("TIM-3")
def test_the_edges_are_accepted() -> None:
    assert schedule(every="60s", wait="59.999s").wait == 59.999
    assert schedule(every=1, wait=0).every == 1.0
    assert schedule(once=True, wait="1000000d").wait == 8.64e10
    assert schedule(every=60, catch_up_max=0).catch_up_max == 0
    assert schedule(every=60, catch_up_max=10_000).catch_up_max == 10_000
    for word in CatchUp:
        assert schedule(every=60, catch_up=str(word)).catch_up is word


@pytest.mark.behaviour("TIM-3")
def test_what_has_no_effect_is_said() -> None:
    assert schedule(cron="0 2 * * *", wait="10s").warnings == [
        "schedule.wait: has no effect beside cron, which says itself when to begin"
    ]
    assert schedule(cron="*/90 */24 */32 */12 */8").warnings == [
        "schedule.cron: the step of '*/90' is longer than the range of the minute, so only its first value fits",
        "schedule.cron: the step of '*/32' is longer than the range of the day of month, so only its first value fits",
        "schedule.cron: the step of '*/8' is longer than the range of the day of week, so only its first value fits",
    ]
    assert schedule(cron="*/60 */24 */31 */12 */7").warnings == []


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**320)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC))
    | st.dates()
    | st.timedeltas()
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    | st.complex_numbers()
    | st.sampled_from(["60s", "0 2 * * *", "UTC", "Europe/Paris", "latest", "2030-01-31", "0001-01-01T00:00+14:00"])
)


@pytest.mark.behaviour("TIM-1", "TIM-3")
@given(st.dictionaries(st.sampled_from(Schedule.__struct_fields__), ANYTHING, max_size=4))
def test_anything_is_a_schedule_or_refused(fields: dict[str, Any]) -> None:
    try:
        made = schedule(**fields)
    except InterlockError as error:
        told = str(error)
    else:
        assert made.kind in fields
        assert str(made).startswith(made.kind)
        assert 0 <= made.offset("job") <= made.jitter
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Schedule) == made
        return
    field = told.partition(": ")[0].removeprefix("schedule").removeprefix(".")
    assert field == "" or field in fields


@pytest.mark.behaviour("TIM-1")
@pytest.mark.parametrize("kind", ["at", "every", "cron"])
@given(value=ANYTHING)
def test_anything_as_the_time_is_a_schedule_or_refused(kind: str, value: object) -> None:
    try:
        assert schedule(**{kind: value}).kind == kind
    except InterlockError as error:
        told = str(error)
    else:
        return
    assert told.startswith("schedule: is empty" if value is None else f"schedule.{kind}: ")


class NoZone(tzinfo):
    """One that does not say how far it is ahead, which Python takes for the machine's own."""

    def utcoffset(self, when: datetime | None) -> None:
        return None

    def dst(self, when: datetime | None) -> None:
        return None

    def tzname(self, when: datetime | None) -> None:
        return None


@pytest.mark.behaviour("TIM-1")
@pytest.mark.parametrize(
    ("value", "tz", "expected"),
    [
        ("2030-01-31T12:00:00Z", None, NOON),
        (" 2030-01-31 12:00 ", None, NOON),
        ("2030-01-31T14:00+02:00", None, NOON),
        ("2030-01-31T14:00+02:00", "Asia/Tokyo", NOON),  # its own offset is what counts
        ("2030-01-31T13:00", "Europe/Paris", NOON),
        ("2030-01-31", None, datetime(2030, 1, 31, tzinfo=UTC)),
        (NOON, "Europe/Paris", NOON),
        (NOON.replace(tzinfo=None), None, NOON),
        (NOON.replace(tzinfo=None, hour=13), "Europe/Paris", NOON),
        (NOON.replace(tzinfo=NoZone(), hour=13), "Europe/Paris", NOON),
        (NOON.astimezone(timezone(timedelta(hours=-7))), None, NOON),
        (1896091200, None, NOON),
        (1896091200.0, None, NOON),
        # jumped over, as by cron: when the jump ends; what comes twice: the first time
        ("2027-03-28T02:30", "Europe/Paris", datetime(2027, 3, 28, 1, tzinfo=UTC)),
        ("2027-10-31T02:30", "Europe/Paris", datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
        ("2011-12-30T12:00", "Pacific/Apia", datetime(2011, 12, 30, 10, tzinfo=UTC)),
    ],
)
def test_when_at_is(value: Any, tz: str | None, expected: datetime) -> None:
    assert schedule(at=value, tz=tz).at == expected.timestamp()


@pytest.mark.behaviour("TIM-1")
def test_at_keeps_fractions_of_a_second() -> None:
    assert schedule(at="2030-01-31T13:00:00.25", tz="Europe/Paris").at == NOON.timestamp() + 0.25
    assert schedule(at="2030-01-31T12:00:00.25Z").at == NOON.timestamp() + 0.25


@pytest.mark.behaviour("TIM-1")
@given(st.datetimes(timezones=st.none() | st.timezones()), st.sampled_from([None, "Europe/Paris", "Pacific/Apia"]))
def test_every_datetime_is_an_instant_or_refused(value: datetime, tz: str | None) -> None:
    try:
        found = instant(value, "at", tz)
    except BadValue as error:
        told = str(error)
    else:
        assert 0 <= found < 1e11
        return
    assert told.endswith("is not a time from 1970 to 5138")
    assert value.year <= 1970 or value.year >= 5138


@pytest.mark.behaviour("TIM-14")
def test_the_identity_changes_with_the_times_only() -> None:
    plain = schedule(cron="0 2 * * *").identity
    for same in (
        {"cron": " 0  2 * * * "},
        {"cron": "0 2 * * *", "tz": "UTC"},
        {"cron": "0 2 * * *", "jitter": "5m", "catch_up": "all", "catch_up_window": "1h", "catch_up_max": 5},
        {"cron": "0 2 * * *", "wait": 5},
    ):
        assert schedule(**same).identity == plain
    for other in ({"cron": "0 3 * * *"}, {"cron": "0 2 * * *", "tz": "Europe/Paris"}, {"every": "1d"}):
        assert schedule(**other).identity != plain
    assert schedule(every="1m").identity == schedule(every=60, jitter=3).identity
    assert schedule(every="1m").identity != schedule(every="1m", wait="1s").identity
    assert schedule(at=NOON).identity == schedule(at="2030-01-31T13:00", tz="Europe/Paris", keep=True).identity
    assert schedule(once=True).identity != schedule(once=True, wait=1).identity


@pytest.mark.behaviour("TIM-15")
def test_jitter_gives_each_job_its_own_place() -> None:
    spread = schedule(cron="0 * * * *", jitter="60s")
    places = [spread.offset(f"report-{number}") for number in range(6000)]
    assert all(0 <= place < 60 for place in places)
    by_second = [0] * 60
    for place in places:
        by_second[int(place)] += 1
    # 100 in each second on average: none is far from it
    assert min(by_second) > 50
    assert max(by_second) < 160
    assert len(set(places)) == len(places)


@pytest.mark.behaviour("TIM-15")
def test_the_place_of_a_job_is_the_same_in_every_process_and_for_ever() -> None:
    assert schedule(every=60, jitter=60).offset("report") == pytest.approx(OFFSET_OF_REPORT, abs=1e-9)
    # the share is the job's own: whatever else its schedule says, and wherever it runs
    assert schedule(cron="0 2 * * *", jitter="1h").offset("report") == pytest.approx(60 * OFFSET_OF_REPORT)
    assert schedule(every=60).offset("report") == 0.0


@pytest.mark.behaviour("TIM-3")
@pytest.mark.parametrize(
    ("make", "option"),
    [
        *((il.at, one) for one in ("catch_up_max", "wait", "once", "every", "cron", "jiter")),
        *((il.once, one) for one in ("catch_up_max", "keep", "tz", "at", "every", "cron")),
        *((il.every, one) for one in ("keep", "tz", "once", "at", "cron")),
        *((il.cron, one) for one in ("keep", "once", "at", "every")),
    ],
)
def test_an_option_of_another_kind_is_no_option(make: Any, option: str) -> None:
    first = {il.at: "2030-01-31T12:00:00Z", il.once: 5, il.every: "1h", il.cron: "0 2 * * *"}[make]
    # Values that would change nothing, were they accepted.
    defaults = {"catch_up_max": 5, "wait": 0, "once": False, "keep": False}
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}'"):
        make(first, **{option: defaults.get(option)})


@pytest.mark.behaviour("TIM-1")
def test_the_options_of_each_kind() -> None:
    every: dict[str, Any] = {"jitter": "1s", "catch_up": "all", "catch_up_window": "1h"}
    repeated = {**every, "catch_up_max": 7}
    assert il.at(NOON, keep=True, **every) == schedule(at=NOON, keep=True, **every)
    assert il.once("5s", **every) == schedule(once=True, wait="5s", **every)
    assert il.every("1h", wait="5s", **repeated) == schedule(every="1h", wait="5s", **repeated)
    assert il.cron("0 2 * * *", tz="Asia/Tokyo", **repeated) == schedule(cron="0 2 * * *", tz="Asia/Tokyo", **repeated)

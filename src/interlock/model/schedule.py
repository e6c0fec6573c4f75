"""When a job is to run: once, at an instant, at an interval, or by a cron expression; a value that checks itself."""

import hashlib
import math
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from interlock.model.cron import cron_of
from interlock.model.cron_fields import steps_too_far
from interlock.model.duration import seconds
from interlock.model.error import BadValue
from interlock.model.zone import zone_of

KINDS = ("once", "at", "every", "cron")
SHORTEST = 1.0
"""seconds: the id of a run names the second in which it fires"""
LATEST_TIME = 1e11
LONGEST_DAYS = 1_000_000
"""from any time before the latest, it ends before the calendar does"""
LONGEST = LONGEST_DAYS * 86400.0
MOST_CATCH_UP = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CatchUp(StrEnum):
    """What becomes of occurrences whose time has passed unheard."""

    NONE = "none"
    """nothing"""
    LATEST = "latest"
    """the newest of them is run"""
    ALL = "all"
    """each of them is run"""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Exactly one of `once`, `at`, `every` and `cron`. Durations and times may be given as people write them; they are
    kept as seconds."""

    once: bool = False
    at: float | None = None
    every: float | None = None
    cron: str | None = None
    tz: str | None = None
    """of `cron`, and of an `at` that has none; UTC if there is none"""
    wait: float = 0.0
    """seconds from when the job is first known until `once` fires, or `every` for the first time"""
    jitter: float = 0.0
    """seconds within which the job has its own place, always the same, behind each of its times"""
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_window: float = 60.0
    catch_up_max: int = 100
    keep: bool = False
    """an `at` job stays after its run"""

    def __post_init__(self) -> None:
        given = self._given()
        if len(given) != 1:
            raise BadValue("schedule", given, f"exactly one of {', '.join(KINDS)}")
        if not isinstance(self.once, bool):
            raise BadValue("schedule.once", self.once, "true, or left out; the time until then is 'wait'")
        if self.tz is not None:
            if self.cron is None and self.at is None:
                expected = f"for {given[0]}, which goes by elapsed time; only for cron and at"
                raise BadValue("schedule.tz", self.tz, expected)
            zone_of(self.tz)
        if self.at is not None:
            self._set("at", instant(self.at, "schedule.at", self.tz))
        if self.cron is not None:
            cron_of(self.cron, self.zone)
        self._check_durations()
        if not isinstance(self.keep, bool) or (self.keep and self.at is None):
            raise BadValue("schedule.keep", self.keep, "true or false, and true only for at")
        self._check_catch_up()

    def _given(self) -> list[str]:
        given = (self.once is not False, self.at is not None, self.every is not None, self.cron is not None)
        return [kind for kind, is_given in zip(KINDS, given, strict=True) if is_given]

    def _set(self, field: str, value: object) -> None:
        msgspec.structs.force_setattr(self, field, value)

    def _check_durations(self) -> None:
        wait, every = self.wait, self.every
        for field in ("wait", "jitter", "catch_up_window", *(["every"] if every is not None else [])):
            given = getattr(self, field)
            if type(given) is float and 0.0 <= given <= LONGEST:
                continue  # as it is when it comes from the store, and then there may be very many
            duration = seconds(given, f"schedule.{field}")
            if duration > LONGEST:
                raise BadValue(f"schedule.{field}", given, f"a duration of at most {LONGEST_DAYS:,} days")
            self._set(field, duration)
        if self.every is not None:
            if self.every < SHORTEST:
                raise BadValue("schedule.every", every, "an interval of one second or more")
            if self.wait >= self.every:
                raise BadValue("schedule.wait", wait, f"less than the interval ({_span(self.every)})")
        if self.at is not None and self.wait:
            raise BadValue("schedule.wait", wait, "for at, which has its time already")

    def _check_catch_up(self) -> None:
        if type(self.catch_up) is not CatchUp:
            try:
                self._set("catch_up", CatchUp(self.catch_up))
            except ValueError:
                raise BadValue("schedule.catch_up", self.catch_up, f"one of {', '.join(CatchUp)}") from None
        most = self.catch_up_max
        if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most <= MOST_CATCH_UP:
            raise BadValue("schedule.catch_up_max", most, f"a whole number from 0 to {MOST_CATCH_UP:,}")

    @property
    def kind(self) -> str:
        return self._given()[0]

    @property
    def zone(self) -> str:
        return "UTC" if self.tz is None else self.tz

    @property
    def identity(self) -> str:
        """What its times are made of: as long as this is the same, it goes on where it was."""
        if self.cron is not None:
            return f"cron {' '.join(self.cron.upper().split())} {self.zone}"
        if self.every is not None:
            return f"every {self.every!r} {self.wait!r}"
        return f"at {self.at!r}" if self.at is not None else f"once {self.wait!r}"

    @property
    def warnings(self) -> list[str]:
        """What is accepted, and yet is not what it may seem to be."""
        if self.every is not None and self.jitter >= self.every:
            return [f"schedule.jitter: {_span(self.jitter)} may bring a run behind the next time ({_span(self.every)})"]
        if self.cron is None:
            return []
        found = [f"schedule.cron: {trouble}" for trouble in steps_too_far(self.cron)]
        if self.wait:
            found.append("schedule.wait: has no effect beside cron, which says itself when to begin")
        return found

    def offset(self, job_id: str) -> float:
        """Seconds behind each of its times at which this job really fires."""
        if not self.jitter:
            return 0.0
        share = int.from_bytes(hashlib.blake2b(job_id.encode(), digest_size=6).digest()) / 2**48
        return self.jitter * share

    def __str__(self) -> str:
        """As it is told to people."""
        if self.cron is not None:
            return f"cron {self.cron}" + (f" {self.tz}" if self.tz else "")
        if self.every is not None:
            return f"every {_span(self.every)}" + (f" after {_span(self.wait)}" if self.wait else "")
        if self.at is not None:
            return f"at {datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S}Z"
        return f"once after {_span(self.wait)}" if self.wait else "once"


def instant(value: object, field: str, tz: str | None = None) -> float:
    """Seconds since 1970 of a time as people write it: with its offset, or else in the zone."""
    found = value
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found.strip())
        except ValueError:
            raise BadValue(field, value, "a time like 2030-01-31T02:00:00Z") from None
    if isinstance(found, datetime):
        found = _on_clock(found, tz) if found.utcoffset() is None else (found - _EPOCH) / timedelta(seconds=1)
    if not isinstance(found, (int, float)) or isinstance(found, bool) or found != found:
        raise BadValue(field, value, "a time like 2030-01-31T02:00:00Z")
    if not 0 <= found < LATEST_TIME:
        raise BadValue(field, value, f"a time from 1970 to {datetime.fromtimestamp(LATEST_TIME, UTC).year}")
    return float(found)


def _on_clock(wall: datetime, tz: str | None) -> float:
    """When the clock of the zone first shows this; where it is jumped over, when the jump ends."""
    shown = (wall.replace(tzinfo=UTC) - _EPOCH) / timedelta(seconds=1)
    if tz is None or not 0 <= shown < LATEST_TIME:
        return shown
    zone = zone_of(tz)
    early, late = zone.offsets(math.floor(shown))
    return shown - early if early >= late else float(zone.first_instant(math.floor(shown)))


def _span(duration: float) -> str:
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "m")):
        if duration >= unit and duration % unit == 0:
            return f"{duration / unit:g}{name}"
    return f"{duration:g}s"

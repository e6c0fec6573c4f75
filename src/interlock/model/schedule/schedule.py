"""When a job runs: once, at an instant, at an interval, or by a cron expression; a value that checks itself."""

import hashlib
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from interlock.error import BadUse, BadValue
from interlock.fields.field import Checked, doc
from interlock.fields.field_types import FieldPath, Kind, Schema, Span, Whole, Word
from interlock.fields.json_form import Time
from interlock.model.schedule.cron import cron_of
from interlock.model.schedule.cron_fields import NICKNAMES, split_fields, steps_too_far
from interlock.model.schedule.zone import zone_of

KINDS = ("once", "at", "every", "cron")
LATEST_TIME = 1e11
MOST_CATCH_UP = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CatchUp(StrEnum):
    """Missed occurrences to run."""

    NONE = "none"  # nothing
    LATEST = "latest"  # the newest of them is run
    ALL = "all"  # each of them is run


class _At(Kind):
    """An instant; the schedule itself knows the zone of one without an offset."""

    def check(self, value: Any, place: FieldPath) -> Any:
        instant(value, str(place))
        return value

    def schema(self) -> Schema:
        return {"type": ["string", "number"]}


class _Parsed(Word):
    """Text for a parser that raises its own error."""

    def __init__(self, parse: Callable[[Any], object], pattern: str = ".+") -> None:
        super().__init__(pattern)
        self.parse = parse

    def check(self, value: Any, place: FieldPath) -> str:
        text = place.text(value)
        self.parse(text)
        assert isinstance(text, str)
        return text


Seconds = Annotated[float, Span()]  # from any time before the latest, the longest ends before the calendar does
_NICKNAMES = ", ".join(f"`{name}`" for name in NICKNAMES)
_span = Span().show


class Schedule(Checked, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """When a job runs: exactly one of `once`, `at`, `every` and `cron`."""

    where: ClassVar[str] = "schedule"
    one_of: ClassVar[tuple[str, ...]] = KINDS

    once: Annotated[bool, doc("`true`: once, after `wait`.")] = False
    at: Annotated[Time | None, doc("Once, at this time."), _At()] = None
    every: Annotated[float | None, doc("At this interval, first after `wait`."), Span("1s")] = None
    cron: Annotated[
        str | None,
        doc(f"Cron expression of five fields: minute, hour, day of month, month, day of week; or one of {_NICKNAMES}."),
        _Parsed(lambda text: cron_of(text, "UTC"), rf"\s*(?:(?:\S+\s+){{4}}\S+|(?:{'|'.join(NICKNAMES)}))\s*"),
    ] = None
    tz: Annotated[
        str | None, doc("Time zone of `cron`, or of an `at` without an offset; default UTC."), _Parsed(zone_of)
    ] = None
    wait: Annotated[
        Seconds, doc("Delay of `once`, and of the first time of `every`, from when the job is first known.")
    ] = 0.0
    jitter: Annotated[Seconds, doc("Spread of fire times: each job fires at its own fixed delay within this.")] = 0.0
    catch_up: Annotated[CatchUp, doc("Missed occurrences to run: `none`, the `latest`, or `all`.")] = CatchUp.LATEST
    catch_up_window: Annotated[Seconds, doc("Age up to which a missed occurrence still runs.")] = 60.0
    catch_up_max: Annotated[int, doc("Largest number of missed occurrences to run."), Whole(0, MOST_CATCH_UP)] = 100
    keep: Annotated[bool, doc("Whether an `at` job stays after its run.")] = False

    def check(self) -> None:
        if self.tz is not None and self.cron is None and self.at is None:
            raise BadUse("schedule.tz", f"cannot be combined with {self.kind}; only with cron or at")
        if self.at is not None:
            self.put("at", instant(self.at, "schedule.at", self.tz))
            if self.wait:
                raise BadUse("schedule.wait", "cannot be combined with at, which has its own time")
        elif self.keep:
            raise BadUse("schedule.keep", "can only be combined with at")
        if self.every is not None and self.wait >= self.every:
            raise BadValue("schedule.wait", _span(self.wait), f"shorter than the interval ({_span(self.every)})")

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if getattr(self, kind) is not None and getattr(self, kind) is not False)

    @property
    def zone(self) -> str:
        return "UTC" if self.tz is None else self.tz

    @property
    def identity(self) -> str:
        """Return what its times derive from: a job whose identity is unchanged keeps its cursor."""
        if self.cron is not None:
            return f"cron {' '.join(split_fields(self.cron)).upper()} {self.zone}"
        if self.every is not None:
            return f"every {self.every!r} {self.wait!r}"
        return f"at {self.at!r}" if self.at is not None else f"once {self.wait!r}"

    @property
    def warnings(self) -> list[str]:
        """Return what is accepted but may be a mistake."""
        if self.every is not None and self.jitter >= self.every:
            return [
                f"schedule.jitter: {_span(self.jitter)} may delay a run past the next fire time ({_span(self.every)})"
            ]
        if self.cron is None:
            return []
        found = [f"schedule.cron: {trouble}" for trouble in steps_too_far(self.cron)]
        if self.wait:
            found.append("schedule.wait: has no effect beside cron, which says itself when to begin")
        return found

    def offset(self, job_id: str) -> float:
        """Return the seconds after each nominal time at which this job fires."""
        if not self.jitter:
            return 0.0
        share = int.from_bytes(hashlib.blake2b(job_id.encode(), digest_size=6).digest()) / 2**48
        return self.jitter * share

    def __str__(self) -> str:
        """Return the schedule as people read it."""
        if self.cron is not None:
            return f"cron {self.cron}" + (f" {self.tz}" if self.tz else "")
        if self.every is not None:
            return f"every {_span(self.every)}" + (f" after {_span(self.wait)}" if self.wait else "")
        if self.at is not None:
            return f"at {datetime.fromtimestamp(self.at, UTC):%Y-%m-%d %H:%M:%S}Z"
        return f"once after {_span(self.wait)}" if self.wait else "once"


def instant(value: object, field: str, tz: str | None = None) -> float:
    """Return the seconds since 1970 of a time as people write it, with its offset or else in the zone."""
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
    """Return when the clock of the zone first shows this; if it jumps over it, when the jump ends."""
    shown = (wall.replace(tzinfo=UTC) - _EPOCH) / timedelta(seconds=1)
    if tz is None or not 0 <= shown < LATEST_TIME:
        return shown
    zone = zone_of(tz)
    early, late = zone.offsets(math.floor(shown))
    return shown - early if early >= late else float(zone.first_instant(math.floor(shown)))

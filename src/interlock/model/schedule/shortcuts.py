"""Schedules as programs write them: `interlock.cron("0 2 * * *", tz="Europe/Paris")`."""

from datetime import datetime
from typing import Any, TypedDict, Unpack

from interlock.fields.duration import Duration
from interlock.model.schedule.schedule import CatchUp, Schedule


class Options(TypedDict, total=False):
    """Options of every schedule."""

    jitter: Duration
    catch_up: CatchUp | str
    catch_up_window: Duration


class RepeatOptions(Options, total=False):
    """Options of a schedule that fires more than once."""

    wait: Duration
    catch_up_max: int


def cron(expression: str, *, tz: str | None = None, **options: Unpack[RepeatOptions]) -> Schedule:
    """Run by a cron expression in a time zone: five fields, or `@daily` and the like. `wait` has no effect and causes a
    warning."""
    return _schedule(RepeatOptions, options, cron=expression, tz=tz)


def every(interval: Duration, **options: Unpack[RepeatOptions]) -> Schedule:
    """Run at an interval, first after `wait`."""
    return _schedule(RepeatOptions, options, every=interval)


def at(
    time: datetime | str | float, *, tz: str | None = None, keep: bool = False, **options: Unpack[Options]
) -> Schedule:
    """Run once, at an instant; `tz` is the zone of a time without an offset. `keep` keeps the job after its run."""
    return _schedule(Options, options, at=time, tz=tz, keep=keep)


def once(wait: Duration = 0.0, **options: Unpack[Options]) -> Schedule:
    """Run once, this long after the job is first known."""
    return _schedule(Options, options, once=True, wait=wait)


def _schedule(kind: Any, options: Any, **fields: Any) -> Schedule:
    if unknown := sorted(options.keys() - kind.__optional_keys__):
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")
    return Schedule(**fields, **options)  # it puts what people write into its own form

"""Schedules as programs write them: `interlock.cron("0 2 * * *", tz="Europe/Paris")`."""

from datetime import datetime

from interlock.model.duration import Duration
from interlock.model.schedule import CatchUp, Schedule


def cron(
    expression: str,
    *,
    tz: str | None = None,
    wait: Duration = 0.0,
    jitter: Duration = 0.0,
    catch_up: CatchUp | str = CatchUp.LATEST,
    catch_up_window: Duration = 60.0,
    catch_up_max: int = 100,
) -> Schedule:
    """Run by a cron expression in a time zone: five fields, or `@daily` and the like. `wait` has no effect and causes a
    warning."""
    return _schedule(
        cron=expression,
        tz=tz,
        wait=wait,
        jitter=jitter,
        catch_up=catch_up,
        catch_up_window=catch_up_window,
        catch_up_max=catch_up_max,
    )


def every(
    interval: Duration,
    *,
    wait: Duration = 0.0,
    jitter: Duration = 0.0,
    catch_up: CatchUp | str = CatchUp.LATEST,
    catch_up_window: Duration = 60.0,
    catch_up_max: int = 100,
) -> Schedule:
    """Run at an interval, first after `wait`."""
    return _schedule(
        every=interval,
        wait=wait,
        jitter=jitter,
        catch_up=catch_up,
        catch_up_window=catch_up_window,
        catch_up_max=catch_up_max,
    )


def at(
    time: datetime | str | float,
    *,
    tz: str | None = None,
    jitter: Duration = 0.0,
    catch_up: CatchUp | str = CatchUp.LATEST,
    catch_up_window: Duration = 60.0,
    keep: bool = False,
) -> Schedule:
    """Run once, at an instant; `tz` is the zone of a time without an offset. `keep` keeps the job after its run."""
    return _schedule(at=time, tz=tz, jitter=jitter, catch_up=catch_up, catch_up_window=catch_up_window, keep=keep)


def once(
    wait: Duration = 0.0,
    *,
    jitter: Duration = 0.0,
    catch_up: CatchUp | str = CatchUp.LATEST,
    catch_up_window: Duration = 60.0,
) -> Schedule:
    """Run once, this long after the job is first known."""
    return _schedule(once=True, wait=wait, jitter=jitter, catch_up=catch_up, catch_up_window=catch_up_window)


def _schedule(**fields: object) -> Schedule:
    """It puts what people write into its own form."""
    return Schedule(**fields)  # type: ignore[arg-type] # it checks itself, and takes what people write

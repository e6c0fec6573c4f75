"""The figures of the timetable: all that is measured of it, put together, and as rows of the table."""

import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from interlock.bench import apscheduler_peer, registered
from interlock.bench.measures import median, percentile
from interlock.bench.timetable import COUNTS, INTERLOCK, INTERVAL, SECONDS, Fired, measure, memory


class Scheduled(msgspec.Struct, kw_only=True):
    """One scheduler with so many schedules, and how Interlock stands to it."""

    fires: int
    missed: int
    processor_us_per_fire: float | None
    bytes_per_schedule: float
    late_p50_ms: float | None
    late_p99_ms: float | None
    interlock_processor_ratio: float | None = None


class Compared(msgspec.Struct, kw_only=True):
    schedules: int
    interlock: Scheduled
    apscheduler_memory: Scheduled | None
    apscheduler_sqlite: Scheduled | None


class Waiting(msgspec.Struct, kw_only=True):
    """Schedules of which none is due."""

    schedules: int
    start_seconds: float
    bytes_per_schedule: float
    idle_us_per_second: float
    idle_us_per_second_without: float


class Timetable(msgspec.Struct, kw_only=True):
    apscheduler: str | None
    """its version, if it is installed"""
    interval_seconds: float
    window_seconds: float
    compared: list[Compared]
    waiting: Waiting


def measure_all(
    folder: Path,
    say: Callable[[str], None],
    *,
    counts: Sequence[int] = COUNTS,
    interval: float = INTERVAL,
    seconds: float = SECONDS,
    waiting: int = registered.COUNT,
    idle: float = registered.IDLE,
) -> Timetable:
    """Everything once, one after the other."""
    names = [INTERLOCK, *(name for name in apscheduler_peer.STORES if apscheduler_peer.installed(name))]
    bare = {name: memory(name, folder) for name in names}
    compared = []
    for count in counts:
        found = {}
        for name in names:
            found[name] = joined(measure(name, folder, count, interval=interval, seconds=seconds), count, bare[name])
            say(f"{count:,} schedules, {_label(name)}: {_told(found[name])}")
        compared.append(compare(count, found))
    return Timetable(
        apscheduler=importlib.metadata.version("apscheduler") if len(names) > 1 else None,
        interval_seconds=interval,
        window_seconds=seconds,
        compared=compared,
        waiting=_waiting(folder, waiting, idle),
    )


def joined(found: Fired, count: int, bare: int) -> Scheduled:
    """`bare` is the memory that it has with no schedules at all."""
    fires = len(found.lateness)
    return Scheduled(
        fires=fires,
        missed=found.missed,
        processor_us_per_fire=round(found.processor / fires * 1e6, 1) if fires else None,
        bytes_per_schedule=round(max(0, found.memory - bare) / count),
        late_p50_ms=round(median(found.lateness) * 1000, 2) if fires else None,
        late_p99_ms=round(percentile(found.lateness, 0.99) * 1000, 2) if fires else None,
    )


def compare(count: int, found: Mapping[str, Scheduled]) -> Compared:
    ours = found[INTERLOCK]
    for one in found.values():
        if ours.processor_us_per_fire is not None and one.processor_us_per_fire:
            one.interlock_processor_ratio = round(ours.processor_us_per_fire / one.processor_us_per_fire, 2)
    return Compared(
        schedules=count,
        interlock=ours,
        apscheduler_memory=found.get(apscheduler_peer.MEMORY),
        apscheduler_sqlite=found.get(apscheduler_peer.SQLITE),
    )


def _waiting(folder: Path, count: int, idle: float) -> Waiting:
    without = registered.measure(folder, 0, idle=idle)
    found = registered.measure(folder, count, idle=idle)
    return Waiting(
        schedules=count,
        start_seconds=round(found.started, 1),
        bytes_per_schedule=round(max(0, found.memory - without.memory) / count),
        idle_us_per_second=round(found.processor * 1e6),
        idle_us_per_second_without=round(without.processor * 1e6),
    )


def _label(name: str) -> str:
    return "Interlock" if name == INTERLOCK else f"APScheduler in {name}"


def _told(one: Scheduled) -> str:
    if one.late_p50_ms is None:
        return f"{one.missed:,} missed"
    late = f"late by {one.late_p50_ms:,} ms (p99 {one.late_p99_ms:,} ms)"
    return f"{one.processor_us_per_fire:,} µs a fire, {late}, {one.missed:,} missed"


def rows(figures: Timetable) -> Iterator[tuple[str, str, str]]:
    """What, figure and ratio, as the table has them."""
    for one in figures.compared:
        yield from _rows_of(one, figures.apscheduler)
    if figures.apscheduler is None:
        yield "schedules in APScheduler", "not installed", ""
    waiting = figures.waiting
    yield f"start with {waiting.schedules:,} schedules", f"{waiting.start_seconds:,} s", ""
    yield "memory of each", f"{waiting.bytes_per_schedule:,.0f} bytes", ""
    without = f"{waiting.idle_us_per_second_without:,} µs/s without any"
    yield "processor time while none is due", f"{waiting.idle_us_per_second:,} µs/s", without


def _rows_of(one: Compared, version: str | None) -> Iterator[tuple[str, str, str]]:
    ours = one.interlock
    found = (
        (f"  APScheduler {version}, memory", one.apscheduler_memory),
        ("  the same, SQLite", one.apscheduler_sqlite),
    )
    peers = [(label, side) for label, side in found if side is not None]
    yield f"{one.schedules:,} schedules: processor time a fire", _amount(ours.processor_us_per_fire, "µs"), "1"
    for label, side in peers:
        ratio = f"Interlock takes {side.interlock_processor_ratio} of that"
        yield label, _amount(side.processor_us_per_fire, "µs"), ratio
    for what, p50, p99, missed in (
        (label, side.late_p50_ms, side.late_p99_ms, side.missed) for label, side in (("late, p50", ours), *peers)
    ):
        yield what, _amount(p50, "ms"), f"p99 {_amount(p99, 'ms')}; {missed:,} missed"
    for label, side in (("memory of a schedule", ours), *peers):
        yield label, f"{side.bytes_per_schedule:,.0f} bytes", ""


def _amount(value: float | None, unit: str) -> str:
    return "none fired" if value is None else f"{value:,} {unit}"

"""The figures of the timetable: everything measured of it, compared, and as rows of the table."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import apscheduler_peer, contest, installed, registered
from bench.timetable import INTERVAL, SECONDS, Fired, measure
from interlock.bench.report import ReportRow, percentile, say

COUNTS = (10_000, 100_000)
METRICS = {
    "processor_us_per_fire": "processor time a fire, µs",
    "late_p50_ms": "late, p50, ms",
    "late_p99_ms": "late, p99, ms",
    "missed": "missed, fires",
    "bytes_per_schedule": "memory of each, bytes",
}
WAITING = {
    "start_seconds": "start, s",
    "bytes_per_schedule": "memory of each, bytes",
    "idle_us_per_second": "processor time, µs/s",
    "idle_us_per_second_without": "the same without any, µs/s",
}


def measure_all(
    folder: Path,
    *,
    counts: Sequence[int] = COUNTS,
    interval: float = INTERVAL,
    seconds: float = SECONDS,
    waiting: int = registered.COUNT,
    idle: float = registered.IDLE,
) -> tuple[list[ReportRow], dict[str, Any]]:
    """Measure everything once, one after the other."""
    peers = apscheduler_peer.STORES
    missing = [name for name, packages in peers.items() if not installed(*packages)]
    names = [contest.INTERLOCK, *(name for name in peers if name not in missing)]
    bare = {name: measure(name, folder, 0, seconds=0.1).memory for name in names}
    rows: list[ReportRow] = []
    figures: dict[str, Any] = {}
    for count in counts:
        found = {}
        for name in names:
            found[name] = joined(measure(name, folder, count, interval=interval, seconds=seconds), count, bare[name])
            say(f"{count:,} schedules, {name}: {found[name]}")
        rows += contest.rows(f"{count:,} schedules", METRICS, found, missing)
        figures[str(count)] = found
    figures["waiting"] = _waiting(folder, waiting, idle)
    rows += contest.rows(f"{waiting:,} schedules, none due", WAITING, {contest.INTERLOCK: figures["waiting"]}, ())
    return rows, figures


def joined(found: Fired, count: int, bare: int) -> dict[str, float | None]:
    """`bare` is the memory that it has with no schedules at all."""
    fires = len(found.lateness)
    return {
        "fires": fires,
        "missed": found.missed,
        "processor_us_per_fire": round(found.processor / fires * 1e6, 1) if fires else None,
        "bytes_per_schedule": round(max(0, found.memory - bare) / count),
        "late_p50_ms": round(median(found.lateness) * 1000, 2) if fires else None,
        "late_p99_ms": round(percentile(found.lateness, 0.99) * 1000, 2) if fires else None,
    }


def _waiting(folder: Path, count: int, idle: float) -> dict[str, float]:
    without = registered.measure(folder, 0, idle=idle)
    found = registered.measure(folder, count, idle=idle)
    return {
        "schedules": count,
        "start_seconds": round(found.started, 1),
        "bytes_per_schedule": round(max(0, found.memory - without.memory) / count),
        "idle_us_per_second": round(found.processor * 1e6),
        "idle_us_per_second_without": round(without.processor * 1e6),
    }

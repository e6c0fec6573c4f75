"""Measures as data: take them in turns, print them as a table, write them as JSON."""

import json
import os
import platform
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from interlock.error import BadValue
from interlock.error_lines import say as say

ReportRow = tuple[str, str, str]  # what, figure and ratio


class Measure(NamedTuple):
    label: str
    unit: str
    take: Callable[[Path], float | list[float]]  # one figure, or samples: their median and 99th percentile are shown


class Figure(msgspec.Struct):
    unit: str
    rounds: list[float]
    median: float
    p99: float | None = None


def take_all(measures: Mapping[str, Measure], folder: Path, rounds: int) -> dict[str, Figure]:
    """Take every measure once a round, so that other load of the machine affects all alike."""
    taken: dict[str, list[list[float]]] = {key: [] for key in measures}
    for number in range(rounds):
        for key, (label, unit, take) in measures.items():
            found = take(folder)
            taken[key].append(found if isinstance(found, list) else [found])
            say(f"round {number + 1}: {label}: {rounded(median(taken[key][-1])):,} {unit}")
    return {key: _figure(measures[key].unit, samples) for key, samples in taken.items()}


def _figure(unit: str, samples: list[list[float]]) -> Figure:
    medians = [median(sample) for sample in samples]
    p99 = rounded(median([percentile(sample, 0.99) for sample in samples])) if len(samples[0]) > 1 else None
    return Figure(unit, [round(figure, 3) for figure in medians], rounded(median(medians)), p99)


def rows(measures: Mapping[str, Measure], figures: Mapping[str, Figure]) -> Iterator[ReportRow]:
    for key, figure in figures.items():
        yield measures[key].label, f"{figure.median:,} {figure.unit}", ""
        if figure.p99 is not None:
            yield "  p99", f"{figure.p99:,} {figure.unit}", ""


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * len(ordered)))]


def rounded(value: float) -> float:
    return round(value) if value >= 100 else round(value, 3)


@contextmanager
def workspace(output: str | None, **numbers: int) -> Iterator[Path]:
    """Check the options, and make the folder for the measurements; it is removed however this process ends."""
    for name, value in numbers.items():
        if value < 1:
            raise BadValue(f"--{name}", value, "1 or more")
    if output is not None and not Path(output).absolute().parent.is_dir():
        raise BadValue("--output", output, "a file in a directory that exists")
    folder = os.environ.get("INTERLOCK_BENCH_DIR")
    if folder is not None and not Path(folder).is_dir():
        raise BadValue("INTERLOCK_BENCH_DIR", folder, "a directory")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As an exception, so that servers and files of the benchmark are removed as well.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=folder) as name:
        yield Path(name)


def publish(found: Iterable[ReportRow], figures: Mapping[str, object], output: str | None) -> None:
    """Print the table; write the figures as JSON if a file is named."""
    python, sqlite = platform.python_version(), sqlite3.sqlite_version
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {python}, SQLite {sqlite}, {sys.platform}"
    table = Table("what", title=machine, title_justify="left")
    table.add_column("figure", justify="right")
    table.add_column("ratio", justify="right")
    for row in found:
        table.add_row(*row)
    Console().print(table)
    if output is not None:
        content = msgspec.to_builtins({"machine": machine, **figures})
        Path(output).write_text(json.dumps(content, indent=2) + "\n")

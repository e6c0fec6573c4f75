"""All measurements in one run, as a table with ratios and as JSON."""

import json
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from interlock.bench import http, huey_peer, measures, supervision, timetable_figures
from interlock.model.error import BadValue

HUEY_RUNS = 3000


class Figures(msgspec.Struct, kw_only=True):
    machine: str
    runs: int
    rounds: int
    raw_sqlite_per_second: float
    end_to_end_per_second: float
    huey_per_second: float | None
    ratio_to_huey: float | None
    ratio_to_raw: float
    commit_p50_ms: float
    commit_back_to_back_p50_ms: float
    latency_p50_ms: float
    latency_p99_ms: float
    latency_to_commit: float
    bytes_per_waiting_run: float
    waiting: int
    empty_posts_per_second: float
    http_submits_per_second: float
    http_submits_to_empty_posts: float
    python_submits_per_second: float
    http_batches_per_second: float
    http_batches_to_python: float
    readers: int
    end_to_end_unread_per_second: float
    end_to_end_read_per_second: float
    read_to_unread: float
    supervision: supervision.Supervision
    timetable: timetable_figures.Timetable


class TimetableAlone(msgspec.Struct, kw_only=True):
    machine: str
    timetable: timetable_figures.Timetable


class Part(StrEnum):
    """What can be measured by itself."""

    ALL = "all"
    TIMETABLE = "timetable"


def read_part(text: str) -> Part:
    try:
        return Part(text)
    except ValueError:
        raise BadValue("PART", text, f"one of {', '.join(Part)}") from None


def run_bench(
    *, runs: int, waiting: int, rounds: int, output: str | None, part: Part = Part.ALL
) -> Figures | TimetableAlone:
    for name, value in (("--runs", runs), ("--waiting", waiting), ("--rounds", rounds)):
        if value < 1:
            raise BadValue(name, value, "1 or more")
    if output is not None and not Path(output).absolute().parent.is_dir():
        raise BadValue("--output", output, "a file in a directory that exists")
    folder = os.environ.get("INTERLOCK_BENCH_DIR")
    if folder is not None and not Path(folder).is_dir():
        raise BadValue("INTERLOCK_BENCH_DIR", folder, "a directory")
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=folder) as name:
        figures: Figures | TimetableAlone
        if part is Part.TIMETABLE:
            figures = TimetableAlone(machine=_machine(), timetable=_timetable(console, Path(name)))
        else:
            figures = _measure(Path(name), runs, waiting, rounds, console)
    Console().print(_table(figures) if isinstance(figures, Figures) else _table_of_timetable(figures))
    if output is not None:
        Path(output).write_text(json.dumps(msgspec.to_builtins(figures), indent=2) + "\n")
    return figures


def _measure(folder: Path, runs: int, waiting: int, rounds: int, console: Console) -> Figures:
    raw: list[float] = []
    ours: list[float] = []
    peer: list[float] = []
    commits: list[list[float]] = []
    hot_commits: list[list[float]] = []
    latencies: list[list[float]] = []
    empty: list[float] = []
    single: list[float] = []
    python: list[float] = []
    batches: list[float] = []
    unread: list[float] = []
    read: list[float] = []
    kept: dict[str, list[supervision.Kept]] = {}
    requests, submits = max(1, runs // 3), max(measures.BATCH, runs)
    # Interleaved, so that whatever else the machine does hits all of them alike.
    for number in range(rounds):
        raw.append(_say(console, number, "raw SQLite", lambda: measures.raw_sqlite(folder, runs)))
        ours.append(_say(console, number, "end to end", lambda: measures.end_to_end(folder, runs)))
        if huey_peer.installed():
            peer.append(_say(console, number, "Huey", lambda: huey_peer.end_to_end(folder, min(runs, HUEY_RUNS))))
        commits.append(measures.one_commit(folder, 200))
        hot_commits.append(measures.one_commit(folder, 200, pause=0.0))
        latencies.append(measures.idle_latency(folder, 200))
        empty.append(_say(console, number, "empty POST", lambda: http.empty_posts(requests)))
        single.append(_say(console, number, "HTTP submit", lambda: http.single_submits(folder, requests)))
        python.append(_say(console, number, "submit from Python", lambda: http.python_submits(folder, submits)))
        batches.append(_say(console, number, "HTTP batches", lambda: http.batch_submits(folder, submits)))
        unread.append(_say(console, number, "end to end, no readers", lambda: http.end_to_end(folder, runs, 0)))
        read.append(_say(console, number, "with readers", lambda: http.end_to_end(folder, runs, http.READERS)))
        for name in supervision.SUPERVISORS:
            if supervision.installed(name):
                kept.setdefault(name, []).append(_supervise(console, number, name, folder))
            elif number == 0:
                console.print(f"{name} is not installed and is left out", highlight=False)
    memory = measures.memory_per_waiting_run(folder, waiting)
    median = measures.median
    commit = median([median(one) for one in commits])
    latency = median([median(one) for one in latencies])
    huey = median(peer) if peer else None
    return Figures(
        machine=_machine(),
        runs=runs,
        rounds=rounds,
        raw_sqlite_per_second=round(median(raw)),
        end_to_end_per_second=round(median(ours)),
        huey_per_second=None if huey is None else round(huey),
        ratio_to_huey=None if huey is None else round(median(ours) / huey, 1),
        ratio_to_raw=round(median(ours) / median(raw), 3),
        commit_p50_ms=round(commit * 1000, 3),
        commit_back_to_back_p50_ms=round(median([median(one) for one in hot_commits]) * 1000, 3),
        latency_p50_ms=round(latency * 1000, 3),
        latency_p99_ms=round(median([measures.percentile(one, 0.99) for one in latencies]) * 1000, 3),
        latency_to_commit=round(latency / commit, 2),
        bytes_per_waiting_run=round(memory),
        waiting=waiting,
        empty_posts_per_second=round(median(empty)),
        http_submits_per_second=round(median(single)),
        http_submits_to_empty_posts=round(median(single) / median(empty), 2),
        python_submits_per_second=round(median(python)),
        http_batches_per_second=round(median(batches)),
        http_batches_to_python=round(median(batches) / median(python), 2),
        readers=http.READERS,
        end_to_end_unread_per_second=round(median(unread)),
        end_to_end_read_per_second=round(median(read)),
        read_to_unread=round(median(read) / median(unread), 2),
        supervision=supervision.summary(kept),
        timetable=_timetable(console, folder),
    )


def _machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {sys.platform}"
    )


def _timetable(console: Console, folder: Path) -> timetable_figures.Timetable:
    return timetable_figures.measure_all(folder, lambda text: console.print(text, highlight=False))


def _say(console: Console, number: int, what: str, measure: Callable[[], float]) -> float:
    value = measure()
    console.print(f"round {number + 1}: {what} {value:,.0f}/s", highlight=False)
    return value


def _supervise(console: Console, number: int, name: str, folder: Path) -> supervision.Kept:
    kept = supervision.measure(name, folder)
    restart = measures.median(kept.restarts) * 1000
    console.print(f"round {number + 1}: supervision by {name}, running again after {restart:,.1f} ms", highlight=False)
    return kept


def _empty_table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("figure", justify="right")
    table.add_column("ratio", justify="right")
    return table


def _table_of_timetable(figures: TimetableAlone) -> Table:
    table = _empty_table(figures.machine)
    for row in timetable_figures.rows(figures.timetable):
        table.add_row(*row)
    return table


def _table(figures: Figures) -> Table:
    table = _empty_table(f"{figures.machine} · medians of {figures.rounds}")
    table.add_row("raw SQLite, same rows, FULL", f"{figures.raw_sqlite_per_second:,.0f} runs/s", "1")
    table.add_row(
        "Interlock end to end, FULL", f"{figures.end_to_end_per_second:,.0f} runs/s", f"{figures.ratio_to_raw} of raw"
    )
    if figures.huey_per_second is None:
        table.add_row("Huey on SQLite", "not installed", "")
    else:
        table.add_row(
            "Huey on SQLite", f"{figures.huey_per_second:,.0f} tasks/s", f"Interlock is {figures.ratio_to_huey}x"
        )
    table.add_row("one synced commit, idle, p50", f"{figures.commit_p50_ms} ms", "1")
    table.add_row("one synced commit, back to back, p50", f"{figures.commit_back_to_back_p50_ms} ms", "")
    table.add_row("submit to start, idle, p50", f"{figures.latency_p50_ms} ms", f"{figures.latency_to_commit} commits")
    table.add_row("submit to start, idle, p99", f"{figures.latency_p99_ms} ms", "")
    table.add_row(f"memory per waiting run ({figures.waiting:,})", f"{figures.bytes_per_waiting_run:,.0f} bytes", "")
    _add_http(table, figures)
    for row in (*supervision.rows(figures.supervision), *timetable_figures.rows(figures.timetable)):
        table.add_row(*row)
    return table


def _add_http(table: Table, figures: Figures) -> None:
    table.add_row("the framework's empty POST", f"{figures.empty_posts_per_second:,.0f} requests/s", "1")
    table.add_row(
        "submit over HTTP, one a request",
        f"{figures.http_submits_per_second:,.0f} runs/s",
        f"{figures.http_submits_to_empty_posts} of that",
    )
    table.add_row("submit from Python, 100 at a time", f"{figures.python_submits_per_second:,.0f} runs/s", "1")
    table.add_row(
        "submit over HTTP, 100 at a time",
        f"{figures.http_batches_per_second:,.0f} runs/s",
        f"{figures.http_batches_to_python} of that",
    )
    table.add_row("end to end with the gateway", f"{figures.end_to_end_unread_per_second:,.0f} runs/s", "1")
    table.add_row(
        f"end to end, {figures.readers:,} event streams",
        f"{figures.end_to_end_read_per_second:,.0f} runs/s",
        f"{figures.read_to_unread} of that",
    )

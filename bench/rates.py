"""Runs, submits and commits: Interlock beside raw SQLite, Huey, PgQueuer and the bare web framework."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any

from bench import http, huey_peer, installed, pgqueuer_peer, raw_sqlite
from bench.http import READERS
from bench.pgqueuer_peer import AS_IT_COMES, TUNED
from interlock.bench import report
from interlock.bench.measures import BATCH, interlock
from interlock.bench.report import Figure, Measure, ReportRow

NEEDS = {"huey": ("huey",), "pgqueuer": pgqueuer_peer.NEEDS, "pgqueuer_tuned": pgqueuer_peer.NEEDS}


RATIOS = {
    "end_to_end": ("end_to_end", "raw_sqlite", "{} of raw SQLite"),
    "pgqueuer_tuned": ("end_to_end", "pgqueuer_tuned", "Interlock is {}x"),
    "pgqueuer": ("end_to_end", "pgqueuer", "Interlock is {}x"),
    "huey": ("end_to_end", "huey", "Interlock is {}x"),
    "latency": ("latency", "commit", "{} commits"),
    "http_submits": ("http_submits", "empty_posts", "{} of the empty POST"),
    "http_batches": ("http_batches", "python_submits", "{} of those from Python"),
    "end_to_end_read": ("end_to_end_read", "end_to_end_unread", "{} of that without"),
}
"""by the measure beside which it is shown: the two that are divided, and how it reads"""


def measures(runs: int, waiting: int) -> dict[str, Measure]:
    """Return all in the order in which a round takes them: those that are compared stand together."""
    own, requests, submits = interlock(runs, waiting), max(1, runs // 3), max(BATCH, runs)
    pgqueuer, read = partial(pgqueuer_peer.end_to_end, runs=runs), partial(http.end_to_end, runs=runs)
    others: dict[str, tuple[str, str, Callable[[Path], float | list[float]]]] = {
        "raw_sqlite": ("raw SQLite, the same rows, synced", "runs/s", partial(raw_sqlite.write_runs, runs=runs)),
        "end_to_end": own["end_to_end"],
        "pgqueuer_tuned": ("PgQueuer, uvloop, 1,000 at a time", "jobs/s", partial(pgqueuer, tuning=TUNED)),
        "pgqueuer": ("PgQueuer on PostgreSQL as it comes", "jobs/s", partial(pgqueuer, tuning=AS_IT_COMES)),
        "huey": ("Huey on SQLite as it comes", "tasks/s", partial(huey_peer.end_to_end, runs=runs)),
        "commit": ("one synced commit, idle, p50", "ms", raw_sqlite.one_commit),
        "commit_back_to_back": ("the same, back to back, p50", "ms", partial(raw_sqlite.one_commit, pause=0.0)),
        "latency": own["latency"],
        "empty_posts": ("the framework's empty POST", "requests/s", partial(http.empty_posts, requests=requests)),
        "http_submits": own["http_submits"],
        "python_submits": ("submit from Python, 100 at a time", "runs/s", partial(http.python_submits, runs=submits)),
        "http_batches": ("submit over HTTP, 100 at a time", "runs/s", partial(http.batch_submits, runs=submits)),
        "end_to_end_unread": ("end to end with the gateway", "runs/s", read),
        "end_to_end_read": (f"the same, {READERS:,} event streams", "runs/s", partial(read, readers=READERS)),
        "memory": own["memory"],
    }
    return {key: Measure(*one) for key, one in others.items()}


def measure(folder: Path, runs: int, waiting: int, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    listed = measures(runs, waiting)
    missing = [key for key, packages in NEEDS.items() if not installed(*packages)]
    figures = report.take_all({key: one for key, one in listed.items() if key not in missing}, folder, rounds)
    found = ratios(figures)
    table = [*with_ratios(listed, figures, found), *((listed[key].label, "not installed", "") for key in missing)]
    return table, {"runs": runs, "waiting": waiting, "rounds": rounds, "measures": figures, "ratios": found}


def ratios(figures: Mapping[str, Figure]) -> dict[str, float]:
    """Return the median of each round's ratio, by `above/below`."""
    return {
        f"{above}/{below}": round(median(map(truediv, figures[above].rounds, figures[below].rounds)), 3)
        for above, below, _ in RATIOS.values()
        if above in figures and below in figures
    }


def with_ratios(
    listed: Mapping[str, Measure], figures: Mapping[str, Figure], found: Mapping[str, float]
) -> Iterator[ReportRow]:
    texts = {
        listed[key].label: text.format(found[f"{above}/{below}"])
        for key, (above, below, text) in RATIOS.items()
        if f"{above}/{below}" in found
    }
    for label, figure, _ in report.rows(listed, figures):
        yield label, figure, texts.get(label, "")

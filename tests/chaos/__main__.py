"""`python -m tests.chaos --seconds 600 --seed 7`: harm a real server with its clients, then check what it promised."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import uvloop

import interlock as il
from tests.chaos import jobs, stepped
from tests.chaos.checks import check, read_executions
from tests.chaos.faults import Disk, Faults, WallClock, succeeds
from tests.chaos.load import Load
from tests.chaos.people import TOKEN, Elsewhere, People
from tests.chaos.promises import Row
from tests.chaos.record import Record
from tests.helpers.processes import hear_signals, processes_of, wait_until
from tests.helpers.receiver import Receiver
from tests.helpers.server import Server
from tests.remote.elsewhere import free_port

LANES = {"main": 30, "narrow": 10, "cron": 10}
LIMITS = {"lane": LANES, "tenant": {"small": jobs.OF_TENANT}, "guarded job": {"guarded": jobs.AT_ONCE}}
OPTIONS = ("--workers=2", "--slots=16", "--heartbeat=1s", "--keep-runs=5", "--drain", "1s")
CLIENTS = 3
"""over HTTP, and as many over the socket"""
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
    parser.add_argument("--keep", type=Path, help="copy the evidence to this folder if an invariant is violated")
    options = parser.parse_args()
    hear_signals()
    if INSIDE not in os.environ and succeeds(*UNSHARE, "true"):
        # What is mounted in a namespace of its own goes with its last process, however that ends.
        os.environ[INSIDE] = "1"
        os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, "-m", "tests.chaos", *sys.argv[1:]])
    return run(options.seconds, options.seed, options.keep)


def run(seconds: float, seed: int, keep: Path | None = None) -> int:
    """Return the exit code: 1 if anything was violated."""
    folder = Path(tempfile.mkdtemp(prefix="il-")).resolve()
    chaos = Chaos(folder, seed)
    try:
        rows = uvloop.run(chaos.run(seconds))
        lines = [*chaos.summary(seconds), f"{'invariant':<50} {'checked':>9} {'violations':>11}"]
        lines += [f"{row.invariant:<50} {row.checked:>9,} {len(row.violations):>11,}" for row in rows]
        lines += [f"violated: {row.invariant}: {one}" for row in rows for one in row.violations[:SHOWN]]
        is_violated = any(row.violations for row in rows)
        if is_violated:
            lines.append(f"repeat it with: python -m tests.chaos --seconds {seconds:g} --seed {seed}")
        sys.stdout.write("\n".join(lines) + "\n")
        if is_violated and keep is not None:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        return int(is_violated)
    finally:
        chaos.close()


class Chaos:
    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed
        data = folder / "data"
        data.mkdir()
        self._disk = Disk(data)
        self._clock = WallClock(folder / "clock")
        lanes = [f"--lane={name}={limit}" for name, limit in LANES.items()]
        self._elsewhere = Elsewhere(folder, data)
        self._receiver = Receiver()
        self._address = f"127.0.0.1:{free_port()}"
        options = (*OPTIONS, *lanes, "--http", self._address, "--webhook-allow", "127.0.0.1")
        self._server = Server(data, *options, str(jobs.lay_out(folder)), target="tests.chaos.jobs:app")
        self._server.output = folder / "server.log"
        self._server.extra = {
            jobs.FOLDER: str(folder), jobs.RECEIVER: self._receiver.url, stepped.CLOCK: str(self._clock.file),
        }  # fmt: skip
        self._server.arguments = ("tests.chaos.stepped", *self._server.arguments[1:])
        self._record = Record(self._server.database, LIMITS)
        self._load = Load(seed, self._record)
        self._people = People(seed, self._load)
        self._faults = Faults(
            self._server,
            self._elsewhere,
            seed,
            self._disk,
            self._clock,
            lambda: self._load.burst(jobs.app),
            self._refuse,
        )
        self._executed = self._elsewhere_had = 0
        self._peace = 0.0

    async def run(self, seconds: float) -> list[Row]:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        self._elsewhere.begin()  # it waits for its scheduler
        await self._faults.start()
        self._record.open()
        async with (
            jobs.app.connected(str(self._server.socket)) as app,
            il.AsyncClient(f"unix:{self._server.http_socket}", timeout="3s") as client,
            il.AsyncClient(f"http://{self._address}", token=TOKEN, timeout="3s") as approver,
            asyncio.TaskGroup() as group,
        ):
            lasting = [
                group.create_task(self._look()),
                group.create_task(self._people.approve(approver, client)),
                group.create_task(self._people.read_withheld(client)),
            ]
            clients = [
                *(group.create_task(self._load.submit(app, f"socket {number}")) for number in range(CLIENTS)),
                *(group.create_task(self._load.submit(client, f"http {number}")) for number in range(CLIENTS)),
                group.create_task(self._load.repeat_fire_times(app)),
                group.create_task(self._load.cancel(client)),
                group.create_task(self._people.submit_too_fast(client)),
            ]
            await self._faults.go_on(seconds)
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
        left = self._end()
        faults = self._faults
        executions = read_executions(self._folder / "executions")
        self._executed = len(executions)
        every = self._record.runs(is_pruned=True) + self._record.runs(is_pruned=False)
        self._elsewhere_had = sum((run.worker_id or "").startswith("site:") for run in every)
        return [
            *check(self._load, self._record, executions, faults.cuts, self._people, self._receiver.accepted),
            Row("webhooks are as the standards say", len(self._receiver.got), self._receiver.faults),
            Row("the scheduler ended only when it was made to", faults.done.total(), faults.deaths),
            Row("nothing is left running", 1, left),
        ]

    def _end(self) -> list[str]:
        """Stop in order; return what is left then."""
        left = self._elsewhere.stop()
        try:
            self._server.wait_for_strays()
            if (code := self._server.stop()) != 0:
                left.append(f"exit {code}: {self._server.said[-500:]}")
            wait_until(lambda: not processes_of(self._folder), "every process has ended", 20.0)
        except AssertionError as error:
            left += [str(error), *map(str, processes_of(self._folder))]
        return left + [str(path) for path in self._folder.rglob("*") if path.is_socket()]

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
        if not self._disk.works:
            lines.append("skipped: full disk, for a file system of its own cannot be mounted here")
        return lines

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for process in processes_of(self._folder):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._elsewhere.kill()
        self._server.kill()
        self._receiver.close()
        self._disk.close()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

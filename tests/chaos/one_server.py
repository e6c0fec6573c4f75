"""One server with a worker elsewhere: its processes are killed and stopped, its disk fills, its clock is set."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import interlock as il
from tests.chaos import jobs, stepped
from tests.chaos.faults import Doors, Fault, Faults, Refuse
from tests.chaos.people import TOKEN, Elsewhere
from tests.chaos.record import SqliteDatabase
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Server
from tests.remote.elsewhere import free_port

OPTIONS = ("--workers=2", "--slots=16", "--heartbeat=1s", "--keep-runs=5", "--drain", "1s")
SIZE = "256m"
GATEWAY, WORKER = "interlock.wiring.gateway:serve", "interlock.wiring.worker:run_worker"
EXECUTOR = "interlock.worker.executor_process"


def succeeds(*command: str) -> bool:
    return shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode


class Disk:
    """A file system of its own for the database, so that it can be filled; only for whoever may mount one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"
        self.works = succeeds("mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "chaos", str(folder))

    async def fill_for(self, seconds: float) -> None:
        await asyncio.to_thread(self._fill)
        await asyncio.sleep(seconds)
        self._ballast.unlink(missing_ok=True)

    def _fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while ballast.write(bytes(size)) == size:
                        pass

    def close(self) -> None:
        if self.works:
            succeeds("umount", "--lazy", str(self._folder))


class WallClock:
    """The scheduler's alone: the clock of the machine is not touched."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._offset = 0
        self.step(0)

    def reset(self) -> None:
        self.step(-self._offset)

    def step(self, seconds: int) -> None:
        self._offset += seconds
        new = self.file.with_suffix(".new")
        new.write_text(str(self._offset))
        new.replace(self.file)


class OneServer(Faults):
    def __init__(self, folder: Path, seed: int, environment: dict[str, str]) -> None:
        super().__init__(folder, seed)
        data = folder / "data"
        data.mkdir()
        self._disk = Disk(data)
        self._clock = WallClock(folder / "clock")
        lanes = [f"--lane={name}={limit}" for name, limit in jobs.LANES.items()]
        self._elsewhere = Elsewhere(folder, data)
        self._address = f"127.0.0.1:{free_port()}"
        options = (*OPTIONS, *lanes, "--http", self._address, "--webhook-allow", "127.0.0.1")
        self._server = Server(data, *options, str(jobs.lay_out(folder)), target="tests.chaos.jobs:app")
        self._server.output = folder / "server.log"
        self._server.extra = environment | {stepped.CLOCK: str(self._clock.file)}
        self._server.arguments = ("tests.chaos.stepped", *self._server.arguments[1:])
        self.database = SqliteDatabase(self._server.database)

    def kinds(self, burst: Fault, refuse: Refuse) -> dict[str, tuple[int, Fault]]:
        return {
            "kill scheduler": (5, self._kill_scheduler),
            "restart scheduler": (1, self._restart_scheduler),
            "stop scheduler": (3, lambda: self.pause(self._server.pid)),
            "kill gateway": (2, lambda: self.kill(self.find(GATEWAY))),
            "stop gateway": (2, lambda: self.pause(self.find(GATEWAY))),
            "kill worker": (6, lambda: self.kill(self.find(WORKER))),
            "stop worker": (12, lambda: self._stop_worker(burst)),
            "kill executor": (6, lambda: self.kill(self.find(EXECUTOR))),
            "stop executor": (6, lambda: self.pause(self.find(EXECUTOR))),
            "full disk": (
                2 * self._disk.works,
                lambda: self.last(self._disk.fill_for(self._chance.choice((0.5, 1, 3)))),
            ),
            "clock step": (2, self._step_clock),
            "kill worker elsewhere": (3, self._kill_elsewhere),
            "stop worker elsewhere": (3, lambda: self.pause(self._elsewhere.pid, (0.3, 5, 8))),
            "webhooks refused": (2, lambda: self.last(refuse(self._chance.choice((0.5, 2))))),
        }

    async def begin(self) -> None:
        self._elsewhere.begin()  # it waits for its scheduler
        await self._start()

    @asynccontextmanager
    async def doors(self) -> AsyncIterator[Doors]:
        async with (
            jobs.app.connected(str(self._server.socket)) as app,
            il.AsyncClient(f"unix:{self._server.http_socket}", timeout="3s") as client,
            il.AsyncClient(f"http://{self._address}", token=TOKEN, timeout="3s") as approver,
        ):
            yield Doors([app, client], client, approver)

    async def end(self) -> None:
        self._clock.reset()
        await super().end()

    async def _kill_elsewhere(self) -> None:
        if (pid := self._elsewhere.pid) is not None:
            self.note_killed(pid)
            self._elsewhere.kill()
        self._elsewhere.begin()

    async def _stop_worker(self, burst: Fault) -> None:
        """Stop it mostly for so long that it counts as lost, with runs on their way to it."""
        await self.pause(self.find(WORKER), (0.3, 5, 8))
        await self.last(burst())

    async def _step_clock(self) -> None:
        self._clock.step(self._chance.choice((-20, -5, -2, 2, 5, 20)))

    # ── the scheduler ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _kill_scheduler(self) -> None:
        self._server.kill()
        await asyncio.sleep(self._chance.choice((0, 0, 0.5, 3)))
        await self._start()

    async def _restart_scheduler(self) -> None:
        self._server.send(signal.SIGINT)
        code = await asyncio.to_thread(self._server.ended, 60)
        if code != 0:
            self.deaths.append(f"exit {code} after Ctrl-C: {self._server.said[-500:]}")
        await self._start()

    async def revive(self) -> None:
        process = self._server.process
        if process is not None and process.poll() is not None:
            self.deaths.append(f"exit {process.returncode}: {self._server.said[-500:]}")
            self._server.kill()
            await self._start()

    async def _start(self, patience: int = 30) -> None:
        """Start until it answers: with a full disk, or beside much other work, that takes a while."""
        try:
            await asyncio.to_thread(self._server.start)
        except AssertionError:
            self._server.kill()
            if not patience:
                raise
            await asyncio.sleep(0.5)
            await self._start(patience - 1)

    def stop(self) -> list[str]:
        left = self._elsewhere.stop()
        try:
            self._server.wait_for_strays()
            if (code := self._server.stop()) != 0:
                left.append(f"exit {code}: {self._server.said[-500:]}")
            wait_until(lambda: not processes_of(self._folder), "every process has ended", 20.0)
        except AssertionError as error:
            left += [str(error), *map(str, processes_of(self._folder))]
        return left

    def close(self) -> None:
        for process in processes_of(self._folder):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._elsewhere.kill()
        self._server.kill()
        self._disk.close()

    def said(self) -> list[str]:
        return [] if self._disk.works else ["skipped: full disk, for a file system of its own cannot be mounted here"]

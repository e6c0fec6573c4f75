"""The harm that is done: kills, stops, restarts, a full disk, steps of the scheduler's clock; chosen by a seed."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.people import Elsewhere
from tests.helpers.processes import processes_of
from tests.helpers.server import Server

SIZE = "256m"
DYING = 1.0
"""seconds that the system may take to end executors whose worker was killed"""

Fault = Callable[[], Coroutine[Any, Any, None]]
Refuse = Callable[[float], Coroutine[Any, Any, None]]
"""refuses every webhook for some seconds"""


def succeeds(*command: str) -> bool:
    return shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode


class Cut(NamedTuple):
    """A worker was stopped, or killed: until it goes on, or its executors have surely died with it."""

    pid: int
    kind: str
    since: float
    until: float


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


class Faults:
    def __init__(
        self,
        server: Server,
        elsewhere: Elsewhere,
        seed: int,
        disk: Disk,
        clock: WallClock,
        burst: Fault,
        refuse: Refuse,
    ) -> None:
        self._server = server
        self._elsewhere = elsewhere
        self._chance = random.Random(f"{seed}/faults")
        self._clock = clock
        self._lasting: set[asyncio.Task[None]] = set()
        self.cuts: list[Cut] = []
        self.done: Counter[str] = Counter()
        self.deaths: list[str] = []
        """ends of the scheduler that nobody asked for"""
        self._burst = burst
        self._kinds: dict[str, tuple[int, Fault]] = {
            "kill scheduler": (5, self._kill_scheduler),
            "restart scheduler": (1, self._restart_scheduler),
            "stop scheduler": (3, lambda: self._stop(server.pid)),
            "kill gateway": (2, lambda: self._kill("interlock.wiring.gateway:serve")),
            "stop gateway": (2, lambda: self._stop(self._find("interlock.wiring.gateway:serve"))),
            "kill worker": (6, lambda: self._kill("interlock.wiring.worker:run_worker")),
            "stop worker": (12, self._stop_worker),
            "kill executor": (6, lambda: self._kill("interlock.worker.executor_process")),
            "stop executor": (6, lambda: self._stop(self._find("interlock.worker.executor_process"))),
            "full disk": (2 * disk.works, lambda: self._last(disk.fill_for(self._chance.choice((0.5, 1, 3))))),
            "clock step": (2, self._step_clock),
            "kill worker elsewhere": (3, self._kill_elsewhere),
            "stop worker elsewhere": (3, lambda: self._stop(elsewhere.pid, (0.3, 5, 8))),
            "webhooks refused": (2, lambda: self._last(refuse(self._chance.choice((0.5, 2))))),
        }

    async def go_on(self, seconds: float) -> None:
        """Do each kind of harm once, in an order by chance, then by its weight."""
        end = time.monotonic() + seconds
        names = [name for name, (weight, _) in self._kinds.items() if weight]
        order = self._chance.sample(names, len(names))
        while time.monotonic() < end:
            await asyncio.sleep(self._chance.uniform(0.2, 2.5))
            await self._revive()
            name = order.pop() if order else self._chance.choices(names, [self._kinds[one][0] for one in names])[0]
            self.done[name] += 1
            await self._kinds[name][1]()

    async def end(self) -> None:
        """Wait for what lasts, set the clock right, and have a scheduler."""
        await asyncio.gather(*self._lasting)
        self._clock.reset()
        await self._revive()

    async def _last(self, fault: Coroutine[Any, Any, None]) -> None:
        """Let a fault go on while others happen."""
        task = asyncio.create_task(fault)
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)

    def _find(self, command: str) -> int | None:
        found = sorted(one.pid for one in processes_of(self._server.folder) if f" {command}" in one.command)
        return self._chance.choice(found) if found else None

    async def _kill(self, command: str) -> None:
        if (pid := self._find(command)) is not None:
            now = time.monotonic()
            self.cuts.append(Cut(pid, "killed", now, now + DYING))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _kill_elsewhere(self) -> None:
        now = time.monotonic()
        if (pid := self._elsewhere.pid) is not None:
            self.cuts.append(Cut(pid, "killed", now, now + DYING))
            self._elsewhere.kill()
        self._elsewhere.begin()

    async def _stop(self, pid: int | None, seconds: tuple[float, ...] = (0.3, 1, 4)) -> None:
        if pid is not None:
            await self._last(self._stop_for(pid, self._chance.choice(seconds)))

    async def _stop_worker(self) -> None:
        """Stop it mostly for so long that it counts as lost, with runs on their way to it."""
        await self._stop(self._find("interlock.wiring.worker:run_worker"), (0.3, 5, 8))
        await self._last(self._burst())

    async def _stop_for(self, pid: int, seconds: float) -> None:
        since = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.cuts.append(Cut(pid, "stopped", since, time.monotonic()))
            os.kill(pid, signal.SIGCONT)

    async def _step_clock(self) -> None:
        self._clock.step(self._chance.choice((-20, -5, -2, 2, 5, 20)))

    # ── the scheduler ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _kill_scheduler(self) -> None:
        self._server.kill()
        await asyncio.sleep(self._chance.choice((0, 0, 0.5, 3)))
        await self.start()

    async def _restart_scheduler(self) -> None:
        self._server.send(signal.SIGINT)
        code = await asyncio.to_thread(self._server.ended, 60)
        if code != 0:
            self.deaths.append(f"exit {code} after Ctrl-C: {self._server.said[-500:]}")
        await self.start()

    async def _revive(self) -> None:
        process = self._server.process
        if process is not None and process.poll() is not None:
            self.deaths.append(f"exit {process.returncode}: {self._server.said[-500:]}")
            self._server.kill()
            await self.start()

    async def start(self, patience: int = 30) -> None:
        """Start until it answers: with a full disk, or beside much other work, that takes a while."""
        try:
            await asyncio.to_thread(self._server.start)
        except AssertionError:
            self._server.kill()
            if not patience:
                raise
            await asyncio.sleep(0.5)
            await self.start(patience - 1)

"""The harm that is done, chosen by a seed, whatever it is done to: processes below one folder."""

import asyncio
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import interlock as il
from tests.chaos.load import Door
from tests.chaos.record import Database
from tests.helpers.processes import processes_of

DYING = 1.0
"""seconds that the system may take to end executors whose worker was killed"""

Fault = Callable[[], Coroutine[Any, Any, None]]
Refuse = Callable[[float], Coroutine[Any, Any, None]]
"""refuses every webhook for some seconds"""


class Cut(NamedTuple):
    """A worker was stopped, or killed: until it goes on, or its executors have surely died with it."""

    pid: int
    kind: str
    since: float
    until: float


class Doors(NamedTuple):
    submitters: list[Door]
    client: il.AsyncClient
    approver: il.AsyncClient


class Faults(ABC):
    """What a fault harms, and how."""

    database: Database

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(f"{seed}/faults")
        self._lasting: set[asyncio.Task[None]] = set()
        self.cuts: list[Cut] = []
        self.done: Counter[str] = Counter()
        self.deaths: list[str] = []
        """ends that nobody asked for"""

    @abstractmethod
    def kinds(self, burst: Fault, refuse: Refuse) -> dict[str, tuple[int, Fault]]:
        """Return each kind of harm, and its weight."""

    @abstractmethod
    async def begin(self) -> None:
        """Start everything, and wait until it answers."""

    @abstractmethod
    def doors(self) -> AbstractAsyncContextManager[Doors]:
        """Connect the clients."""

    @abstractmethod
    async def revive(self) -> None:
        """Start again what has ended, and note what nobody had ended."""

    @abstractmethod
    def stop(self) -> list[str]:
        """Stop in order; return what was wrong."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind, whatever happened."""

    def said(self) -> list[str]:
        """Return lines for the summary."""
        return []

    async def go_on(self, seconds: float, kinds: dict[str, tuple[int, Fault]]) -> None:
        """Do each kind of harm once, in an order by chance, then by its weight."""
        end = time.monotonic() + seconds
        names = [name for name, (weight, _) in kinds.items() if weight]
        order = self._chance.sample(names, len(names))
        while time.monotonic() < end:
            await asyncio.sleep(self._chance.uniform(0.2, 2.5))
            await self.revive()
            name = order.pop() if order else self._chance.choices(names, [kinds[one][0] for one in names])[0]
            self.done[name] += 1
            await kinds[name][1]()

    async def end(self) -> None:
        """Wait for what lasts, and have everything running."""
        await asyncio.gather(*self._lasting)
        await self.revive()

    async def last(self, fault: Coroutine[Any, Any, None]) -> None:
        """Let a fault go on while others happen."""
        task = asyncio.create_task(fault)
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)

    def find(self, command: str) -> int | None:
        found = sorted(one.pid for one in processes_of(self._folder) if f" {command}" in one.command)
        return self._chance.choice(found) if found else None

    async def kill(self, pid: int | None) -> None:
        if pid is not None:
            self.note_killed(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def note_killed(self, pid: int) -> None:
        now = time.monotonic()
        self.cuts.append(Cut(pid, "killed", now, now + DYING))

    async def pause(self, pid: int | None, seconds: tuple[float, ...] = (0.3, 1, 4)) -> None:
        if pid is not None:
            await self.last(self._pause_for(pid, self._chance.choice(seconds)))

    async def _pause_for(self, pid: int, seconds: float) -> None:
        since = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.cuts.append(Cut(pid, "stopped", since, time.monotonic()))
            os.kill(pid, signal.SIGCONT)

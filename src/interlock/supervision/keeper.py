"""Keeps a few processes running: starts them, starts them again when they end, and stops them."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger("interlock.supervision")

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 5.0
STARTED_WRONGLY = 2
STEADY = 10.0
"""seconds a process must live for its next restart to come at once again"""


class Keeper:
    def __init__(
        self,
        what: str,
        commands: Sequence[Callable[[], Sequence[str]]],
        patience: float,
        *,
        environment: Mapping[str, str | None] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """`what` is how messages call one of the processes; `environment` is added to this process's own, and what is
        None in it is left out of that."""
        self._what = what
        self._commands = commands
        self._patience = patience
        self._environment = environment or {}
        self._pass_fds = pass_fds
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self.restarts = 0
        self.broken = False
        """whether a process has said that it was started wrongly, which starting it again will not mend"""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep(place, make)) for place, make in enumerate(self._commands)]

    async def _keep(self, place: int, make: Callable[[], Sequence[str]]) -> None:
        loop = asyncio.get_running_loop()
        backoff = FIRST_BACKOFF
        while not self._stopping.is_set():
            begun = loop.time()
            try:
                how = await self._once(place, make())
            except OSError as error:
                how = f"could not be started: {error}"
            if self._stopping.is_set():
                return
            self.restarts += 1
            if loop.time() - begun > STEADY:
                backoff = FIRST_BACKOFF
            logger.warning("a %s process %s; the next one starts in %gs", self._what, how, backoff)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), backoff)
            backoff = min(backoff * 2, LONGEST_BACKOFF)

    async def _once(self, place: int, command: Sequence[str]) -> str:
        """One life of a process, and how it ended."""
        # In a session of its own: a Ctrl-C in the terminal reaches the one who stops it in order, and only that.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=self._pass_fds,
            env={name: value for name, value in {**os.environ, **self._environment}.items() if value is not None},
        )
        self._processes[place] = process
        if self._stopping.is_set():
            # Asked to stop while it was being made: it has begun nothing, and would not be told again.
            self._signal(signal.SIGKILL, [process])
        code = await process.wait()
        del self._processes[place]
        end_session(process.pid)
        self.broken = self.broken or code == STARTED_WRONGLY
        return f"({process.pid}) ended with {code}"

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes.values()]

    async def stop(self) -> None:
        """TERM to all; KILL to those that are not gone when patience is."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._patience)
            if late:
                logger.warning("%d %s processes did not end in time and are killed", len(late), self._what)
                self.kill()
                await asyncio.wait(self._tasks)

    def kill(self) -> None:
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: int, processes: Sequence[asyncio.subprocess.Process] = ()) -> None:
        for process in processes or list(self._processes.values()):
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


def end_session(session: int) -> None:
    """Kill whatever is left of a session whose leader has ended: what its processes had started."""
    with suppress(OSError):
        for name in os.listdir("/proc"):
            with suppress(OSError, IndexError, ValueError):
                if int(Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[3]) == session:
                    os.kill(int(name), signal.SIGKILL)

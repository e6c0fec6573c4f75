"""The supervisor's side of the guard: starts, signals and watches processes through it, and never waits for it."""

import asyncio
import errno
import itertools
import logging
import math
import os
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from interlock.supervision import orphans
from interlock.supervision.guard_link import GuardLink, Message, rights
from interlock.supervision.lineage import MARKER
from interlock.supervision.spec import Limits
from interlock.task_set import TaskSet

logger = logging.getLogger("interlock.supervision")

MOST_BYTES = 8 * 2**20
"""of arguments and environment; the system itself takes fewer"""
MOST_STARTING = 64
"""starts at the same time; others wait, so that neither side runs out of descriptors"""
PATIENCE = 10.0
"""seconds for the guard to end when asked to"""
UNHEARD = 5.0
"""seconds for the guard to report the end of a process that it has killed, and to answer a ping"""
STEADY = 1.0
"""seconds a guard must have lived to be replaced at once if it has requests to remember"""
RESOURCES = {
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "cpu": resource.RLIMIT_CPU,
}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program for the guard to start."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    """all of it"""
    cwd: str | None = None
    """by default the supervisor's own"""
    limits: Limits = Limits()
    outlives: bool = False
    """lives on when the supervisor vanishes"""
    descriptors: Mapping[int, int] = {}
    """number in the program → number here; the caller closes them"""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended, and with it all that it had started."""

    code: int | None = None
    signal: int | None = None
    error: str = ""
    """why neither is known"""


class NotSpawned(Exception):
    def __init__(self, stage: str, number: int, text: str = "") -> None:
        """`stage` is where it failed: command, interpreter, cwd, limits.NAME, descriptors, fork or guard; `number` is
        the system's number of the error, or 0."""
        super().__init__(text or os.strerror(number))
        self.stage, self.number = stage, number


class Spawned:
    """A process that the guard has started, or is about to."""

    def __init__(self, number: int, link: GuardLink) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.link = link
        self.pid = 0
        self.born: asyncio.Future[None] = loop.create_future()
        self.exit: asyncio.Future[Ended] = loop.create_future()

    def settle(self, ended: Ended) -> None:
        if not self.exit.done():
            self.exit.set_result(ended)

    def fail(self, why: NotSpawned) -> None:
        """Settle a process that was not started, or is lost."""
        if not self.born.done():
            self.born.set_exception(why)
            # The caller may have gone away.
            self.born.exception()
        self.settle(Ended(error=str(why)))


class Guard:
    """Starts the guard process with the first child, and a new one with the next child if that was killed."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._starting = asyncio.Semaphore(MOST_STARTING)
        self._is_closed = False
        self._link: GuardLink | None = None
        self._spawned: dict[int, Spawned] = {}
        self._pings: dict[int, asyncio.Future[None]] = {}
        self._cleaning = TaskSet()
        self._last_words: dict[str, tuple[str, bytes]] = {}

    @property
    def pid(self) -> int | None:
        return self._link.pid if self._link is not None else None

    async def open(self) -> None:
        """Start the guard process, as spawning does by itself."""
        self._open()

    def _open(self) -> GuardLink:
        if self._is_closed:
            raise NotSpawned("guard", 0, "the guard is closed")
        if self._link is None:
            try:
                self._link = GuardLink(os.urandom(8).hex(), self)
            except OSError as error:
                raise NotSpawned("guard", error.errno or 0, f"the guard cannot be started: {error}") from error
            for key, (path, request) in self._last_words.items():
                self._link.send(("remember", key, path, request))
        return self._link

    async def spawn(self, program: Program) -> Spawned:
        """Start a process, and return when it executes its program. Raise `NotSpawned`; then, and when cancelled,
        nothing of it is left."""
        async with self._starting:
            link = self._open()
            number = next(self._numbers)
            sending = link.send(_spawn_message(number, program, link), tuple(program.descriptors.values()))
            process = self._spawned[number] = Spawned(number, link)
            try:
                await asyncio.shield(process.born)
            except asyncio.CancelledError:
                if link.unsend(sending):
                    del self._spawned[number]
                else:
                    link.send(("signal", number, signal.SIGKILL.value))
                    await asyncio.wait([process.exit])
                raise
            return process

    def signal(self, process: Spawned, number: int) -> None:
        """Signal its process group, unless it has ended."""
        if not process.exit.done():
            process.link.send(("signal", process.number, int(number)))

    async def finish(self, process: Spawned) -> None:
        """Kill it, and return when it is over. A guard that does not answer is killed, with all that it has started; a
        process that survives even that is given up."""
        self.signal(process, signal.SIGKILL)
        await asyncio.wait([process.exit], timeout=UNHEARD)
        if process.exit.done():
            return
        if not await self._answers(process.link):
            logger.error("the guard process %d does not answer", process.link.pid)
            process.link.kill()
            await asyncio.wait([process.exit])
            return
        await asyncio.wait([process.exit], timeout=UNHEARD)
        if not process.exit.done():
            self._spawned.pop(process.number, None)
            logger.error("process %s does not end though it was killed; it is left alone", process.pid)
            process.fail(NotSpawned("kill", 0, f"process {process.pid} does not end though it was killed"))

    async def _answers(self, link: GuardLink) -> bool:
        number = next(self._numbers)
        answer = self._pings[number] = asyncio.get_running_loop().create_future()
        link.send(("ping", number))
        await asyncio.wait([answer, link.over], timeout=UNHEARD, return_when=asyncio.FIRST_COMPLETED)
        del self._pings[number]
        return answer.done() or link.over.done()

    async def remember(self, key: str, path: str, request: bytes) -> None:
        """Have the guard send a request to the socket at `path` should the supervisor vanish."""
        self._last_words[key] = (path, request)
        self._open().send(("remember", key, path, request))

    def disregard(self, key: str) -> None:
        """Take that back."""
        if self._last_words.pop(key, None) is not None and self._link is not None:
            self._link.send(("disregard", key))

    async def close(self) -> None:
        """End the guard for good, with everything that it has started, even what outlives the supervisor."""
        self._is_closed = True
        self._last_words.clear()
        link = self._link
        if link is not None:
            link.send(("close",))
            await asyncio.wait([link.over], timeout=PATIENCE)
            link.kill()
            await asyncio.wait([link.over])

    def heard(self, message: Message) -> None:
        name, number, *values = message
        if name == "pong":
            if (answer := self._pings.get(number)) is not None and not answer.done():
                answer.set_result(None)
            return
        process = self._spawned.get(number)
        if process is None:
            return
        if name == "spawned":
            process.pid = values[0]
            if not process.born.done():
                process.born.set_result(None)
        else:
            del self._spawned[number]
            if name == "failed":
                process.fail(NotSpawned(*values))
            else:
                process.settle(Ended(code=values[0], signal=values[1]))

    def refused(self, number: int, error: OSError) -> None:
        """Fail a start whose descriptors could not be sent."""
        if (process := self._spawned.pop(number, None)) is not None:
            process.fail(NotSpawned("descriptors", error.errno or 0))

    def broken(self, link: GuardLink) -> None:
        """Use a link no more: its guard is gone, or will be."""
        if self._link is link:
            self._link = None

    def ended(self, link: GuardLink, how: str) -> None:
        """Clean up after a guard that is gone and has been heard to the end."""
        left = [process for process in self._spawned.values() if process.link is link]
        if left:
            logger.error("the guard process %d %s; what it had started is killed", link.pid, how)
        self._cleaning.begin(self._clean_up(link, left, f"the guard process {how}"))
        if self._last_words and asyncio.get_running_loop().time() - link.opened_at > STEADY:
            with suppress(NotSpawned):
                self._open()

    async def _clean_up(self, link: GuardLink, left: list[Spawned], why: str) -> None:
        """Kill what the guard has left, and settle it."""
        if left:
            await orphans.remove({process.pid for process in left if process.pid}, link.identity)
        for process in left:
            self._spawned.pop(process.number, None)
            process.fail(NotSpawned("guard", 0, why))
        link.over.set_result(None)


def _spawn_message(number: int, program: Program, link: GuardLink) -> Message:
    if rights() != link.rights:
        raise NotSpawned(
            "guard",
            0,
            "the supervisor has changed its user since it started its guard; change it before the first start",
        )
    marks = "/".join(filter(None, (os.environ.get(MARKER), f"{link.identity}.{number}")))
    command = [os.fsencode(part) for part in program.command]
    environment = {os.fsencode(name): os.fsencode(value) for name, value in program.environment.items()}
    environment[MARKER.encode()] = marks.encode()
    if sum(map(len, command)) + sum(map(len, environment)) + sum(map(len, environment.values())) > MOST_BYTES:
        raise NotSpawned("command", errno.E2BIG)
    limits = [
        (f"limits.{name}", kind, math.ceil(value))
        for name, kind in RESOURCES.items()
        if (value := getattr(program.limits, name)) is not None
    ]
    plan = (command, environment, _folder(program.cwd), _umask(), limits, program.outlives)
    return ("spawn", number, list(program.descriptors), plan)


def _folder(cwd: str | None) -> bytes:
    try:
        # The guard stays where it was started, and the supervisor need not.
        return os.fsencode(cwd if cwd is not None and cwd.startswith("/") else os.path.join(os.getcwd(), cwd or ""))
    except OSError as error:
        raise NotSpawned("guard", error.errno or 0, f"the supervisor's own folder is gone: {error.strerror}") from error


def _umask() -> int | None:
    """Read without changing it, which other threads would see."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return None

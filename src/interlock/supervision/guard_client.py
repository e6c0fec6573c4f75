"""The supervisor's side of the guard: start, signal and watch processes through it, without blocking."""

import asyncio
import itertools
import logging
import math
import os
import resource
import signal
from collections.abc import Mapping, Set

import msgspec

from interlock.model.work import Limits
from interlock.supervision.guard_link import GuardLink, GuardMessage
from interlock.supervision.lineage import MARKER, NOT_YET, facts, is_dead, kill, marked, parent, processes, start, tried
from interlock.task_set import TaskSet

logger = logging.getLogger("interlock.supervision")

MOST_STARTING = 64  # simultaneous starts; others wait, so that neither side runs out of descriptors
PATIENCE = 10.0
"""seconds for the guard to end after the request to close, and to report the end of a killed process"""
BETWEEN_LOOKS = 0.01
LONGEST_REMOVAL = 60.0  # seconds for a container engine to answer that it has removed a container
BETWEEN_REQUESTS = 2.0  # seconds between requests to remove a container
MOST_LOOKS = 300  # looks at processes left by a killed guard; one that then still lives is left alone
RESOURCES = {
    "memory": resource.RLIMIT_AS,
    "files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "cpu": resource.RLIMIT_CPU,
}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program for the guard to start."""

    command: tuple[str, ...]
    environment: Mapping[str, str]  # the whole environment
    cwd: str | None = None  # by default the supervisor's own
    limits: Limits = Limits()
    outlives: bool = False  # whether it outlives the supervisor
    descriptors: Mapping[int, int] = {}  # number in the program → number here; the caller closes them


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a process and of everything that it had started."""

    code: int | None = None
    signal: int | None = None
    error: str = ""  # reason why neither is known


class NotSpawned(Exception):
    def __init__(self, stage: str, number: int, text: str = "") -> None:
        """`stage` is what failed: command, interpreter, cwd, limits.NAME, descriptors, fork or guard; `number` is the
        system's number of the error, or 0."""
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
        """Settle a process that did not start, or is lost."""
        if not self.born.done():
            self.born.set_exception(why)
            # The caller may have stopped waiting.
            self.born.exception()
        self.settle(Ended(error=str(why)))


class Guard:
    """Starts the guard process with the first child; after its death, starts a new one with the next child."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._starting = asyncio.Semaphore(MOST_STARTING)
        self._is_closed = False
        self._link: GuardLink | None = None
        self._spawned: dict[int, Spawned] = {}
        self._tasks = TaskSet()
        self._last_words: dict[str, tuple[str, bytes]] = {}
        self._pursuits = TaskSet()

    @property
    def pid(self) -> int | None:
        return self._link.pid if self._link is not None else None

    def open(self) -> GuardLink:
        """Start the guard process, as spawning does by itself. Raise `NotSpawned`."""
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
        """Start a process, and return when it executes its program. Raise `NotSpawned`. After that, or a cancel,
        nothing of it is left."""
        async with self._starting:
            link = self.open()
            number = next(self._numbers)
            message = _spawn_message(number, program, link)
            process = self._spawned[number] = Spawned(number, link)
            link.send(message, tuple(program.descriptors.values()))
            try:
                await asyncio.shield(process.born)
            except asyncio.CancelledError:
                self.signal(process, signal.SIGKILL)
                await asyncio.wait([process.exit])
                raise
            return process

    def signal(self, process: Spawned, number: int) -> None:
        """Signal its process group, unless it has ended."""
        if not process.exit.done():
            process.link.send(("signal", process.number, int(number)))

    async def finish(self, process: Spawned) -> None:
        """Kill a process, and return when it has ended; give up if its end is not reported in time."""
        self.signal(process, signal.SIGKILL)
        await asyncio.wait([process.exit], timeout=PATIENCE)
        if not process.exit.done():
            self._spawned.pop(process.number, None)
            why = f"process {process.pid} does not end although it was killed"
            logger.error("%s; it is left alone", why)
            process.fail(NotSpawned("kill", 0, why))

    def let_go(self, process: Spawned) -> None:
        """Report the end of a process that lives on."""
        self._spawned.pop(process.number, None)
        process.settle(Ended(code=0))

    def remember(self, key: str, path: str, request: bytes) -> None:
        """Make the guard send a request for removal to the socket at `path` at its end, however that comes."""
        self._last_words[key] = (path, request)
        self.open().send(("remember", key, path, request))

    def disregard(self, key: str) -> None:
        """Cancel the request for a socket."""
        if self._last_words.pop(key, None) is not None and self._link is not None:
            self._link.send(("disregard", key))

    def pursue(self, key: str) -> None:
        """Send a request that is still remembered until it is served, or the guard ends."""
        if not self._is_closed and key in self._last_words:
            self._pursuits.begin(self._pursue(key))

    async def _pursue(self, key: str) -> None:
        while (word := self._last_words.get(key)) is not None:
            if await _is_served(*word):
                self.disregard(key)
            else:
                await asyncio.sleep(BETWEEN_REQUESTS)

    async def close(self, spare: bool = False) -> None:
        """End the guard for good with everything that it has started, including processes that outlive a supervisor
        unless they are spared."""
        self._is_closed = True
        self._pursuits.cancel()
        await self._pursuits.end()
        self._last_words.clear()
        link = self._link
        if link is not None:
            link.send(("close", spare))
            await asyncio.wait([link.over], timeout=PATIENCE)
            link.kill()
            await asyncio.wait([link.over])

    def heard(self, message: GuardMessage) -> None:
        name, number, *values = message
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

    def ended(self, link: GuardLink, how: str) -> None:
        """Kill and settle the processes that a dead guard left."""
        if self._link is link:
            self._link = None
        left = [process for process in self._spawned.values() if process.link is link]
        if left:
            logger.error("the guard process %d %s; the processes it had started are killed", link.pid, how)
        self._tasks.begin(self._clean_up(link, left, f"the guard process {how}"))

    async def _clean_up(self, link: GuardLink, left: list[Spawned], why: str) -> None:
        if left:
            await _remove_orphans({process.pid for process in left if process.pid}, link.identity)
        for process in left:
            self._spawned.pop(process.number, None)
            process.fail(NotSpawned("guard", 0, why))
        link.over.set_result(None)


async def _is_served(path: str, request: bytes) -> bool:
    """Return whether what a request removes is gone."""
    try:
        async with asyncio.timeout(LONGEST_REMOVAL):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(request)
                answer = await reader.read(1024)
            finally:
                writer.close()
    except OSError:
        return False
    return answer.split()[1:2] in ([b"200"], [b"204"], [b"404"])


def _spawn_message(number: int, program: Program, link: GuardLink) -> GuardMessage:
    try:
        for descriptor in program.descriptors.values():
            os.fstat(descriptor)
    except OSError as error:
        raise NotSpawned("descriptors", error.errno or 0) from None
    environment = {os.fsencode(name): os.fsencode(value) for name, value in program.environment.items()}
    marks = "/".join(filter(None, (os.environ.get(MARKER), f"{link.identity}.{number}")))
    environment[MARKER.encode()] = marks.encode()
    limits = [
        (f"limits.{name}", kind, math.ceil(value))
        for name, kind in RESOURCES.items()
        if (value := getattr(program.limits, name)) is not None
    ]
    command = [os.fsencode(part) for part in program.command]
    plan = (command, environment, _folder(program.cwd or ""), limits, program.outlives)
    return ("spawn", number, list(program.descriptors), plan)


def _folder(cwd: str) -> bytes:
    try:
        # The guard stays in its first folder; the supervisor may have changed its own.
        return os.fsencode(cwd if os.path.isabs(cwd) else os.path.join(os.getcwd(), cwd))
    except OSError as error:
        raise NotSpawned("guard", error.errno or 0, f"the supervisor's own folder is gone: {error.strerror}") from error


async def _remove_orphans(sessions: Set[int], identity: str) -> None:
    """Kill every process in these sessions, every one with the mark of the guard, and their descendants; return when
    they are gone."""
    known: dict[int, int] = {}
    for _ in range(MOST_LOOKS):
        if await asyncio.to_thread(_kill_all, sessions, f"{identity}.".encode(), known):
            return
        await asyncio.sleep(BETWEEN_LOOKS)


def _kill_all(sessions: Set[int], token: bytes, known: dict[int, int]) -> bool:
    """Look once; return whether nothing is left. `known` has the start times of all processes found so far."""
    # The system's own processes have no session.
    states = {pid: facts(pid) for pid in processes() if tried(os.getsid, pid) > 0}
    marks = {pid: marked(pid, token) for pid, state in states.items() if not is_dead(state)}
    found = {pid for pid in states if tried(os.getsid, pid) in sessions or marks.get(pid) not in (None, NOT_YET)}
    while more := {pid for pid, state in states.items() if parent(state) in found} - found:
        found |= more
    known.update((pid, start(states[pid])) for pid in found)
    left = NOT_YET in marks.values()
    # Oldest first: a worker that saw its executor die would report a crash and be given the run again, then die itself.
    for started, pid in sorted((started, pid) for pid, started in known.items()):
        state = facts(pid)
        if start(state) == started and not is_dead(state):
            left = True
            kill(pid, started)
        elif start(state) == started and parent(state) == os.getpid():
            # A supervisor that adopts orphans, as the first process of a container does, must reap them.
            tried(os.waitpid, pid, os.WNOHANG)
    return not left

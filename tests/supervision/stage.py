"""A tree on virtual time whose children do what the test says, and note what is done to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from interlock.error import CannotStart
from interlock.model.child_info import Exit, Status
from interlock.supervision import Backoff, Birth, Custom, Instance, Supervisor
from soak.simulation.loop import VirtualLoop

T = TypeVar("T")

AT_ONCE = Backoff(initial=0)
AFTER_1 = Backoff(initial=1, multiplier=1, jitter=0)


def virtually(body: Callable[[], Awaitable[T]]) -> T:
    """Run it on virtual time, where waiting for what never comes is an error. Nothing may be left at the end, and
    nothing may have been raised that nobody caught."""
    loop = VirtualLoop()

    async def main() -> T:
        result = await body()
        await quiet()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []
        return result

    try:
        result = loop.run_until_complete(main())
        assert loop.errors == []
        return result
    finally:
        loop.close()


async def quiet() -> None:
    """Until nothing more happens at this instant."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    # On virtual time, a timer is looked at only when nothing is left to be called.
    loop.call_later(0, done.set_result, None)
    await done


async def at(moment: float) -> None:
    """Until that time, and until nothing more happens then."""
    await asyncio.sleep(moment - now())
    await quiet()


def now() -> float:
    return asyncio.get_running_loop().time()


class Actor(Instance):
    """One life of a part that is played."""

    def __init__(self, stage: "Stage", birth: Birth, part: "Part") -> None:
        super().__init__()
        self.birth = birth
        self._stage = stage
        self._part = part
        self.can_suspend = part.can_suspend
        self._killed = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        part, name = self._part, self.birth.name
        self._stage.note("start", name)
        self._stage.alive.append(self)
        self._stage.started.append(self.birth.path)
        part.lives.append(self)
        try:
            await self._stage.pass_time(part.start_takes)
            failure = part.failures.pop(0) if part.failures else None
            if failure is not None:
                raise failure
        except BaseException:
            self._is_gone(Exit(at=now(), error="it was not up"), "failed")
            raise
        if part.start_takes:
            self._stage.note("up", name)

    async def stop(self, timeout: float) -> None:
        part, name = self._part, self.birth.name
        self._stage.note("stop", name)
        if part.stop_raises is not None:
            raise part.stop_raises
        if part.stop_takes:
            await asyncio.wait([self.ended, self._killed], timeout=part.stop_takes, return_when="FIRST_COMPLETED")
        self._is_gone(Exit(at=now(), code=0), "stopped" if part.stop_takes else "")

    def kill(self) -> None:
        self._stage.note("kill", self.birth.name)
        if self._part.kill_raises is not None:
            raise self._part.kill_raises
        self.forced = True
        if not self._killed.done():
            self._killed.set_result(None)
        self._is_gone(Exit(at=now(), signal=9), "")

    def end(self, code: int | None = 0, error: str = "", signal: int | None = None) -> None:
        """It ends by itself."""
        self._is_gone(Exit(at=now(), code=None if signal is not None else code, error=error, signal=signal), "end")

    def _is_gone(self, exit: Exit, word: str) -> None:
        if self in self._stage.alive:
            self._stage.alive.remove(self)
            if word:
                self._stage.note(word, self.birth.name)
        self.settle(exit)

    async def suspend(self) -> None:
        await self._shift("suspend")

    async def resume(self) -> None:
        await self._shift("resume")

    async def _shift(self, word: str) -> None:
        self._stage.note(word, self.birth.name)
        await self._stage.pass_time(self._part.shift_takes)
        raised = self._part.shift_raises.pop(0) if self._part.shift_raises else None
        if raised is not None:
            raise raised


class Part:
    """How the lives of one child go."""

    def __init__(self) -> None:
        self.lives: list[Actor] = []
        self.start_takes = 0.0
        self.stop_takes = 0.0
        self.shift_takes = 0.0
        self.can_suspend = True
        self.failures: list[BaseException | None] = []
        """what the starts to come raise, one each"""
        self.shift_raises: list[BaseException | None] = []
        """the same for what suspends or resumes it"""
        self.stop_raises: BaseException | None = None
        self.kill_raises: BaseException | None = None


class Stage:
    def __init__(self) -> None:
        self.notes: list[str] = []
        """what happened, as "start a" """
        self.alive: list[Actor] = []
        self.started: list[str] = []
        """paths"""
        self.parts: dict[str, Part] = {}

    def part(self, name: str) -> Part:
        return self.parts.setdefault(name, Part())

    def child(self, name: str, **options: Any) -> Custom:
        """Played by the part of that name; names are unique in the whole tree."""
        how = {key: options.pop(key) for key in list(options) if key in vars(Part())}
        for key, value in how.items():
            setattr(self.part(name), key, value)
        options.setdefault("backoff", AT_ONCE)
        return Custom(name=name, factory=lambda birth: Actor(self, birth, self.part(name)), **options)

    def note(self, word: str, name: str) -> None:
        self.notes.append(f"{word} {name}")

    def take(self) -> list[str]:
        """What happened since the last time."""
        notes, self.notes = self.notes, []
        return notes

    def live(self, name: str) -> Actor:
        """The one that is alive; there is never more than one."""
        found = [actor for actor in self.alive if actor.birth.name == name]
        assert len(found) == 1, f"{len(found)} of {name} are alive"
        return found[0]

    def names(self) -> list[str]:
        return sorted(actor.birth.name for actor in self.alive)

    async def end(self, name: str, code: int | None = 0, error: str = "", signal: int | None = None) -> None:
        """Let the one that is alive end by itself, and whatever follows at this instant happen."""
        self.live(name).end(code, error, signal)
        await quiet()

    async def crash(self, name: str) -> None:
        await self.end(name, code=1)

    async def pass_time(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)


def supervisor(*children: Any, **options: Any) -> Supervisor:
    """On virtual time, and without chance."""
    options = {"now": now, "chance": lambda: 0.0} | options
    return Supervisor(options.pop("name", "top"), children, **options)


@asynccontextmanager
async def running(*children: Any, **options: Any) -> AsyncIterator[Supervisor]:
    """One that has been started, and is stopped at the end."""
    tree = supervisor(*children, **options)
    await tree.start()
    try:
        yield tree
    finally:
        await tree.stop()


def status(tree: Supervisor, path: str = "") -> Status:
    """Of a child, or of the tree itself."""
    return tree.child(path).status if path else tree.status


def cannot(name: str = "it") -> CannotStart:
    return CannotStart(name, "it does not want to")


class Printing(Instance):
    """Does nothing but print the given lines."""

    async def start(self) -> None: ...

    async def stop(self, timeout: float) -> None: ...

    def kill(self) -> None: ...

    def say(self, line: str) -> None:
        if self.on_line is not None:
            self.on_line(line)


def never() -> bool:
    return False

"""The goal that a child be up, watches on changes, and small tools for waiting."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

from interlock.error import BadValue, CannotStart, InterlockError
from interlock.model.child_info import Change, Exit

T = TypeVar("T")


class Goal:
    """Lasts from the request that a child be up until it is withdrawn. A new request while the last instance is still
    stopping is another goal, and does not change how that instance ends."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict  # whether a failed first start is final
        self.not_before: float | None = None  # end of the backoff, by the loop's clock
        loop = asyncio.get_running_loop()
        self.lowered: asyncio.Future[None] = loop.create_future()
        self._started: asyncio.Future[Exit | None] = loop.create_future()

    def lower(self) -> None:
        if not self.lowered.done():
            self.lowered.set_result(None)

    def tried(self, failure: Exit | None) -> None:
        """Record the failure of a start, None for a success. Only the first start may be strict."""
        self.strict = False
        if not self._started.done():
            self._started.set_result(failure)

    async def next_start(self) -> Exit | None:
        """Wait for the present or next start, or until the goal is lowered; return the failure of the start, if any."""
        if self._started.done():
            self._started = asyncio.get_running_loop().create_future()
        started = self._started
        await first(started, self.lowered)
        return started.result() if started.done() else None


class Bell(asyncio.Event):
    """Wakes everybody who waits, each time it rings."""

    def ring(self) -> None:
        self.set()
        self.clear()


async def first(*futures: "asyncio.Future[Any]") -> None:
    """Wait until one of them is settled, without ever cancelling them."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def unless(work: Coroutine[Any, Any, T], *others: "asyncio.Future[Any]") -> "asyncio.Task[T]":
    """Do the work, but cancel it when one of the others is settled first; return its task, which has ended."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await first(task, *others)
    finally:
        task.cancel()
    if not task.done():
        await asyncio.wait([task])
    return task


async def insist(task: "asyncio.Task[T]") -> T:
    """Wait until a task is done, even if the caller is cancelled meanwhile; raise that cancellation afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def words(error: BaseException, path: str = "") -> str:
    """Return an exception as one line, without the name of the child at `path` that raised it."""
    if isinstance(error, CannotStart) and error.path == path:
        return error.why
    if isinstance(error, InterlockError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


SIZE = 1000  # changes kept for a slow watcher


class Watch:
    """All changes since the call of `Supervisor.watch()`. A slow watcher loses the oldest."""

    def __init__(self, size: int, all_watches: "list[Watch]") -> None:
        """`all_watches` contains this watch until it is closed."""
        if not isinstance(size, int) or size < 1:
            raise BadValue("size", size, "a whole number of one or more")
        self._changes: deque[Change] = deque(maxlen=size)
        self._all = all_watches
        self._all.append(self)
        self._bell = Bell()
        self._over = False
        self.lost = 0  # number of lost changes

    def put(self, change: Change) -> None:
        self.lost += len(self._changes) == self._changes.maxlen
        self._changes.append(change)
        self._bell.ring()

    def end(self) -> None:
        """End the iteration after the waiting changes."""
        self._over = True
        self._bell.ring()

    def close(self) -> None:
        """End the iteration at once."""
        self._changes.clear()
        if self in self._all:
            self._all.remove(self)
        self.end()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._over:
                raise StopAsyncIteration
            await self._bell.wait()
        return self._changes.popleft()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

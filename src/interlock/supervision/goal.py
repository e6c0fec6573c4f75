"""That a child is to be up: asked for once, and taken back once."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from interlock.model.child_info import Exit
from interlock.model.error import CannotStart, InterlockError

T = TypeVar("T")


class Goal:
    """From when somebody wants a child to be up until nobody does any more. Each has its own end: what is wanted
    anew while the last instance is still being stopped is another goal, and does not change how that one ends."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        """whether a first start that fails is left at that"""
        self.not_before: float | None = None
        """when its backoff is over, by the loop's clock"""
        loop = asyncio.get_running_loop()
        self.lowered: asyncio.Future[None] = loop.create_future()
        self._started: asyncio.Future[Exit | None] = loop.create_future()

    def lower(self) -> None:
        if not self.lowered.done():
            self.lowered.set_result(None)

    def tried(self, failure: Exit | None) -> None:
        """A start is over: how it failed, None if it did not. Only the first one counts as such."""
        self.strict = False
        if not self._started.done():
            self._started.set_result(failure)

    async def next_start(self) -> Exit | None:
        """Until the start that is under way, or comes next, is over, or nobody wants it any more; how it failed, if it
        did."""
        if self._started.done():
            self._started = asyncio.get_running_loop().create_future()
        started = self._started
        await first(started, self.lowered)
        return started.result() if started.done() else None


async def first(*futures: "asyncio.Future[Any]") -> None:
    """Until one of them is settled; none is cancelled with whoever waits."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def unless(work: Coroutine[Any, Any, T], *others: "asyncio.Future[Any]") -> "asyncio.Task[T]":
    """Work until it is done, or until one of the others is settled, which breaks it off; the task, which has ended."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await first(task, *others)
    finally:
        task.cancel()
    if not task.done():
        await asyncio.wait([task])
    return task


def words(error: BaseException, path: str = "") -> str:
    """What was raised, on one line; by the child at `path`, which need not be named again."""
    if isinstance(error, CannotStart) and error.path == path:
        return error.why
    if isinstance(error, InterlockError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__

"""What somebody has asked of a supervisor: done to the end, though whoever asked may be gone before."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Errands:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._has_ended)
        return task

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.begin(work)
        await asyncio.wait([task])
        return task.result()

    async def end(self) -> None:
        """Until all are done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _has_ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Nobody may be left who would be told of it.
            task.exception()

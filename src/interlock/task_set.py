"""Background tasks with an owner: asyncio forgets a task that nobody refers to."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class TaskSet:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start the work, and keep its task until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work to the end, even if the caller is cancelled before."""
        task = self.begin(work)
        # Otherwise asyncio would log an error that has no caller left to take it.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([task])
        return task.result()

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """Wait until all are done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

"""`App.map`: a run for each item, a bounded number of them live at once, results in order."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

from interlock.client.connection import Connection
from interlock.client.submission import Call, submit
from interlock.error import InterlockError, ItemFailed
from interlock.interface.run_builder import new_run
from interlock.model.run import CALL_KEY
from interlock.wire.request import NewRun

Make = Callable[[int, Any], Call[Any] | NewRun]


def key_maker(prefix: str | None = None) -> Callable[[int], str]:
    """Return a function that makes the key of an item, so that its submit is safe to repeat while the scheduler is
    away. With a prefix from the caller, the whole map is safe to repeat."""
    prefix = prefix or CALL_KEY + os.urandom(16).hex()
    return lambda index: f"{prefix}-{index}"


def run_maker(job_id: str) -> Make:
    """Return a function that makes the runs of a job that this program does not define."""
    key = key_maker()
    return lambda index, item: new_run(job_id, item, key=key(index))


async def map_items(
    connect: Callable[[], Awaitable[Connection]],
    make: Make,
    items: Iterable[Any],
    max_parallel: int,
    return_exceptions: bool,
) -> AsyncIterator[Any]:
    """Yield the result of the run of each item. As runs end, submit more while the caller waits for the next result.
    Runs that are live when the caller leaves continue."""
    connection, left = await connect(), enumerate(items)
    tasks: deque[asyncio.Task[Any]] = deque()  # of items that are not yet yielded
    live, has_ended = 0, asyncio.Event()

    def end(task: asyncio.Task[Any]) -> None:
        nonlocal live, left
        live -= 1
        has_ended.set()
        if not task.cancelled() and task.exception() is not None and not return_exceptions:
            left = enumerate(())

    try:
        while True:
            for index, item in islice(left, max_parallel - live):
                live += 1
                tasks.append(asyncio.create_task(_result(connection, make, index, item)))
                tasks[-1].add_done_callback(end)
            if not tasks:
                return
            if tasks[0].done():
                failure = (first := tasks.popleft()).exception()
                yield failure.__cause__ if return_exceptions and isinstance(failure, ItemFailed) else first.result()
            else:
                has_ended.clear()
                await has_ended.wait()
    finally:
        for task in tasks:
            task.cancel()


async def _result(connection: Connection, make: Make, index: int, item: Any) -> Any:
    """Submit the run of an item and wait for its result. An error of the run itself becomes `ItemFailed`."""
    try:
        call = make(index, item)
    except InterlockError as error:
        raise ItemFailed(index, error) from error
    (handle,) = await submit(connection, [call])
    try:
        return await handle.result()
    except InterlockError as error:
        raise ItemFailed(index, error) from error

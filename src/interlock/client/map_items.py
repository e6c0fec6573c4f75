"""`App.map`: a run for each item, a bounded number of them live at once, results in order."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.client.submission import MOST_BYTES, Call, new_run, submit
from interlock.model import payload
from interlock.model.error import InterlockError, ItemFailed
from interlock.model.request import NewRun
from interlock.model.run import CALL_KEY

FULL = MOST_BYTES - payload.LIMIT  # bytes of payloads after which a submit takes no more runs
Make = Callable[[int, Any], Call[Any] | NewRun]


def key_maker(prefix: str | None = None) -> Callable[[int], str]:
    """Return what makes the key of an item, so that its submit is safe to repeat while the scheduler is away. With a
    prefix of the caller, so is the whole map."""
    prefix = prefix or CALL_KEY + os.urandom(16).hex()
    return lambda index: f"{prefix}-{index}"


def run_maker(job_id: str) -> Make:
    """Return what makes runs of a job that this program does not define."""
    key = key_maker()
    return lambda index, item: new_run(job_id, item, key=key(index))


async def map_items(
    connect: Callable[[], Awaitable[Connection]],
    make: Make,
    items: Iterable[Any],
    max_parallel: int,
    return_exceptions: bool,
) -> AsyncIterator[Any]:
    """Yield the result of the run of each item. Runs are submitted as others end, while the caller waits for the next
    result. Runs that are live when the caller leaves continue."""
    connection = await connect()
    runs = ItemRuns(make, items, max_parallel, return_exceptions)
    try:
        for place in count():
            await runs.submit(connection)
            while place not in runs.ended and runs.live:
                await runs.wait()
                await runs.submit(connection)
            if place not in runs.ended:
                return
            yield runs.take(place)
    finally:
        for task in runs.live.values():
            task.cancel()


class ItemRuns:
    """The runs of a map: the live ones, and outcomes that wait for their turn."""

    def __init__(self, make: Make, items: Iterable[Any], max_parallel: int, return_exceptions: bool) -> None:
        self.live: dict[int, asyncio.Task[None]] = {}
        self.ended: dict[int, Any] = {}
        self._calls = self._made(make, items)
        self._max_parallel = max_parallel
        self._return_exceptions = return_exceptions
        self._outcomes: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()

    def _made(self, make: Make, items: Iterable[Any]) -> Iterator[tuple[int, Call[Any] | NewRun]]:
        for index, item in enumerate(items):
            try:
                call = make(index, item)
            except InterlockError as error:
                self._end(index, error)
                if not self._return_exceptions:
                    return
            else:
                yield index, call

    def _end(self, index: int, outcome: Any) -> None:
        self.ended[index] = outcome
        if isinstance(outcome, Exception) and not self._return_exceptions:
            self._calls = iter(())

    async def submit(self, connection: Connection) -> None:
        """Submit as many runs as have room."""
        while batch := self._batch():
            for index, handle in zip(batch, await submit(connection, batch.values()), strict=True):
                self.live[index] = asyncio.create_task(self._follow(index, handle))

    def _batch(self) -> dict[int, Call[Any] | NewRun]:
        """Return the next runs, as many as fit into one submit."""
        batch: dict[int, Call[Any] | NewRun] = {}
        size = 0
        for index, call in islice(self._calls, self._max_parallel - len(self.live)):
            batch[index] = call
            size += len(call.payload)
            if size > FULL:
                break
        return batch

    async def _follow(self, index: int, handle: RunHandle[Any]) -> None:
        try:
            self._outcomes.put_nowait((index, await handle.result()))
        except Exception as error:  # noqa: BLE001 - `take` raises it
            self._outcomes.put_nowait((index, error))

    async def wait(self) -> None:
        """Wait for the end of a run."""
        index, outcome = await self._outcomes.get()
        del self.live[index]
        self._end(index, outcome)

    def take(self, place: int) -> Any:
        """Return the outcome of an item, or raise it."""
        outcome = self.ended.pop(place)
        if isinstance(outcome, Exception) and not self._return_exceptions:
            raise ItemFailed(place, outcome) from outcome
        return outcome

"""A client that goes on submitting while the scheduler dies and comes back, and knows what it was promised."""

import asyncio
from collections.abc import Callable
from typing import Self

import interlock as il
from interlock.wire.request import NewRun
from tests.helpers.jobs import app
from tests.helpers.places import until

PASSING = ("connection_lost", "not_running", "store_unavailable", "draining")
"""what a client may be told while the scheduler is away"""


class Submitter:
    def __init__(self, make: Callable[[int], list[NewRun]]) -> None:
        self._make = make
        self._stopping = False
        self.acknowledged: list[str] = []
        self.broken = 0
        """submits whose answer never came: those runs may or may not exist"""

    async def __aenter__(self) -> Self:
        """Submit batch after batch through the app's connection, until the block ends and all runs have ended."""
        self._going = asyncio.create_task(self._go_on())
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._stopping = True
        await self._going
        for run_id in self.acknowledged if kind is None else ():
            await (await app.handle(run_id)).wait(60)

    @property
    def has_failed(self) -> bool:
        return self._going.done()

    async def reach(self, more: int) -> None:
        """Wait until so many more runs are acknowledged."""
        goal = len(self.acknowledged) + more
        await until(lambda: len(self.acknowledged) >= goal or self.has_failed, "submits go on")
        assert not self.has_failed

    async def _go_on(self) -> None:
        number = 0
        while not self._stopping:
            number += 1
            try:
                handles = await app.submit_many(self._make(number))
            except il.InterlockError as error:
                if error.code not in PASSING:
                    raise
                self.broken += 1
                await asyncio.sleep(0.01)
            else:
                self.acknowledged += [handle.id for handle in handles]
                await asyncio.sleep(0.005)

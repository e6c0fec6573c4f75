"""A client that goes on submitting while the scheduler dies and comes back, and knows what it was promised."""

import asyncio
from collections.abc import Callable

import interlock as il
from interlock.wire.request import NewRun
from tests.helpers.jobs import app

PASSING = ("connection_lost", "not_running", "store_unavailable", "draining")
"""what a client may be told while the scheduler is away"""


class Submitter:
    def __init__(self, make: Callable[[int], list[NewRun]]) -> None:
        self._make = make
        self._stopping = False
        self.acknowledged: list[str] = []
        self.broken = 0
        """submits whose answer never came: those runs may or may not exist"""

    async def go_on(self) -> None:
        """Submit batch after batch through the app's connection until stopped."""
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

    def stop(self) -> None:
        self._stopping = True

    async def all_ended(self) -> None:
        for run_id in self.acknowledged:
            await (await app.handle(run_id)).wait(60)

"""Restarting several children together, as the strategy of their supervisor says."""

import asyncio
from collections.abc import Callable, Container
from contextlib import suppress

from interlock.model.child_info import Status
from interlock.supervision.child import ChildRunner


class Together:
    """Children that ended and take others with them. What ends by itself while they are restarted makes that begin
    again; what is stopped for it does not."""

    def __init__(
        self, members: Callable[[Container[ChildRunner]], list[ChildRunner]], now: Callable[[], float]
    ) -> None:
        """`members` says who is restarted when those end, in the order in which they start; `now` is the wall time."""
        self.halting = asyncio.Event()
        """nothing more is brought up"""
        self.starting = asyncio.Lock()
        """held by whoever brings up several children"""
        self._members = members
        self._now = now
        self._wanted: dict[ChildRunner, float] = {}
        """those that ended, and when they are to be started again"""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._wanted.clear()
        # It may run on another loop than it did before.
        self.halting, self.starting = asyncio.Event(), asyncio.Lock()

    def want(self, child: ChildRunner, at: float) -> None:
        self._wanted[child] = at
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._restart())

    async def end(self) -> None:
        """Until nothing is restarted any more, which is soon when it is halting."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _restart(self) -> None:
        async with self.starting:
            while self._wanted and not self.halting.is_set():
                wanted, self._wanted = self._wanted, {}
                await self._restart_with(wanted)

    async def _restart_with(self, wanted: dict[ChildRunner, float]) -> None:
        at = max(wanted.values())
        members = self._members(wanted)
        reason = f"is restarted with {', '.join(child.path for child in wanted)}"
        for child in reversed(members):
            if child not in wanted and not child.stays_down and child.status is not Status.CREATED:
                if child.status is not Status.PENDING:
                    await child.down()
                child.pend(self._now() + max(0.0, at - asyncio.get_running_loop().time()), reason)
        await self._pause(at)
        for child in members:
            if self._wanted or self.halting.is_set():
                # Those that are not up yet are started with the others in the next round.
                return
            if not child.stays_down:
                await child.up()

    async def _pause(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self.halting.wait()

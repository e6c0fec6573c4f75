"""Restart several children together, by the strategy of their supervisor."""

import asyncio
from collections.abc import Callable, Container
from contextlib import suppress

from interlock.model.child_info import Status
from interlock.supervision.child import ChildRunner


class Together:
    """A restart of children that ended, and of others with them. A child that ends by itself meanwhile makes it begin
    again; a child that is stopped for it does not."""

    def __init__(
        self, members: Callable[[Container[ChildRunner]], list[ChildRunner]], now: Callable[[], float]
    ) -> None:
        """`members` returns the children to restart when some have ended, in starting order; `now` is the wall time."""
        self.halting = asyncio.Event()  # set once nothing more may start
        self.starting = asyncio.Lock()  # held while several children start
        self._members = members
        self._now = now
        self._wanted: dict[ChildRunner, float] = {}  # ended child → time of its restart
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._wanted.clear()
        # A later start may use another loop.
        self.halting, self.starting = asyncio.Event(), asyncio.Lock()

    def want(self, child: ChildRunner, at: float) -> None:
        self._wanted[child] = at
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._restart())

    async def end(self) -> None:
        """Wait for a restart under way; halting ends it early."""
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
        reason = f"restarted with {', '.join(child.path for child in wanted)}"
        for child in reversed(members):
            if child not in wanted and not child.stays_down and child.status is not Status.CREATED:
                if child.status is not Status.PENDING:
                    await child.down()
                child.pend(self._now() + max(0.0, at - asyncio.get_running_loop().time()), reason)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(at):
                await self.halting.wait()
        for child in members:
            if self._wanted or self.halting.is_set():
                # The next round starts the remaining children too.
                return
            if not child.stays_down:
                await child.up()

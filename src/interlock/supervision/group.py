"""A supervisor's life as a child of another."""

import asyncio
from typing import TYPE_CHECKING

from interlock.supervision.instance import Instance

if TYPE_CHECKING:
    from interlock.supervision.supervisor import Supervisor


class GroupInstance(Instance):
    """Its end is settled by the supervisor."""

    def __init__(self, supervisor: "Supervisor") -> None:
        super().__init__()
        self._supervisor = supervisor

    async def start(self) -> None:
        try:
            await self._supervisor.start()
        except asyncio.CancelledError:
            # It may have been about to stop, because one of its children could not be started.
            await self._supervisor.stop()
            raise

    async def stop(self, timeout: float) -> None:
        """As long as its children may take, each by its own limit."""
        await self._supervisor.stop()

    def kill(self) -> None:
        self._supervisor.kill()

    @property
    def can_suspend(self) -> bool:
        return True

    async def suspend(self) -> None:
        await self._supervisor.suspend()

    async def resume(self) -> None:
        await self._supervisor.resume()

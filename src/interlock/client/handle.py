"""A handle on a run: wait for it, stop it, look at it."""

from typing import Any

from interlock.client.access import RunAccess
from interlock.model.duration import Duration, seconds
from interlock.model.run import RunStats
from interlock.model.run_action import RunAction
from interlock.model.run_view import HistoryEntry, LogLine, RunInfo
from interlock.model.state import State


class RunHandle:
    """Returned by `submit`. It holds only the id: everything else is asked for."""

    __slots__ = ("_access", "id")

    def __init__(self, run_id: str, access: RunAccess) -> None:
        self.id = run_id
        self._access = access

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the end and return what the handler returned.

        Raises `RunEnded` if the run did not succeed, `WaitTimeout` if it has not ended in time; the run goes on then.
        """
        return (await self._access.wait(self.id, limit_of(timeout))).unpack()

    async def wait(self, timeout: Duration | None = None) -> State:
        """Wait for the end, whichever it is."""
        return (await self._access.wait(self.id, limit_of(timeout))).state

    async def cancel(self, reason: str = "") -> State:
        """Ask for the run to be stopped; returns the state it then has. What executes ends later: `wait` for it."""
        return await self._access.act(RunAction.CANCEL, self.id, reason)

    async def hold(self, reason: str = "") -> State:
        """Keep the run from starting until it is released; one that executes goes on."""
        return await self._access.act(RunAction.HOLD, self.id, reason)

    async def release(self, reason: str = "") -> State:
        return await self._access.act(RunAction.RELEASE, self.id, reason)

    async def info(self) -> RunInfo:
        return await self._access.info(self.id)

    async def state(self) -> State:
        return (await self.info()).state

    async def history(self) -> list[HistoryEntry]:
        """Every transition, in order."""
        return await self._access.history(self.id)

    async def logs(self) -> list[LogLine]:
        return await self._access.logs(self.id)

    async def stats(self) -> RunStats:
        """The figures of the run: time in each state, attempts, heartbeats, latency."""
        return await self._access.stats(self.id)


def limit_of(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout")

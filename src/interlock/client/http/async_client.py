"""`AsyncClient`: submit runs and follow them over HTTP, on an event loop."""

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from interlock.client.access import Ending, RunAccess
from interlock.client.handle import RunHandle
from interlock.client.http.address import read_token
from interlock.client.http.asynchronous import AsyncTransport
from interlock.client.http.exchange import read_policy
from interlock.client.http.following import EventFilter, Following
from interlock.client.http.operations import Operations, RunFilter, RunOptions
from interlock.model.duration import Duration
from interlock.model.message import NewRun
from interlock.model.run import RunStats
from interlock.model.state import State
from interlock.model.view import Event, HistoryEntry, LogLine, RunDetail, RunInfo


class _HttpAccess(RunAccess):
    def __init__(self, operations: Operations, transport: AsyncTransport) -> None:
        self._operations = operations
        self._transport = transport

    async def wait(self, run_id: str, limit: float | None) -> Ending:
        return await self._transport.perform(self._operations.wait(run_id, limit))

    async def cancel(self, run_id: str, reason: str) -> State:
        return await self._transport.perform(self._operations.cancel(run_id, reason))

    async def info(self, run_id: str) -> RunDetail:
        return await self._transport.perform(self._operations.get(run_id))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return await self._transport.perform(self._operations.history(run_id))

    async def logs(self, run_id: str) -> list[LogLine]:
        return await self._transport.perform(self._operations.logs(run_id))

    async def stats(self, run_id: str) -> RunStats:
        return (await self.info(run_id)).stats


class AsyncClient:
    """The same as `Client`, to be awaited. It belongs to the event loop it is first used on."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: Duration = "30s",
        retries: int = 5,
        connections: int = 8,
    ) -> None:
        self._policy = read_policy(url, timeout, retries, connections)
        self._operations = Operations(self._policy)
        self._transport = AsyncTransport(self._policy, read_token(token, self._policy.address))
        self._access = _HttpAccess(self._operations, self._transport)

    def __repr__(self) -> str:
        return f"AsyncClient({self._policy.address.shown!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. What still waits in another task ends with an error."""
        await self._transport.close()

    async def submit(
        self, job: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunHandle:
        """Submit one run; it is durable when this returns. The options are those of `App.submit`."""
        return self.handle(await self._transport.perform(self._operations.submit(job, payload, options)))

    async def submit_many(self, runs: Iterable[NewRun | tuple[str, Mapping[str, Any] | None]]) -> list[RunHandle]:
        """Submit up to 1,000 runs, all or none: pairs of job and payload, or what `interlock.run(...)` makes."""
        return [self.handle(run_id) for run_id in await self._transport.perform(self._operations.submit_many(runs))]

    def handle(self, run_id: str) -> RunHandle:
        """A handle on a run whose id is known."""
        return RunHandle(run_id, self._access)

    async def get(self, run_id: str) -> RunDetail:
        return await self._access.info(run_id)

    async def result(self, run_id: str, timeout: Duration | None = None) -> Any:
        """Wait for the end of a run, and return what its handler returned. As with `RunHandle.result`."""
        return await self.handle(run_id).result(timeout)

    async def cancel(self, run_id: str, reason: str = "cancelled") -> State:
        return await self._access.cancel(run_id, reason)

    def runs(self, **asked: Unpack[RunFilter]) -> AsyncIterator[RunInfo]:
        """Runs, the newest first; all that there are, or `limit` of them."""
        return self._transport.iterate(self._operations.runs(asked))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        """Every transition of a run, in order."""
        return await self._access.history(run_id)

    async def logs(self, run_id: str) -> list[LogLine]:
        return await self._access.logs(run_id)

    def events(self, **asked: Unpack[EventFilter]) -> AsyncIterator[tuple[int | None, Event]]:
        """What happens, as it happens, each with its position, until the caller leaves. It survives the server.

        With `after`, what was stored after that position is told first. Where more happens than can be told there is a
        `GapEvent`; with `complete` what it left out is read again instead.
        """
        return self._transport.iterate(Following(self._policy, asked).events())

    async def ready(self) -> dict[str, Any]:
        """Whether the server works and gets on, and what it found when it checked."""
        return await self._transport.perform(self._operations.ready())

    async def metrics(self) -> str:
        """The figures of the server, as Prometheus reads them."""
        return await self._transport.perform(self._operations.metrics())

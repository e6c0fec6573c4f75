"""The way from an app to the scheduler: submits, questions and changes over one link for each event loop."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from interlock.client.connection import Connection
from interlock.client.declared import Awaits
from interlock.client.handle import RunHandle
from interlock.client.map_items import map_items, run_maker
from interlock.client.scheduler_operations import SchedulerOperations
from interlock.client.submission import Call, NewRuns, call_of, submit
from interlock.error import BadValue, InterlockError, NotConnected
from interlock.job_function import JobCalls
from interlock.wire.new_run import RunOptions
from interlock.wire.operation import Declared
from interlock.wire.request import MOST_RUNS, DropJob, Request
from interlock.worker.definition import Definition

if TYPE_CHECKING:
    from interlock.client.http.event_stream import EventOptions
    from interlock.interface.job_document import JobFields
    from interlock.interface.run_view import Event
    from interlock.model.job_info import JobInfo

A = TypeVar("A")
T = TypeVar("T")


class AppLink(Awaits, SchedulerOperations):
    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self._connection: Connection | None = None
        self._path: str | None = None  # socket of this connection
        self.connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()
        """links made on first use, one for each event loop"""

    @overload
    async def submit(self, job: Call[T]) -> RunHandle[T]: ...
    @overload
    async def submit(
        self, job: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunHandle[Any]: ...
    async def submit(
        self, job: str | Call[Any], payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunHandle[Any]:
        """Submit one run, by the name of its job or made by `call`; it is durable when this returns.

        `at` or `delay` postpone it. `occurrence` makes it the job's run for that instant, which exists once, however
        often you submit it. With an `idempotency_key`, or `key` for short, a repeated submit returns the first run.
        """
        connection = await self._connected()
        return (await submit(connection, [call_of(job, payload, options, connection.now())]))[0]

    @overload
    async def submit_many(self, runs: Iterable[Call[T]]) -> list[RunHandle[T]]: ...
    @overload
    async def submit_many(self, runs: NewRuns) -> list[RunHandle[Any]]: ...
    async def submit_many(self, runs: NewRuns) -> list[RunHandle[Any]]:
        """Submit runs together, all or none: pairs of job and payload, `interlock.run(...)` or `call(...)` values."""
        return await submit(await self._connected(), runs)

    @overload
    def map(
        self, job: JobCalls[..., T], items: Iterable[Any], *, max_parallel: int = ...,
        return_exceptions: Literal[False] = False,
    ) -> AsyncIterator[T]: ...  # fmt: skip
    @overload
    def map(
        self, job: JobCalls[..., T], items: Iterable[Any], *, max_parallel: int = ..., return_exceptions: Literal[True]
    ) -> AsyncIterator[T | InterlockError]: ...
    @overload
    def map(
        self, job: str, items: Iterable[Any], *, max_parallel: int = ..., return_exceptions: bool = ...
    ) -> AsyncIterator[Any]: ...
    def map(
        self,
        job: str | JobCalls[..., Any],
        items: Iterable[Any],
        *,
        max_parallel: int = 100,
        return_exceptions: bool = False,
    ) -> AsyncIterator[Any]:
        """Run a job for each item, at most `max_parallel` at once, and yield the results in the order of the items.

        An item is a mapping of arguments, a `call(...)`, or else the only argument. After the first failure no more
        runs are submitted, and its item raises `ItemFailed`; with `return_exceptions`, errors are yielded like results.
        With `job.options(key=...)`, a repeated map finds the runs of the first.
        """
        if not isinstance(max_parallel, int) or isinstance(max_parallel, bool) or not 1 <= max_parallel <= MOST_RUNS:
            raise BadValue("max_parallel", max_parallel, f"a whole number from 1 to {MOST_RUNS:,}")
        if not isinstance(job, (str, JobCalls)):
            raise BadValue("job", job, "a job, the options(...) of a job, or the id of one")
        if isinstance(job, str) and job in self.definitions:
            job = JobCalls(self.definitions[job], self._connected, {})
        make = run_maker(job) if isinstance(job, str) else job.item_maker()
        return map_items(self._connected, make, items, max_parallel, return_exceptions)

    async def handle(self, run_id: str) -> RunHandle[Any]:
        """Return a handle on the run with this id."""
        return RunHandle(run_id, await self._connected())

    def events(self, **asked: "Unpack[EventOptions]") -> AsyncIterator[tuple[str | None, "Event"]]:
        """Yield events as they happen, as `AsyncClient.events` does; with `run`, those of a run, which end with it.

        They come over HTTP, from the socket beside that of the scheduler: `app.running(http="local")` opens it.
        """
        from interlock.client.http.local_events import local_events

        return local_events(self._socket, asked)

    async def put_job(
        self, job_id: str, definition: Mapping[str, Any] | None = None, **fields: "Unpack[JobFields]"
    ) -> "JobInfo":
        """Define a job while the scheduler runs, or replace one that was put before, as `AsyncClient.put_job` does:
        `run` may be a job of the app, or its id."""
        from interlock.config.job_documents import put_request

        return (await self._ask(put_request(job_id, definition, fields))).jobs[0]

    async def delete_job(self, job_id: str) -> None:
        """Delete a job that was put. Its runs are kept."""
        await self._ask(DropJob(0, job_id))

    async def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        loop = asyncio.get_running_loop()
        connection = self.connections.get(loop)
        if connection is None:
            # In a worker, or in a program that has the variable: connect on first use.
            from interlock.wiring.connection import connect

            connection = self.connections[loop] = await connect(self._socket)
        return connection

    async def _send(self, request: Declared[A]) -> A:
        return await (await self._connected())._send(request)

    async def _ask(self, request: Request[A]) -> A:
        return await (await self._connected()).ask(request)

    @property
    def _socket(self) -> str:
        path = self._path or os.environ.get("INTERLOCK_SOCKET")
        if path is None:
            raise NotConnected
        return path

    @asynccontextmanager
    async def connected(self, socket: str | None = None) -> AsyncIterator[Self]:
        """Connect to the scheduler of `interlock up`; by default the one that INTERLOCK_SOCKET names."""
        from interlock.wiring.connection import connect

        before = self._connection, self._path
        path = socket if socket is not None else os.environ.get("INTERLOCK_SOCKET", "interlock.db.sock")
        connection = await connect(path)
        self._connection, self._path = connection, path
        try:
            yield self
        finally:
            self._connection, self._path = before
            await connection.close()

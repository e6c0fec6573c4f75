"""`AsyncClient`: submit runs and follow them over HTTP, on an event loop."""

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from interlock.client.access import Ending, RunAccess
from interlock.client.handle import RunHandle
from interlock.client.http.address import read_token
from interlock.client.http.asynchronous import AsyncTransport
from interlock.client.http.event_stream import EventFilter, EventStream
from interlock.client.http.exchange import read_policy
from interlock.client.http.job_operations import Instant
from interlock.client.http.operations import BulkFilter, Operations, RunFilter
from interlock.client.submission import RunOptions, TriggerOptions
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.duration import Duration
from interlock.model.job_info import Backfilled, JobInfo, LoggedRun, Timetable
from interlock.model.reload_report import Reloaded
from interlock.model.request import NewRun
from interlock.model.run import RunStats
from interlock.model.run_action import RunAction
from interlock.model.run_view import BulkInfo, Event, HistoryEntry, LogLine, RunDetail, RunInfo, ServiceLine
from interlock.model.schedule import Schedule
from interlock.model.state import State


class _HttpAccess(RunAccess):
    def __init__(self, operations: Operations, transport: AsyncTransport) -> None:
        self._operations = operations
        self._transport = transport

    async def wait(self, run_id: str, limit: float | None) -> Ending:
        return await self._transport.perform(self._operations.wait(run_id, limit))

    async def act(self, action: RunAction, run_id: str, reason: str) -> State:
        return await self._transport.perform(self._operations.act_on_run(action, run_id, reason))

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

    async def act_on_run(self, action: RunAction | str, run_id: str, reason: str = "") -> State:
        """Do this to a run that has not ended; returns the state it then has."""
        return await self._transport.perform(self._operations.act_on_run(RunAction(action), run_id, reason))

    async def act_on_many(
        self, action: RunAction | str, reason: str = "", *, everything: bool = False, **asked: Unpack[BulkFilter]
    ) -> BulkInfo:
        """Do this to the runs that have not ended and match the filter; with `everything`, to all of them. The request
        is durable when this returns. The server carries it out, and `bulk_progress` follows it."""
        return await self._transport.perform(self._operations.act_on_many(RunAction(action), reason, everything, asked))

    async def cancel(self, run_id: str, reason: str = "") -> State:
        return await self.act_on_run(RunAction.CANCEL, run_id, reason)

    async def cancel_many(self, reason: str = "", *, everything: bool = False, **asked: Unpack[BulkFilter]) -> BulkInfo:
        return await self.act_on_many(RunAction.CANCEL, reason, everything=everything, **asked)

    async def hold(self, run_id: str, reason: str = "") -> State:
        """Keep a run that waits from starting until it is released."""
        return await self.act_on_run(RunAction.HOLD, run_id, reason)

    async def release(self, run_id: str, reason: str = "") -> State:
        return await self.act_on_run(RunAction.RELEASE, run_id, reason)

    async def bulk(self, bulk_id: str) -> BulkInfo:
        """Return the progress of a bulk request."""
        return await self._transport.perform(self._operations.bulk(bulk_id))

    def bulk_progress(self, bulk_id: str) -> AsyncIterator[BulkInfo]:
        """Yield its progress until it has finished; a restart of the server does not end this."""
        return self._transport.iterate(self._operations.bulk_progress(bulk_id))

    def runs(self, **asked: Unpack[RunFilter]) -> AsyncIterator[RunInfo]:
        """Runs, the newest first; all that there are, or `limit` of them."""
        return self._transport.iterate(self._operations.runs(asked))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        """Every transition of a run, in order."""
        return await self._access.history(run_id)

    async def logs(self, run_id: str) -> list[LogLine]:
        return await self._access.logs(run_id)

    def events(self, **asked: Unpack[EventFilter]) -> AsyncIterator[tuple[str | None, Event]]:
        """What happens, as it happens, each with its id, until the caller leaves. It survives the server.

        With `after`, the id of an event or `start`, everything stored after it comes first. When the server leaves
        events out it yields a `GapEvent`; with `complete` those events are read again instead.
        """
        return self._transport.iterate(EventStream(self._policy, asked).events())

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def jobs(self) -> AsyncIterator[JobInfo]:
        """Every job, in the order of their declaration."""
        return self._transport.iterate(self._operations.jobs())

    async def job(self, job_id: str) -> JobInfo:
        return await self._transport.perform(self._operations.job(job_id))

    async def job_log(self, job_id: str, limit: int = 20) -> list[LoggedRun]:
        """The runs of a job that have begun or ended, the newest first, each with the first 16 KiB of its output."""
        return await self._transport.perform(self._operations.job_log(job_id, limit))

    async def next_times(self, job_id: str, count: int = 5, after: Instant | None = None) -> list[float]:
        """When a job fires next, in seconds since 1970; or those times that are later than `after`."""
        return await self._transport.perform(self._operations.next_times(job_id, count, after))

    async def schedule_times(self, schedule: Schedule, count: int = 5, after: Instant | None = None) -> list[float]:
        """When a schedule that no job has would fire, were it made known now, or at `after`."""
        return await self._transport.perform(self._operations.schedule_times(schedule, count, after))

    async def timetable(self, span: Duration = "24h", limit: int = 100) -> Timetable:
        """What fires within so long from now, of `limit` jobs at the most."""
        return await self._transport.perform(self._operations.timetable(span, limit))

    async def trigger(
        self, job_id: str, payload: Mapping[str, Any] | None = None, **options: Unpack[TriggerOptions]
    ) -> RunHandle:
        """Run a job now, beside its schedule, with its own payload if none is given; durable when this returns."""
        return self.handle(await self._transport.perform(self._operations.trigger(job_id, payload, options)))

    async def pause(self, job_id: str) -> JobInfo:
        """Have a job not fire any more, until it is resumed; what runs goes on."""
        return await self._transport.perform(self._operations.pause(job_id, True))

    async def resume(self, job_id: str) -> JobInfo:
        """Have a paused job fire again, from its next time on; nothing is caught up."""
        return await self._transport.perform(self._operations.pause(job_id, False))

    async def backfill(
        self,
        job_id: str,
        start: Instant,
        end: Instant,
        *,
        max_parallel: int = 1,
        payload: Mapping[str, Any] | None = None,
        tenant: str | None = None,
    ) -> Backfilled:
        """Create the runs that a job's schedule has from `start` up to before `end`, so many of them live at once. What
        has a run already is left as it is."""
        asked = self._operations.backfill(job_id, start, end, max_parallel, payload, tenant)
        return await self._transport.perform(asked)

    async def put_job(self, job_id: str, definition: Mapping[str, Any]) -> JobInfo:
        """Define a job, or change one that was put before, by the fields of a document `kind: Job`. `BadConfig`, with a
        line for each fault, if that cannot be."""
        return await self._transport.perform(self._operations.put_job(job_id, definition))

    async def put_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[str]:
        """The same for up to 10,000 jobs, each with its `id`: all or none."""
        return await self._transport.perform(self._operations.put_jobs(definitions))

    async def delete_job(self, job_id: str) -> JobInfo:
        """Remove a job that was put; returns what it was. Its runs are kept."""
        return await self._transport.perform(self._operations.delete_job(job_id))

    # ── services ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def tree(self) -> ChildInfo:
        """Everything that is kept up, from the top."""
        return await self._transport.perform(self._operations.tree())

    async def services(self) -> list[ChildInfo]:
        """Services and groups of them, in the order in which they start, each without its `children`."""
        return await self._transport.perform(self._operations.services())

    async def service(self, name: str) -> ChildInfo:
        return await self._transport.perform(self._operations.service(name))

    async def act(self, name: str, action: ServiceAction | str) -> ChildInfo:
        """Start, stop, restart, suspend or resume a service or a group; returns how it stands when that is done.

        It is not tried again when the connection breaks: then nobody knows whether it has happened.
        """
        return await self._transport.perform(self._operations.act(name, action))

    def service_logs(self, name: str, follow: bool = False, last: int | None = 100) -> AsyncIterator[ServiceLine]:
        """What a service printed and what happened to it: the `last` lines, or with None all that are kept. With
        `follow` it goes on with those that come, until the caller leaves; it survives the server."""
        return self._transport.iterate(self._operations.service_logs(name, follow, last))

    async def reload(self) -> Reloaded:
        """Have the server read its files again; `BadConfig`, with a line for each fault, if that cannot be."""
        return await self._transport.perform(self._operations.reload())

    # ── the server ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def ready(self) -> dict[str, Any]:
        """Whether the server works and gets on, and what it found when it checked."""
        return await self._transport.perform(self._operations.ready())

    async def metrics(self) -> str:
        """The figures of the server, as Prometheus reads them."""
        return await self._transport.perform(self._operations.metrics())

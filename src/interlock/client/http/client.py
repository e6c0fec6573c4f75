"""`Client`: submit runs and follow them over HTTP, blocking. Threads may share one."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from interlock.client.handle import limit_of
from interlock.client.http.address import read_token
from interlock.client.http.blocking import BlockingTransport
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


class Client:
    """A server over HTTP: `url` is http://host:port or unix:/path; without one what INTERLOCK_URL names, else the
    local socket. Without a `token`, the one in INTERLOCK_TOKEN.

    `timeout` bounds connecting and each silence of the server, not the time a run takes. What fails because the server
    is away is tried again, `retries` times; that is safe for a submit too, because each has an idempotency key.
    """

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
        self._transport = BlockingTransport(self._policy, read_token(token, self._policy.address))

    def __repr__(self) -> str:
        return f"Client({self._policy.address.shown!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. What still waits in another thread ends with an error."""
        self._transport.close()

    def submit(
        self, job: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> "BlockingRunHandle":
        """Submit one run; it is durable when this returns. The options are those of `App.submit`."""
        return self.handle(self._transport.perform(self._operations.submit(job, payload, options)))

    def submit_many(self, runs: Iterable[NewRun | tuple[str, Mapping[str, Any] | None]]) -> "list[BlockingRunHandle]":
        """Submit up to 1,000 runs, all or none: pairs of job and payload, or what `interlock.run(...)` makes."""
        return [self.handle(run_id) for run_id in self._transport.perform(self._operations.submit_many(runs))]

    def handle(self, run_id: str) -> "BlockingRunHandle":
        """A handle on a run whose id is known."""
        return BlockingRunHandle(run_id, self._operations, self._transport)

    def get(self, run_id: str) -> RunDetail:
        return self._transport.perform(self._operations.get(run_id))

    def result(self, run_id: str, timeout: Duration | None = None) -> Any:
        """Wait for the end of a run, and return what its handler returned. As with `BlockingRunHandle.result`."""
        return self.handle(run_id).result(timeout)

    def act_on_run(self, action: RunAction | str, run_id: str, reason: str = "") -> State:
        """Do this to a run that has not ended; returns the state it then has."""
        return self._transport.perform(self._operations.act_on_run(RunAction(action), run_id, reason))

    def act_on_many(
        self, action: RunAction | str, reason: str = "", *, everything: bool = False, **asked: Unpack[BulkFilter]
    ) -> BulkInfo:
        """Do this to the runs that have not ended and match the filter; with `everything`, to all of them. The request
        is durable when this returns. The server carries it out, and `bulk_progress` follows it."""
        return self._transport.perform(self._operations.act_on_many(RunAction(action), reason, everything, asked))

    def cancel(self, run_id: str, reason: str = "") -> State:
        return self.act_on_run(RunAction.CANCEL, run_id, reason)

    def cancel_many(self, reason: str = "", *, everything: bool = False, **asked: Unpack[BulkFilter]) -> BulkInfo:
        return self.act_on_many(RunAction.CANCEL, reason, everything=everything, **asked)

    def hold(self, run_id: str, reason: str = "") -> State:
        """Keep a run that waits from starting until it is released."""
        return self.act_on_run(RunAction.HOLD, run_id, reason)

    def release(self, run_id: str, reason: str = "") -> State:
        return self.act_on_run(RunAction.RELEASE, run_id, reason)

    def bulk(self, bulk_id: str) -> BulkInfo:
        """Return the progress of a bulk request."""
        return self._transport.perform(self._operations.bulk(bulk_id))

    def bulk_progress(self, bulk_id: str) -> Iterator[BulkInfo]:
        """Yield its progress until it has finished; a restart of the server does not end this."""
        return self._transport.iterate(self._operations.bulk_progress(bulk_id))

    def runs(self, **asked: Unpack[RunFilter]) -> Iterator[RunInfo]:
        """Runs, the newest first; all that there are, or `limit` of them."""
        return self._transport.iterate(self._operations.runs(asked))

    def history(self, run_id: str) -> list[HistoryEntry]:
        """Every transition of a run, in order."""
        return self._transport.perform(self._operations.history(run_id))

    def logs(self, run_id: str) -> list[LogLine]:
        return self._transport.perform(self._operations.logs(run_id))

    def events(self, **asked: Unpack[EventFilter]) -> Iterator[tuple[str | None, Event]]:
        """What happens, as it happens, each with its id, until the caller leaves. It survives the server.

        With `after`, the id of an event or `start`, everything stored after it comes first. When the server leaves
        events out it yields a `GapEvent`; with `complete` those events are read again instead.
        """
        return self._transport.iterate(EventStream(self._policy, asked).events())

    # ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def jobs(self) -> Iterator[JobInfo]:
        """Every job, in the order of their declaration."""
        return self._transport.iterate(self._operations.jobs())

    def job(self, job_id: str) -> JobInfo:
        return self._transport.perform(self._operations.job(job_id))

    def job_log(self, job_id: str, limit: int = 20) -> list[LoggedRun]:
        """The runs of a job that have begun or ended, the newest first, each with the first 16 KiB of its output."""
        return self._transport.perform(self._operations.job_log(job_id, limit))

    def next_times(self, job_id: str, count: int = 5, after: Instant | None = None) -> list[float]:
        """When a job fires next, in seconds since 1970; or those times that are later than `after`."""
        return self._transport.perform(self._operations.next_times(job_id, count, after))

    def schedule_times(self, schedule: Schedule, count: int = 5, after: Instant | None = None) -> list[float]:
        """When a schedule that no job has would fire, were it made known now, or at `after`."""
        return self._transport.perform(self._operations.schedule_times(schedule, count, after))

    def timetable(self, span: Duration = "24h", limit: int = 100) -> Timetable:
        """What fires within so long from now, of `limit` jobs at the most."""
        return self._transport.perform(self._operations.timetable(span, limit))

    def trigger(
        self, job_id: str, payload: Mapping[str, Any] | None = None, **options: Unpack[TriggerOptions]
    ) -> "BlockingRunHandle":
        """Run a job now, beside its schedule, with its own payload if none is given; durable when this returns."""
        return self.handle(self._transport.perform(self._operations.trigger(job_id, payload, options)))

    def pause(self, job_id: str) -> JobInfo:
        """Have a job not fire any more, until it is resumed; what runs goes on."""
        return self._transport.perform(self._operations.pause(job_id, True))

    def resume(self, job_id: str) -> JobInfo:
        """Have a paused job fire again, from its next time on; nothing is caught up."""
        return self._transport.perform(self._operations.pause(job_id, False))

    def backfill(
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
        return self._transport.perform(asked)

    def put_job(self, job_id: str, definition: Mapping[str, Any]) -> JobInfo:
        """Define a job, or change one that was put before, by the fields of a document `kind: Job`. `BadConfig`, with a
        line for each fault, if that cannot be."""
        return self._transport.perform(self._operations.put_job(job_id, definition))

    def put_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[str]:
        """The same for up to 10,000 jobs, each with its `id`: all or none."""
        return self._transport.perform(self._operations.put_jobs(definitions))

    def delete_job(self, job_id: str) -> JobInfo:
        """Remove a job that was put; returns what it was. Its runs are kept."""
        return self._transport.perform(self._operations.delete_job(job_id))

    # ── services ────────────────────────────────────────────────────────────────────────────────────────────────────

    def tree(self) -> ChildInfo:
        """Everything that is kept up, from the top."""
        return self._transport.perform(self._operations.tree())

    def services(self) -> list[ChildInfo]:
        """Services and groups of them, in the order in which they start, each without its `children`."""
        return self._transport.perform(self._operations.services())

    def service(self, name: str) -> ChildInfo:
        return self._transport.perform(self._operations.service(name))

    def act(self, name: str, action: ServiceAction | str) -> ChildInfo:
        """Start, stop, restart, suspend or resume a service or a group; returns how it stands when that is done.

        It is not tried again when the connection breaks: then nobody knows whether it has happened.
        """
        return self._transport.perform(self._operations.act(name, action))

    def service_logs(self, name: str, follow: bool = False, last: int | None = 100) -> Iterator[ServiceLine]:
        """What a service printed and what happened to it: the `last` lines, or with None all that are kept. With
        `follow` it goes on with those that come, until the caller leaves; it survives the server."""
        return self._transport.iterate(self._operations.service_logs(name, follow, last))

    def reload(self) -> Reloaded:
        """Have the server read its files again; `BadConfig`, with a line for each fault, if that cannot be."""
        return self._transport.perform(self._operations.reload())

    # ── the server ──────────────────────────────────────────────────────────────────────────────────────────────────

    def ready(self) -> dict[str, Any]:
        """Whether the server works and gets on, and what it found when it checked."""
        return self._transport.perform(self._operations.ready())

    def metrics(self) -> str:
        """The figures of the server, as Prometheus reads them."""
        return self._transport.perform(self._operations.metrics())


class BlockingRunHandle:
    """`RunHandle` for code that blocks: the same methods, without `await`."""

    __slots__ = ("_operations", "_transport", "id")

    def __init__(self, run_id: str, operations: Operations, transport: BlockingTransport) -> None:
        self.id = run_id
        self._operations = operations
        self._transport = transport

    def __repr__(self) -> str:
        return f"BlockingRunHandle({self.id!r})"

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the end and return what the handler returned.

        Raises `RunEnded` if the run did not succeed, `WaitTimeout` if it has not ended in time; the run goes on then.
        """
        return self._transport.perform(self._operations.wait(self.id, limit_of(timeout))).unpack()

    def wait(self, timeout: Duration | None = None) -> State:
        """Wait for the end, whichever it is."""
        return self._transport.perform(self._operations.wait(self.id, limit_of(timeout))).state

    def cancel(self, reason: str = "") -> State:
        """Ask for the run to be stopped; returns the state it then has. What executes ends later: `wait` for it."""
        return self._transport.perform(self._operations.act_on_run(RunAction.CANCEL, self.id, reason))

    def hold(self, reason: str = "") -> State:
        """Keep it from starting until it is released; one that executes goes on."""
        return self._transport.perform(self._operations.act_on_run(RunAction.HOLD, self.id, reason))

    def release(self, reason: str = "") -> State:
        return self._transport.perform(self._operations.act_on_run(RunAction.RELEASE, self.id, reason))

    def info(self) -> RunInfo:
        return self._transport.perform(self._operations.get(self.id))

    def state(self) -> State:
        return self.info().state

    def history(self) -> list[HistoryEntry]:
        """Every transition, in order."""
        return self._transport.perform(self._operations.history(self.id))

    def logs(self) -> list[LogLine]:
        return self._transport.perform(self._operations.logs(self.id))

    def stats(self) -> RunStats:
        """The figures of the run: time in each state, attempts, heartbeats, latency."""
        return self._transport.perform(self._operations.get(self.id)).stats

"""A whole scheduler in the memory of a test, on virtual time."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol, Self, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from interlock.client.connection import Connection
from interlock.client.handle import RunAccess, RunHandle
from interlock.client.http.client import BlockingRunHandle
from interlock.client.http.event_stream import EventOptions
from interlock.client.stream import chunks_of
from interlock.client.submission import Call, call_of, result_type_of, submit
from interlock.config.declarations import Declared
from interlock.config.documents import Faults, from_values, read
from interlock.config.settings import LANES
from interlock.config.sources import Loaded, build, declared_by
from interlock.core.state import DEFAULT_LANES
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.fields import payload as payloads
from interlock.fields.duration import Duration, seconds
from interlock.fields.field_types import FieldPath
from interlock.interface.run_view import Chunk, ChunkEvent, Event, RunInfo, info_of
from interlock.model.delivery import Delivery, DeliveryInfo
from interlock.model.delivery import info_of as delivery_info
from interlock.model.lane import with_limits
from interlock.model.pool import DEFAULT_POOL
from interlock.model.session import SessionFields, SessionPatterns
from interlock.model.state import State
from interlock.model.tenant import TenantFields
from interlock.policy.scan.scanners import OwnScanner
from interlock.ports.clock import Clock
from interlock.simulation.virtual_cluster import VirtualCluster, quiet
from interlock.stores.memory import MemoryStore
from interlock.testing.executor import LocalExecutor, ProgramStandIn, captured
from interlock.testing.finished_run import FinishedRun
from interlock.testing.patient_loop import PatientLoop
from interlock.wire import request as r
from interlock.wire.approval_request import ApproveRun, RejectRun
from interlock.wire.event_request import SendEvent
from interlock.wire.new_run import RunOptions
from interlock.wire.parameter import Instant, instant
from interlock.worker.attempt_end import Estimator
from interlock.worker.definition import Definition

T = TypeVar("T")
FilePath = str | os.PathLike[str]

LONGEST = 366 * 86400.0  # seconds of virtual time to wait for a run that does not end
MOST_CANCELS = 10  # cancels of a task that was left behind
START = "2030-01-01T00:00:00Z"
EDGE = 0.0001  # seconds by which time goes beyond an instant, because times are rounded


class AppUnderTest(Protocol):
    """The part of an app that a test needs."""

    definitions: dict[str, Definition]
    estimator: Estimator | None
    scanners: dict[str, OwnScanner]
    services: list[Declared]
    connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection]


class _Middle(Random):
    """Chance without jitter: retries come after their plain delays."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class _VirtualConnection(Connection):
    clock: Clock

    def now(self) -> float:
        return self.clock.now().wall

    def stream(self, run_id: str, after: str | None = None) -> AsyncIterator[Chunk]:
        """Yield the chunks of a run once it has ended, each with its number as id."""

        async def events(asked: EventOptions) -> AsyncIterator[tuple[str | None, Event]]:
            await self.ending(run_id, LONGEST)
            rows = await self.ask(r.AskLogs(0, run_id, chunks=True))
            first = int((asked.get("after") or "e0")[1:])
            for number, row in list(enumerate(rows, start=1))[first:]:
                chunks = msgspec.json.decode(row[3])
                yield (
                    f"e{number}",
                    ChunkEvent(run_id=run_id, job_id="", tenant="", at=row[0], attempt=row[1], chunks=chunks),
                )

        return chunks_of(events, run_id, after)


class VirtualScheduler:
    """A scheduler and a worker in this process, with the jobs of an app, until the `with` block ends. Time passes only
    when you call `advance` or wait for a run. Use it in plain and in async tests: its methods block, for milliseconds.

    Functions find `state` as `ctx.state`, in place of the value of a lifespan. Without `schedules`, no schedule fires.
    `hook` gets the URL and the event of each request of a hook, and returns its status; without it every status is 200.
    `lanes` has limits by lane, and `sessions` options by pattern of keys, as the settings of `App.running`.

    `files` are those of `interlock up`, and folders with them: jobs, lanes, pools, tenants, a policy. Services are not
    started. `program` gets the command and the payload of each program that a job runs, and returns its exit code;
    without it every exit code is 0. `policy` is a document as a mapping, or the path of its file. `tenants` has limits
    by tenant.
    """

    def __init__(
        self,
        app: AppUnderTest,
        start: Instant = START,
        *,
        schedules: bool = True,
        slots: int = 64,
        state: Any = None,
        lanes: Mapping[str, int] = {},
        sessions: Mapping[str, SessionFields] = {},
        hook: Callable[[str, Mapping[str, Any]], int] | None = None,
        files: Sequence[FilePath] = (),
        policy: Mapping[str, Any] | FilePath | None = None,
        tenants: Mapping[str, TenantFields] = {},
        program: ProgramStandIn = lambda command, payload: 0,
    ) -> None:
        self._app = app
        self._hook = hook
        self._program = program
        self._state = state
        self._start = instant(start, "start")
        self._loop = PatientLoop()
        self._store = MemoryStore()
        self._elapsed = 0.0
        try:
            limits = LANES.check(dict(lanes), FieldPath("lanes"))
            patterns = SessionPatterns().check(dict(sessions), FieldPath("sessions"))
            self._run(self._begin(_loaded(app, files, policy, tenants), schedules, slots, limits, patterns))
        except BaseException:
            self._loop.close()
            raise
        self._access = _access_of(self)

    async def _begin(
        self,
        loaded: Loaded,
        schedules: bool,
        slots: int,
        limits: dict[str, int],
        patterns: dict[str, dict[str, Any]],
    ) -> None:
        definitions = self._app.definitions
        entries = [
            CatalogEntry(definition.job, definition.check, definition.mark if definition.job.secrets else None)
            for definition in definitions.values()
        ]
        entries += loaded.entries()
        if not schedules:
            entries = [replace(entry, job=entry.job.unscheduled) for entry in entries]
        named = {entry.job.lane: 30 for entry in entries if entry.job.lane is not None}
        lanes = with_limits(limits, with_limits(named | DEFAULT_LANES) | dict(loaded.lanes))
        catalog = Catalog(entries, lanes, loaded.policy, loaded.pools, loaded.tenants)
        self._cluster = VirtualCluster(
            self._store, catalog, self._start, _Middle(0), prerun=0.0, session_patterns=patterns
        )
        if (hook := self._hook) is not None:
            self._cluster.answer = lambda call: hook(call.outgoing.host_url, msgspec.json.decode(call.outgoing.body))
        clock = self._cluster.clock
        for pool in dict.fromkeys([DEFAULT_POOL, *loaded.pools]):
            needed = list(loaded.pools[pool].requires) if pool in loaded.pools else []
            executor = LocalExecutor(definitions, self._loop, clock, self._state, self._app.estimator, self._program)
            self._cluster.add_worker(executor, definitions, slots, pool=pool, capabilities=needed)
        await self._cluster.start()
        self.connection = self._app.connections[self._loop] = _VirtualConnection(self._cluster.bus)
        self.connection.clock = clock
        await self.connection.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the scheduler; runs that have not ended are cut off."""
        try:
            self._run(self._cluster.stop())
        finally:
            self._run(_end_tasks())
            del self._app.connections[self._loop]
            self._loop.close()

    def drive(self, action: Awaitable[T]) -> T:
        """Await an action on the virtual loop, and everything due by then. Time jumps to whatever it waits for."""

        async def watched() -> T:
            task = asyncio.ensure_future(action)
            await asyncio.wait([task, self._cluster.scheduler], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._cluster.scheduler.result()
            while self._cluster.flush() or not self._loop.is_idle():  # noqa: ASYNC110 - no event marks that moment
                await asyncio.sleep(0)
            return task.result()

        found = self._run(watched())
        self._elapsed = max(self._elapsed, self._loop.time() - EDGE)
        return found

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with quiet(), captured():
            if asyncio._get_running_loop() is None:
                return self._loop.run_until_complete(coroutine)
            # An async test: two loops cannot run in one thread.
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(copy_context().run, self._loop.run_until_complete, coroutine).result()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(round(self._start + self._elapsed, 3), UTC)

    def advance(self, duration: Duration) -> None:
        """Let time pass. Everything due by then happens, including at that very instant."""
        until = self._elapsed + seconds(duration, "duration")
        self.drive(asyncio.sleep(until + EDGE - self._loop.time()))
        self._elapsed = until

    @overload
    def submit(self, job: Call[T], *, actor: str = "") -> BlockingRunHandle[T]: ...
    @overload
    def submit(
        self, job: str, payload: Mapping[str, Any] | None = None, *, actor: str = "", **options: Unpack[RunOptions]
    ) -> BlockingRunHandle[Any]: ...
    def submit(
        self,
        job: str | Call[Any],
        payload: Mapping[str, Any] | None = None,
        *,
        actor: str = "",
        **options: Unpack[RunOptions],
    ) -> BlockingRunHandle[Any]:
        """Submit a run as `App.submit` does, on behalf of `actor`, by default `local`. Waiting for its handle passes
        the time until the run has ended."""
        return self.submit_call(call_of(job, payload, options, self.connection.now()), actor)

    def submit_call(self, run: Call[Any] | r.NewRun, actor: str = "") -> BlockingRunHandle[Any]:
        handle = self.drive(submit(self.connection, [run], actor))[0]
        return BlockingRunHandle(RunHandle(handle.id, self._access, result_type_of(run)))

    def handle(self, run_id: str) -> BlockingRunHandle[Any]:
        return BlockingRunHandle(RunHandle(run_id, self._access))

    def approve(self, run_id: str, reason: str, *, actor: str) -> State:
        """Approve a run, so that it may start, and return its state. Raise `SelfApproval` if the actor is among those
        who submitted it."""
        return self.drive(self.connection.ask(ApproveRun(0, run_id, reason).by(actor=actor))).state

    def reject(self, run_id: str, reason: str, *, actor: str) -> State:
        """End a run that waits for an approval as denied; return its state."""
        return self.drive(self.connection.ask(RejectRun(0, run_id, reason).by(actor=actor))).state

    def send(self, run_id: str, name: str, value: Any = None, *, actor: str = "test") -> None:
        """Send an event to a workflow run; it is kept until the workflow reads it."""
        self.drive(self.connection.ask(SendEvent(0, name, payloads.encode(value, "value"), run_id, actor=actor)))

    def pause(self, job: str) -> None:
        """Pause the schedule of a job."""
        self.drive(self.connection.ask(r.SetPaused(0, job, True)))

    def resume(self, job: str) -> None:
        self.drive(self.connection.ask(r.SetPaused(0, job, False)))

    def runs(self, job: str | None = None) -> list[RunInfo]:
        """Return every run so far, or those of a job, in order of creation."""
        if job is not None:
            self.drive(self.connection.ask(r.AskJob(0, job)))
        return [info_of(run) for run in self._store.runs_by_id.values() if job in (None, run.job_id)]

    def deliveries(self) -> list[DeliveryInfo]:
        """Return every webhook that is owed, in order; nobody sends them."""
        return [delivery_info(delivery) for delivery in self._store.all_of(Delivery).values()]

    def fired(self, job: str) -> list[datetime]:
        """Return the times at which runs of a job started, in order."""
        started = sorted(run.started_at for run in self.runs(job) if run.started_at is not None)
        return [datetime.fromtimestamp(round(at, 2), UTC) for at in started]


def _loaded(
    app: AppUnderTest,
    files: Sequence[FilePath],
    policy: Mapping[str, Any] | FilePath | None,
    tenants: Mapping[str, TenantFields],
) -> Loaded:
    """Read everything declared, as a server does. The secrets of a server need not be set, because nothing is sent."""
    faults = Faults(with_env=False)
    paths = [os.fspath(path) for path in files]
    given: list[tuple[str, str, str, Mapping[str, Any]]]
    given = [("Tenant", name, f"tenants.{name}", values) for name, values in tenants.items()]
    if isinstance(policy, Mapping):
        given.append(("Policy", policy.get("id", "policy"), "policy", policy))
    elif policy is not None:
        paths.append(os.fspath(policy))
    documents = [
        from_values(kind, name, payloads.decode(payloads.encode(values, place)), faults, place)
        for kind, name, place, values in given
    ]
    return build([*read(paths, faults), *documents], faults, declared_by(app, "app"))


def _access_of(scheduler: VirtualScheduler) -> RunAccess:
    """Return an access to runs whose methods drive the loop themselves, so that blocking handles can use it."""
    connection = scheduler.connection

    def driven(name: str) -> Any:
        async def method(_: object, *arguments: Any) -> Any:
            if name == "ending" and arguments[1] is None:
                arguments = (arguments[0], LONGEST)
            return scheduler.drive(getattr(connection, name)(*arguments))

        return method

    def iterated(name: str) -> Any:
        async def method(_: object, *arguments: Any) -> AsyncGenerator[Any, None]:
            source = getattr(connection, name)(*arguments)
            try:
                while True:
                    yield scheduler.drive(source.__anext__())
            except StopAsyncIteration:
                return
            finally:
                scheduler.drive(source.aclose())

        return method

    methods = {name: driven(name) for name in RunAccess.__abstractmethods__}
    methods |= {name: iterated(name) for name in ("endings", "stream")}
    access: RunAccess = type("Access", (RunAccess,), methods)()
    return access


async def _end_tasks() -> None:
    """End the tasks that functions have left on the loop."""
    for _ in range(MOST_CANCELS):
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
    for task in asyncio.all_tasks():
        task._log_destroy_pending = False  # type: ignore[attr-defined] # it ignores every cancel, and its loop is gone


scheduler = VirtualScheduler


def run_at_once(
    app: AppUnderTest, job: str | Call[Any], payload: Mapping[str, Any] | None, state: Any, options: RunOptions
) -> FinishedRun[Any]:
    """Run a job to its end. Other jobs run if it submits them; schedules do not fire."""
    with VirtualScheduler(app, time.time(), schedules=False, state=state) as found:
        return FinishedRun(found.submit_call(call_of(job, payload, options, found.connection.now())))

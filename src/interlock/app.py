"""`App`: jobs and services defined in Python, and the way to the scheduler that runs them."""

import asyncio
import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload
from weakref import WeakKeyDictionary

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.client.map_items import map_items, run_maker
from interlock.client.submission import Call, NewRuns, call_of, submit
from interlock.error import (
    BadHandler,
    BadUse,
    BadValue,
    CannotImport,
    DuplicateJob,
    DuplicateService,
    InterlockError,
    NotConnected,
)
from interlock.fields.duration import Duration, seconds
from interlock.fields.field_types import FieldPath, Rate
from interlock.job_function import JobCalls, JobDecorator, JobFunction
from interlock.model.guard import NO_CONSTRAINTS, Actions, Constraints
from interlock.model.job import SENSITIVITY, Job, KeyLimitFields, Priority, Retry, key_limit
from interlock.model.labels import LABELS
from interlock.model.lane import LaneInfo
from interlock.model.policy.scanner import SCANNER_NAME
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SOME_OPTIONS, SessionAction, SessionFields
from interlock.model.session_info import ActedOnSession, SessionInfo
from interlock.wire.lane_request import ActOnSession, AskLanes, AskSession, AskSessions
from interlock.wire.new_run import RunOptions
from interlock.wire.request import MOST_RUNS, DropJob
from interlock.worker.code_digest import code_digest
from interlock.worker.definition import Definition, kind_of, set_default_payload
from interlock.worker.lifespan import Opening, read_lifespan
from interlock.worker.merge import check_merge
from interlock.worker.usage import Estimator, check_estimator

if TYPE_CHECKING:
    from interlock.client.http.event_stream import EventFilter
    from interlock.config.declarations import Declared
    from interlock.config.service_builder import GroupFields, ServiceFields
    from interlock.interface.job_document import JobFields
    from interlock.interface.run_view import Event
    from interlock.model.job_info import JobInfo
    from interlock.policy.scan.scanners import OwnScanner
    from interlock.testing.finished_run import FinishedRun

H = TypeVar("H", bound=Callable[..., Any])
L = TypeVar("L", bound=Callable[..., AsyncIterator[Any] | AbstractAsyncContextManager[Any]])
T = TypeVar("T")
S = TypeVar("S", bound="OwnScanner")
U = TypeVar("U", bound=Estimator)


class App:
    """A set of jobs and services. Define it at the top level of a module, so that workers can import it."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self.scanners: dict[str, OwnScanner] = {}  # scanners of results by name
        self.services: list[Declared] = []  # services and groups, in the order of their declaration
        self.opening: Opening | None = None  # makes the lifespan of an executor process
        self.estimator: Estimator | None = None  # says how much of its window a session has used
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        self._module = caller.f_globals.get("__name__", "") if caller is not None else ""
        self._connection: Connection | None = None
        self._path: str | None = None  # socket of this connection
        self.connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()
        """links made on first use, one for each event loop"""

    def job(
        self,
        job_id: str,
        *,
        lane: str | None = None,
        priority: Literal["critical", "interactive", "batch"] = "interactive",
        rate: str | None = None,
        burst: int = 1,
        limit: KeyLimitFields | None = None,
        sessions: SessionFields | None = None,
        retry: Retry | None = None,
        deadline: Duration | None = None,
        max_runtime: Duration | None = None,
        max_runtime_per_attempt: bool = False,
        processes: bool = False,
        max_crashes: int = 3,
        grace: Duration = 10.0,
        schedule: Schedule | None = None,
        payload: Mapping[str, Any] | None = None,
        constraints: Constraints | None = None,
        on_constraint_violation: Actions = (),
        on_failure: Actions = (),
        on_success: Actions = (),
        on_late: Actions = (),
        topic: str | None = None,
        capabilities: Sequence[str] = (),
        risk_tags: Sequence[str] = (),
        requires: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        sensitivity: Literal["public", "internal", "confidential", "secret"] = "internal",
        merge: Callable[[list[dict[str, Any]]], dict[str, Any]] | None = None,
    ) -> JobDecorator:
        """Define a job by its function. The function becomes a `JobFunction`, and calling it still works.

        `schedule` comes from `interlock.cron`, `every`, `at` or `once`. `payload` is the default, also when scheduled.
        `merge` combines the payloads that a debounced run has collected; without it, the arguments come from the last
        payload.
        """
        if not isinstance(job_id, str):
            raise BadHandler("use @app.job('name'), with the name of the job")
        if retry is not None and not isinstance(retry, Retry):
            raise BadValue("retry", retry, "an interlock.Retry")
        if schedule is not None and not isinstance(schedule, Schedule):
            raise BadValue("schedule", schedule, "a schedule from interlock.cron, every, at or once")
        if constraints is not None and not isinstance(constraints, Constraints):
            raise BadValue("constraints", constraints, "an interlock.Constraints")
        if merge is not None:
            check_merge(job_id, merge)

        def define(function: Callable[..., Any]) -> JobFunction[..., Any]:
            handler = function.function if isinstance(function, JobFunction) else function
            job = Job(
                id=job_id,
                lane=lane,
                priority=Priority(priority),
                executor=kind_of(handler, processes),
                rate=None if rate is None else Rate().check(rate, FieldPath("rate")),
                burst=burst,
                limit=None if limit is None else key_limit(limit),
                sessions=None if sessions is None else SOME_OPTIONS.check(sessions, FieldPath("sessions")),
                retry=retry or Retry(),
                deadline=None if deadline is None else seconds(deadline, "deadline"),
                max_runtime=None if max_runtime is None else seconds(max_runtime, "max_runtime"),
                max_runtime_per_attempt=max_runtime_per_attempt,
                max_crashes=max_crashes,
                grace=seconds(grace, "grace"),
                schedule=schedule,
                constraints=constraints or NO_CONSTRAINTS,
                on_constraint_violation=on_constraint_violation,
                on_failure=on_failure,
                on_success=on_success,
                on_late=on_late,
                topic=topic,
                capabilities=capabilities,
                risk_tags=risk_tags,
                requires=requires,
                labels=None if labels is None else LABELS.check(labels, FieldPath("labels")),
                sensitivity=SENSITIVITY.check(sensitivity, FieldPath("sensitivity")),
                code=".".join(code_digest(one) for one in (handler, merge) if one is not None),
            )
            definition = Definition(job, handler, merge)
            set_default_payload(definition, payload)
            known = self.definitions.get(job_id)
            if known is not None:
                raise DuplicateJob(job_id, known.where, definition.where)
            self.definitions[job_id] = definition
            return JobFunction(handler, definition, self._connected)

        return cast(JobDecorator, define)

    def constraint(
        self, job_id: str, *, lane: str = "main", retry: Retry | None = None, processes: bool = False
    ) -> JobDecorator:
        """Define a constraint of your own: a job that others name in `Constraints(checks=[…])`. Its function takes
        `notice`, an `interlock.Notice` about the run. It returns true or nothing to let the run start, and false or a
        text to say that the constraint is violated."""
        return self._noticed("constraint", job_id, lane, retry, processes)

    def action(
        self, job_id: str, *, lane: str = "main", retry: Retry | None = None, processes: bool = False
    ) -> JobDecorator:
        """Define an action of your own: a job that others name in `Action(action="call", job=…)`. Its function takes
        `notice`, an `interlock.Notice` about the run."""
        return self._noticed("action", job_id, lane, retry, processes)

    def _noticed(self, what: str, job_id: str, lane: str, retry: Retry | None, processes: bool) -> JobDecorator:
        def define(function: Callable[..., Any]) -> JobFunction[..., Any]:
            names = [one for one in inspect.signature(function).parameters if one != "ctx"]
            if names != ["notice"]:
                raise BadHandler(f"{what} {job_id!r}: {function.__qualname__} must take 'notice', and may take 'ctx'")
            made: JobFunction[..., Any] = self.job(job_id, lane=lane, retry=retry, processes=processes)(function)
            return made

        return cast(JobDecorator, define)

    def lifespan(self, function: L) -> L:
        """Declare the lifespan of each executor process: an async generator function with one `yield`, or a function
        that returns an async context manager; it may take the app.

        A process enters it before its first attempt and leaves it at an orderly end. Handlers find the value that it
        yields as `ctx.state`.
        """
        if self.opening is not None:
            raise BadUse("lifespan", "given twice; allowed once for an app")
        self.opening = read_lifespan(function)
        return function

    def usage(self, function: U) -> U:
        """Declare how to estimate the usage of a session: a plain function from the context of a run to the tokens used
        and the window, or None to report nothing.

        A worker calls it in the executor process after each attempt of a run with a session, so it must be quick. An
        error in it goes to the log of the run, and changes nothing.
        """
        if self.estimator is not None:
            raise BadUse("usage", "given twice; allowed once for an app")
        check_estimator(function)
        self.estimator = function
        return function

    def scanner(self, name: str) -> Callable[[S], S]:
        """Declare a scanner of your own, which a policy names as `{scanner: python, name: …}`. Its function takes a
        text of a result, and returns a list of `(start, end, kind)`, true if the whole text is a finding, or nothing.

        It runs in a process of its own, with the lowest priority; one result may take as long as `output.timeout`.
        """
        SCANNER_NAME.check(name, FieldPath("name"))

        def define(function: S) -> S:
            if name in self.scanners:
                raise BadUse("scanner", f"{name!r} is declared twice")
            self.scanners[name] = function
            return function

        return define

    def service(
        self,
        name: str,
        *,
        process: Sequence[str] | None = None,
        container: str | Mapping[str, Any] | None = None,
        **options: "Unpack[ServiceFields]",
    ) -> Callable[[H], H]:
        """Declare a service, which runs as long as the scheduler does: the command `process`, or `container`, an image
        or a mapping of its fields. With neither, this decorates a function, which runs in a process of its own.

        The function may take one argument, an `interlock.ServiceContext`. A stop cancels an async function, and raises
        SystemExit in a plain one.
        """
        from interlock.config.service_builder import caller, declare_service

        spot = caller()

        def define(function: H) -> H:
            self._declare(declare_service(name, spot, function, process, container, **options))
            return function

        if process is not None or container is not None:
            self._declare(declare_service(name, spot, None, process, container, **options))
        return define

    def group(self, name: str, *, strategy: str = "one_for_one", **options: "Unpack[GroupFields]") -> None:
        """Declare a group of services: one_for_one restarts the member that ended, one_for_all all of them,
        rest_for_one also those declared after it."""
        from interlock.config.service_builder import caller, declare_group

        self._declare(declare_group(name, caller(), strategy, **options))

    def _declare(self, declared: "Declared") -> None:
        for known in self.services:
            if known.name == declared.name:
                raise DuplicateService(declared.name, str(known.spot), str(declared.spot))
        self.services.append(declared)

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

    def events(self, **asked: "Unpack[EventFilter]") -> AsyncIterator[tuple[str | None, "Event"]]:
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

        return (await (await self._connected()).ask(put_request(job_id, definition, fields))).jobs[0]

    async def delete_job(self, job_id: str) -> None:
        """Delete a job that was put. Its runs are kept."""
        await (await self._connected()).ask(DropJob(0, job_id))

    async def lanes(self) -> list[LaneInfo]:
        """Return every lane with its limit and the runs in it."""
        return (await (await self._connected()).ask(AskLanes(0))).found.lanes

    async def sessions(self, tenant: str | None = None) -> AsyncIterator[SessionInfo]:
        """Yield the sessions with runs that have not ended, of a tenant or of all, by tenant and key."""
        connection, after, more = await self._connected(), None, True
        while more:
            report = await connection.ask(AskSessions(0, tenant, after, 500))
            for session in report.sessions:
                after = session.tenant, session.key
                yield session
            more = report.more

    async def session(self, key: str, tenant: str = "default") -> SessionInfo:
        """Return the session with this key, with or without runs."""
        return (await (await self._connected()).ask(AskSession(0, key, tenant))).sessions[0]

    async def act_on_session(
        self,
        key: str,
        action: Literal["stop", "stopall", "reset", "pause", "resume"],
        tenant: str = "default",
    ) -> ActedOnSession:
        """Act on a session. `stop` cancels the oldest active run, `stopall` all active and waiting runs, `reset` the
        waiting runs; a paused session starts no runs until `resume`. `acted` is false if there was nothing to act
        on."""
        if action not in set(SessionAction):
            raise BadValue("action", action, f"one of {', '.join(SessionAction)}")
        report = await (await self._connected()).ask(ActOnSession(0, SessionAction(action), key, tenant))
        return ActedOnSession(acted=report.acted, session=report.session)

    @overload
    def test(self, job: Call[T], *, state: Any = None) -> "FinishedRun[T]": ...
    @overload
    def test(
        self, job: str, payload: Mapping[str, Any] | None = None, *, state: Any = None, **options: Unpack[RunOptions]
    ) -> "FinishedRun[Any]": ...
    def test(
        self,
        job: str | Call[Any],
        payload: Mapping[str, Any] | None = None,
        *,
        state: Any = None,
        **options: Unpack[RunOptions],
    ) -> "FinishedRun[Any]":
        """Run a job at once, in this process, and return its finished run: for tests.

        A scheduler in memory accepts it as `submit` would, and retries it by its rules. Delays pass on virtual time.
        Functions find `state` as `ctx.state`, in place of the value of a lifespan.
        """
        from interlock.testing.virtual_scheduler import run_at_once

        return run_at_once(self, job, payload, state, options)

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

    @property
    def _socket(self) -> str:
        path = self._path or os.environ.get("INTERLOCK_SOCKET")
        if path is None:
            raise NotConnected
        return path

    @asynccontextmanager
    async def connected(self, socket: str | None = None) -> AsyncIterator["App"]:
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

    @asynccontextmanager
    async def running(
        self, database: str = "interlock.db", *, drain: Duration = 5.0, **settings: Any
    ) -> AsyncIterator["App"]:
        """Run the scheduler and its workers as part of this program, until the block ends. `settings` are those of
        `interlock up`, such as `workers` and `slots`."""
        from interlock.wiring.embedded import embedded

        embedding = embedded(self, self.target(), database, drain=drain, **settings)
        async with embedding as path, self.connected(str(path)):
            yield self

    def target(self) -> str:
        """Return the name by which a worker finds this app: `module:variable`."""
        module = sys.modules.get(self._module)
        names = [name for name, value in vars(module).items() if value is self] if module is not None else []
        if not names:
            raise CannotImport(
                "app", "the App must be a variable at the top level of a module, so that workers find it"
            )
        if self._module == "__main__":
            specification = getattr(module, "__spec__", None)
            if specification is not None:  # run with `python -m`, so the module can be imported by its name
                return f"{specification.name}:{names[0]}"
            file = getattr(module, "__file__", None)
            if file is None:
                raise CannotImport("app", "an App typed into a console cannot be found by workers; put it in a file")
            return f"{os.path.abspath(file)}:{names[0]}"
        return f"{self._module}:{names[0]}"

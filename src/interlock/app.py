"""`App`: jobs and services defined in Python."""

import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from interlock.app_link import AppLink
from interlock.client.submission import Call
from interlock.error import BadHandler, BadUse, BadValue, CannotImport, DuplicateJob, DuplicateService, Repeated
from interlock.fields.duration import Duration, seconds
from interlock.fields.field_types import WORD, FieldPath, Rate
from interlock.job_function import JobDecorator, JobFunction, WorkflowDecorator
from interlock.model.guard import NO_CONSTRAINTS, Actions, Constraints
from interlock.model.job import SENSITIVITY, Job, KeyLimitFields, Priority, Retry, key_limit
from interlock.model.labels import LABELS
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SOME_OPTIONS, SessionFields
from interlock.model.workflow import CODE
from interlock.wire.new_run import RunOptions
from interlock.worker.app_loader import code_digest
from interlock.worker.attempt_end import Estimator, check_estimator
from interlock.worker.definition import Definition, check_merge, kind_of, set_default_payload
from interlock.worker.lifespan import Opening, read_lifespan

if TYPE_CHECKING:
    from interlock.config.declarations import Declared
    from interlock.config.service_documents import GroupFields, ServiceFields
    from interlock.policy.scan.scanners import OwnScanner
    from interlock.testing.finished_run import FinishedRun

H = TypeVar("H", bound=Callable[..., Any])
L = TypeVar("L", bound=Callable[..., AsyncIterator[Any] | AbstractAsyncContextManager[Any]])
T = TypeVar("T")
S = TypeVar("S", bound="OwnScanner")
U = TypeVar("U", bound=Estimator)


class App(AppLink):
    """A set of jobs and services. Define it at the top level of a module, so that workers can import it."""

    def __init__(self) -> None:
        super().__init__()
        self.scanners: dict[str, OwnScanner] = {}  # scanners of results by name
        self.services: list[Declared] = []  # services and groups, in the order of their declaration
        self.opening: Opening | None = None  # makes the lifespan of an executor process
        self.estimator: Estimator | None = None  # says how much of its window a session has used
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        self._module = caller.f_globals.get("__name__", "") if caller is not None else ""

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
            return self._define(Definition(job, handler, merge), payload)

        return cast(JobDecorator, define)

    def workflow(
        self,
        workflow_id: str,
        *,
        lane: str | None = None,
        priority: Literal["critical", "interactive", "batch"] = "interactive",
        deadline: Duration | None = None,
        max_runtime: Duration | None = None,
        schedule: Schedule | None = None,
        payload: Mapping[str, Any] | None = None,
        constraints: Constraints | None = None,
        on_failure: Actions = (),
        on_success: Actions = (),
        topic: str | None = None,
        capabilities: Sequence[str] = (),
        risk_tags: Sequence[str] = (),
        requires: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> WorkflowDecorator:
        """Define a workflow by an async function that takes an `interlock.WorkflowContext`, and awaits only the steps
        that it gives. The function becomes a `JobFunction`: submit it as any job.

        A worker calls the function again whenever a step has ended, and replays it from the record. So it must do the
        same each time: a warning names calls of `time`, `random`, `uuid` and `open` in it.
        """
        if not isinstance(workflow_id, str):
            raise BadHandler("use @app.workflow('name'), with the name of the workflow")

        from interlock.worker.workflow_check import check_workflow_function  # only here: most apps have no workflow

        def define(function: Callable[..., Any]) -> JobFunction[..., Any]:
            check_workflow_function(workflow_id, function)
            job = Job(
                id=workflow_id,
                lane=lane,
                priority=Priority(priority),
                deadline=None if deadline is None else seconds(deadline, "deadline"),
                max_runtime=None if max_runtime is None else seconds(max_runtime, "max_runtime"),
                schedule=schedule,
                constraints=constraints or NO_CONSTRAINTS,
                on_failure=on_failure,
                on_success=on_success,
                topic=topic,
                capabilities=capabilities,
                risk_tags=risk_tags,
                requires=requires,
                labels=None if labels is None else LABELS.check(labels, FieldPath("labels")),
                workflow=CODE,
                code=code_digest(function),
            )
            return self._define(Definition(job, function), payload)

        return cast(WorkflowDecorator, define)

    def _define(self, definition: Definition, payload: Mapping[str, Any] | None) -> JobFunction[..., Any]:
        set_default_payload(definition, payload)
        job_id = definition.job.id
        known = self.definitions.get(job_id)
        if known is not None:
            raise DuplicateJob(job_id, known.where, definition.where)
        self.definitions[job_id] = definition
        return JobFunction(definition.handler, definition, self._connected)

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
            names = [parameter for parameter in inspect.signature(function).parameters if parameter != "ctx"]
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
        WORD.check(name, FieldPath("name"))

        def define(function: S) -> S:
            if name in self.scanners:
                raise Repeated("scanner", name, "each scanner needs its own name")
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
        from interlock.config.service_documents import caller, declare_service

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
        from interlock.config.service_documents import caller, declare_group

        self._declare(declare_group(name, caller(), strategy, **options))

    def _declare(self, declared: "Declared") -> None:
        for known in self.services:
            if known.name == declared.name:
                raise DuplicateService(declared.name, str(known.spot), str(declared.spot))
        self.services.append(declared)

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

"""A job defined by a function: call the function, or submit runs with its arguments."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from interlock.client.connection import Connection
from interlock.client.handle import RunHandle
from interlock.client.map_items import key_maker
from interlock.client.submission import Call, submit
from interlock.fields.value import ResultType
from interlock.interface.run_builder import check_options
from interlock.wire.new_run import RunOptions
from interlock.worker.context import Context
from interlock.worker.definition import Definition

if TYPE_CHECKING:
    from interlock.worker.workflow_context import WorkflowContext

P = ParamSpec("P")
T = TypeVar("T")
Connect = Callable[[], Awaitable[Connection]]


class JobCalls(Generic[P, T]):
    """A job with options for its runs: the value of `report.options(...)`."""

    def __init__(self, definition: Definition, connect: Connect, options: RunOptions) -> None:
        self._definition = definition
        self._connect = connect
        self._options = options

    def call(self, *arguments: P.args, **named: P.kwargs) -> Call[T]:
        """Return a run to submit later, with `app.submit`, `submit_many` or a client. Without arguments, it gets the
        job's own payload."""
        definition = self._definition
        data = definition.encode(arguments, named) if arguments or named else b""
        return Call(definition.job.id, data, self._options, definition.result_type)

    async def submit(self, *arguments: P.args, **named: P.kwargs) -> RunHandle[T]:
        """Submit a run with these arguments; it is durable when this returns."""
        return (await submit(await self._connect(), [self.call(*arguments, **named)]))[0]

    async def submit_many(self, calls: Iterable[Call[T] | Mapping[str, Any]]) -> list[RunHandle[T]]:
        """Submit runs together, all or none: values of `call(...)`, or mappings of arguments."""
        make: Any = self.call
        return await submit(
            await self._connect(), [make(**call) if isinstance(call, Mapping) else call for call in calls]
        )

    def item_maker(self) -> Callable[[int, Any], Call[T]]:
        """Return a function that makes the run of an item of `App.map`."""
        options: Any = {**self._options}
        key = key_maker(options.pop("key", None) or options.pop("idempotency_key", None))
        plain: Any = JobCalls(self._definition, self._connect, options)

        def make(index: int, item: Any) -> Call[T]:
            if isinstance(item, Call):
                call = item
            else:
                call = plain.call(**item) if isinstance(item, Mapping) else plain.call(item)
            own: Any = {} if call.options.keys() & {"key", "idempotency_key"} else {"key": key(index)}
            return Call(call.job_id, call.payload, call.options | own, call.result_type)

        return make

    @property
    def job_id(self) -> str:
        return self._definition.job.id

    @property
    def argument_names(self) -> list[str] | None:
        """The arguments that it takes; None if it takes any."""
        return self._definition.argument_names

    @property
    def result_type(self) -> ResultType[T] | None:
        return self._definition.result_type

    async def handle(self, run_id: str) -> RunHandle[T]:
        """Return a handle on the run of this job with this id."""
        return RunHandle(run_id, await self._connect(), self._definition.result_type)


class JobFunction(JobCalls[P, T]):
    """A job defined by a function with the arguments `P`, besides its context, and the result `T`.

    Calling it calls the function, in this process and without a run. It is pickled by its name.
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], definition: Definition, connect: Connect) -> None:
        super().__init__(definition, connect, {})
        self.function = function
        self.id = definition.job.id
        update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"JobFunction({self.id!r})"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __reduce__(self) -> str:
        return self.__qualname__

    def options(self, **options: Unpack[RunOptions]) -> JobCalls[P, T]:
        """Return the job with options for its runs: those of `App.submit`."""
        check_options(options, RunOptions)
        return JobCalls(self._definition, self._connect, options)


if TYPE_CHECKING:
    # The results of `app.job(...)` for each shape of function; only their calls differ.

    class AsyncJobWithContext(JobFunction[P, T]):
        def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    class JobWithContext(JobFunction[P, T]):
        def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    class AsyncJob(JobFunction[P, T]):
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    class PlainJob(JobFunction[P, T]):
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T: ...


class WorkflowDecorator(Protocol):
    """Makes a workflow of an async function whose first argument is its context."""

    def __call__(
        self, function: "Callable[Concatenate[WorkflowContext, P], Coroutine[Any, Any, T]]", /
    ) -> JobFunction[P, T]: ...


class JobDecorator(Protocol):
    """Makes a job of a function. A first argument annotated `Context` is not an argument of its runs."""

    # The second overload of each pair matches async functions too, but the first one takes them.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, T]], /
    ) -> "AsyncJobWithContext[P, T]": ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], T], /) -> "JobWithContext[P, T]": ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> "AsyncJob[P, T]": ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> "PlainJob[P, T]": ...

"""`Client`: submit runs and follow them over HTTP. It blocks, and threads may share it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from interlock.client.declared import Blocks
from interlock.client.handle import RunHandle, Typed
from interlock.client.http.base_client import BaseClient
from interlock.client.http.blocking_transport import BlockingTransport
from interlock.client.http.exchange import ClientPolicy
from interlock.client.http.gateway_operations import GatewayOperations
from interlock.client.http.operations import Operations
from interlock.client.http.sync import blocking, blocking_iterator, finish
from interlock.client.submission import Call, NewRuns
from interlock.fields.duration import Duration
from interlock.wire.new_run import RunOptions
from interlock.wire.operation import Declared

T = TypeVar("T")


class BlockingRunHandle(Generic[T]):
    """`RunHandle` for programs without an event loop."""

    def __init__(self, target: RunHandle[T]) -> None:
        self._target = target
        self.id = target.id

    def __repr__(self) -> str:
        return f"BlockingRunHandle({self.id!r})"

    if TYPE_CHECKING:  # `blocking` loses the type parameters of its method

        def result(self, timeout: Duration | None = None) -> T: ...
    else:
        result = blocking(RunHandle.result)
    wait = blocking(RunHandle.wait)
    cancel = blocking(RunHandle.cancel)
    hold = blocking(RunHandle.hold)
    release = blocking(RunHandle.release)

    def retry(self, reason: str = "", from_step: str | None = None) -> "BlockingRunHandle[T]":
        """Run the ended run again; return a handle on the new run. `RunNotEnded` if it has not ended. A workflow begins
        with `from_step`, and takes over the steps before it with their results."""
        return BlockingRunHandle(finish(self._target.retry(reason, from_step)))

    info = blocking(RunHandle.info)
    state = blocking(RunHandle.state)
    explain = blocking(RunHandle.explain)
    history = blocking(RunHandle.history)
    logs = blocking(RunHandle.logs)
    stream = blocking_iterator(RunHandle.stream)
    stats = blocking(RunHandle.stats)


def _handles(targets: list[RunHandle[Any]]) -> list[BlockingRunHandle[Any]]:
    return [BlockingRunHandle(target) for target in targets]


class Client(BaseClient, Blocks, GatewayOperations):
    """A server over HTTP. `url` is http://host:port or unix:/path; by default INTERLOCK_URL, or else the local socket.
    `token` is by default INTERLOCK_TOKEN.

    `timeout` limits how long connecting may take, and how long the server may send nothing. It does not limit the
    duration of a run. While a server that has answered before is away, the client retries for `patience`, which covers
    a restart; before a server has ever answered, for `first_contact`. It retries submits too: each has an idempotency
    key.
    """

    def _connect(self, policy: ClientPolicy, token: str | None) -> None:
        self._transport = BlockingTransport(policy, token)
        self._target = Operations(policy, self._transport)

    async def _send(self, request: Declared[T]) -> T:
        return await self._target._send(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. Calls that wait in other threads raise an error."""
        finish(self._transport.close())

    @overload
    def handle(self, run_id: str) -> BlockingRunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, job: Typed[T]) -> BlockingRunHandle[T]: ...
    def handle(self, run_id: str, job: Typed[Any] | None = None) -> BlockingRunHandle[Any]:
        """Return a handle on the run with this id. With its job, the result has the type of the function's."""
        return BlockingRunHandle(self._target.handle(run_id) if job is None else self._target.handle(run_id, job))

    if TYPE_CHECKING:  # as above

        @overload
        def submit(self, job: Call[T]) -> BlockingRunHandle[T]: ...
        @overload
        def submit(
            self, job: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
        ) -> BlockingRunHandle[Any]: ...
        def submit(self, job: Any, payload: Any = None, **options: Any) -> Any: ...
        @overload
        def submit_many(self, runs: Iterable[Call[T]]) -> list[BlockingRunHandle[T]]: ...
        @overload
        def submit_many(self, runs: NewRuns) -> list[BlockingRunHandle[Any]]: ...
        def submit_many(self, runs: Any) -> Any: ...
    else:
        submit = blocking(Operations.submit, BlockingRunHandle)
        submit_many = blocking(Operations.submit_many, _handles)
    get = blocking(Operations.get)
    stats = blocking(Operations.stats)
    logs = blocking(Operations.logs)
    stream = blocking_iterator(Operations.stream)
    result = blocking(Operations.result)
    ending = blocking(Operations.ending)
    endings = blocking_iterator(Operations.endings)
    retry = blocking(Operations.retry, BlockingRunHandle)
    step_graph = blocking(Operations.step_graph)
    bulk = blocking(Operations.bulk)
    bulk_progress = blocking_iterator(Operations.bulk_progress)
    events = blocking_iterator(Operations.events)

    set_lane = blocking(Operations.set_lane)
    dead_letter_counts = blocking(Operations.dead_letter_counts)
    replay = blocking(Operations.replay, BlockingRunHandle)
    drop_dead_letters = blocking(Operations.drop_dead_letters)
    audit = blocking_iterator(Operations.audit)
    verify_audit = blocking(Operations.verify_audit)
    schedule_times = blocking(Operations.schedule_times)
    timetable = blocking(Operations.timetable)
    trigger = blocking(Operations.trigger, BlockingRunHandle)
    backfill = blocking(Operations.backfill)
    put_job = blocking(Operations.put_job)
    put_jobs = blocking(Operations.put_jobs)

    service_logs = blocking_iterator(Operations.service_logs)
    ready = blocking(Operations.ready)
    metrics = blocking(Operations.metrics)

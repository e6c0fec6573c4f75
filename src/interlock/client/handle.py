"""A handle on a run: wait for it, act on it, look at it."""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from interlock.client.declared import RequestSender
from interlock.error import ENDS, BadResult, RemoteError, RunDebounced
from interlock.fields.duration import Duration, seconds
from interlock.fields.safe_text import last_line
from interlock.fields.value import ResultType
from interlock.interface.run_view import Chunk, HistoryEntry, LogLine, RunDetail
from interlock.model.explanation import Explanation
from interlock.model.failure import Failure
from interlock.model.run import RunStats
from interlock.model.state import State
from interlock.wire.run_request import CancelRun, HoldRun, ReleaseRun, RetryRun

T = TypeVar("T")


class Ending(msgspec.Struct, frozen=True):
    """The end of a run, and its result."""

    run_id: str
    state: State
    reason: str
    error: str | None
    result: Any
    facets: dict[str, dict[str, Any]] = {}

    def unpack(self) -> Any:
        """Return the result, or raise the error of this end. Its message is the last line of text, or the reason."""
        if self.state is State.SUCCEEDED or "released_at" in self.facets.get("output", {}):
            return self.result
        text = (self.error or "").strip()
        end = self.run_id, self.state, last_line(text) or self.reason
        if "collapsed_into" in self.facets:
            raise RunDebounced(*end, self.facets["collapsed_into"]["run_id"])
        error = ENDS[self.state](*end)
        if "failure" in self.facets:
            failure = msgspec.convert(self.facets["failure"], Failure)
            raise error from RemoteError(failure.types, failure.message, text)
        raise error


class RunAccess(RequestSender):
    """Questions about one run by its id, and actions, which are requests. All are safe to repeat, and raise
    `UnknownRun` for an unknown id."""

    @abstractmethod
    async def ending(self, run_id: str, limit: float | None) -> Ending:
        """Return once the run has ended; `WaitTimeout` if that takes longer than `limit` seconds."""

    @abstractmethod
    def endings(self, run_ids: Iterable[str]) -> AsyncGenerator[Ending, None]:
        """Yield the end of each run as it comes, once for each id."""

    @abstractmethod
    async def get(self, run_id: str) -> RunDetail: ...

    @abstractmethod
    async def explain(self, run_id: str) -> Explanation: ...

    @abstractmethod
    async def history(self, run_id: str) -> list[HistoryEntry]: ...

    @abstractmethod
    async def logs(self, run_id: str) -> list[LogLine]: ...

    @abstractmethod
    def stream(self, run_id: str, after: str | None = None) -> AsyncIterator[Chunk]:
        """Yield the chunks of the run's stream, after the one with this id, until the run has ended."""

    @abstractmethod
    async def stats(self, run_id: str) -> RunStats: ...


class Typed(Protocol[T]):
    """A job that knows the type of its results: a function with `@app.job`."""

    @property
    def result_type(self) -> ResultType[T] | None: ...


class RunHandle(Generic[T]):
    """A run that was submitted: its id, and methods that ask for the rest. `T` is the type of its result."""

    __slots__ = ("_access", "_ending", "_result_type", "id")

    def __init__(self, run_id: str, access: RunAccess, result_type: ResultType[T] | None = None) -> None:
        self.id = run_id
        self._access = access
        self._ending: Ending | None = None  # its end, if known
        self._result_type = result_type

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def result(self, timeout: Duration | None = None) -> T:
        """Wait for the end of the run and return its result.

        Raises a `RunEnded` (`RunFailed`, `RunTimeout`, `RunCancelled` and so on) if the run did not succeed,
        `WaitTimeout` if it has not ended in time and continues, and `BadResult` if the result does not fit the return
        annotation of the job.
        """
        value = (await self._end(timeout)).unpack()
        if self._result_type is None:
            return cast(T, value)
        try:
            return self._result_type.read(value)
        except Exception as error:
            raise BadResult(self.id, value, error) from error

    async def wait(self, timeout: Duration | None = None) -> State:
        """Wait for the end of the run and return its state."""
        return (await self._end(timeout)).state

    async def _end(self, timeout: Duration | None) -> Ending:
        limit, known = limit_of(timeout), self._ending
        # A quarantined result may have been released since.
        if known is not None and known.state is not State.OUTPUT_QUARANTINED:
            return known
        return await self._access.ending(self.id, limit)

    async def cancel(self, reason: str = "", *, cascade: bool = False, compensate: bool = False) -> State:
        """Ask the run to stop, and return its state. A run that executes ends later: `wait` for it. With `cascade`,
        also stop the runs that it has made, directly or not; with `compensate`, a workflow undoes its steps."""
        return (await self._access._send(CancelRun(0, self.id, reason, cascade, compensate))).state

    async def hold(self, reason: str = "") -> State:
        """Keep the run from starting until it is released. A run that executes continues."""
        return (await self._access._send(HoldRun(0, self.id, reason))).state

    async def release(self, reason: str = "") -> State:
        """Let a held run start."""
        return (await self._access._send(ReleaseRun(0, self.id, reason))).state

    async def retry(self, reason: str = "", from_step: str | None = None) -> "RunHandle[T]":
        """Run the ended run again; return a handle on the new run. `RunNotEnded` if it has not ended. A workflow begins
        with `from_step`, and takes over the steps before it with their results."""
        again = await self._access._send(RetryRun(0, self.id, reason, from_step))
        return RunHandle(again.id, self._access, self._result_type)

    async def info(self) -> RunDetail:
        """Return the run as it is now, with payload, result and figures; secrets are masked."""
        return await self._access.get(self.id)

    async def state(self) -> State:
        return (await self.info()).state

    async def explain(self) -> Explanation:
        """Explain why the run is where it is: what it waits for, or how and why it ended."""
        return await self._access.explain(self.id)

    async def history(self) -> list[HistoryEntry]:
        """Return every transition, in order."""
        return await self._access.history(self.id)

    async def logs(self) -> list[LogLine]:
        return await self._access.logs(self.id)

    def stream(self, after: str | None = None) -> AsyncIterator[Chunk]:
        """Yield the chunks that the run emits, in order, until it has ended; with `after`, those after the chunk with
        this id. A retry begins the stream again: its chunks have the next `attempt`. Restarts of the server leave no
        gap and repeat nothing. `StreamCut` where the stream is cut at a limit."""
        return self._access.stream(self.id, after)

    async def stats(self) -> RunStats:
        """Return the figures of the run: time in each state, attempts, heartbeats, latency."""
        return await self._access.stats(self.id)


def limit_of(timeout: Duration | None) -> float | None:
    return None if timeout is None else seconds(timeout, "timeout")

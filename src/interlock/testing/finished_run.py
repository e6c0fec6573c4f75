"""The finished run of a test."""

from contextlib import suppress
from typing import Generic, TypeVar

from interlock.client.http.client import BlockingRunHandle
from interlock.error import InterlockError, StreamCut
from interlock.interface.run_view import Chunk, HistoryEntry, LogLine, RunInfo
from interlock.model.state import State

T = TypeVar("T")


class FinishedRun(Generic[T]):
    """A run that has ended: the value of `app.test(...)`."""

    def __init__(self, handle: BlockingRunHandle[T]) -> None:
        self._failure: InterlockError | None = None
        try:
            self._result = handle.result()
        except InterlockError as error:
            self._failure = error
        self.info: RunInfo = handle.info()
        self.lines: list[LogLine] = handle.logs()
        self.chunks: list[Chunk] = []
        with suppress(StreamCut):
            self.chunks.extend(handle.stream())
        self.history: list[HistoryEntry] = handle.history()

    def __repr__(self) -> str:
        return f"FinishedRun({self.info.job_id!r}, {self.state}: {self.info.reason})"

    @property
    def result(self) -> T:
        """The result, decoded to the return annotation. Raises the errors of `RunHandle.result`."""
        if self._failure is not None:
            raise self._failure
        return self._result

    @property
    def state(self) -> State:
        return self.info.state

    @property
    def error(self) -> str | None:
        """The text and the traceback of the latest failure."""
        return self.info.error

    @property
    def attempts(self) -> int:
        return self.info.attempt

    @property
    def delays(self) -> list[float]:
        """The seconds of virtual time before each retry."""
        steps = zip(self.history, self.history[1:], strict=False)
        return [round(after.at - before.at, 3) for before, after in steps if before.after is State.RETRYING]

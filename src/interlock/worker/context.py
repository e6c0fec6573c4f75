"""What a handler is given besides its arguments."""

import time
from collections.abc import Callable
from typing import Any

from interlock.model import payload
from interlock.model.error import BadValue
from interlock.model.message import Checkpoint, Dispatch, LogLine, Message, Progress

MOST_LINES = 10_000
"""log lines of one attempt that are kept"""
LONGEST_LINE = 8192


def clean(text: object) -> str:
    """Any text as one that can travel: what is no valid Unicode is replaced."""
    return str(text).encode("utf-8", "replace").decode()


class Context:
    """The attempt a handler executes: ask whether to stop, report, and remember for the next attempt."""

    def __init__(self, dispatch: Dispatch, send: Callable[[Message], None]) -> None:
        self._dispatch = dispatch
        self._send = send
        self._lines = 0
        self._checkpoint = dispatch.checkpoint
        self.stop_reason: str | None = None

    @property
    def run_id(self) -> str:
        return self._dispatch.run_id

    @property
    def job_id(self) -> str:
        return self._dispatch.job_id

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._dispatch.attempt

    @property
    def deadline(self) -> float | None:
        """Seconds since 1970 by which the run must have ended."""
        return self._dispatch.deadline

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was asked to stop: cancelled, out of time, or its worker is leaving."""
        return self.stop_reason is not None

    def progress(self, percent: float, message: str = "") -> None:
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
            raise BadValue("percent", percent, "a number from 0 to 100")
        text = clean(message)[:LONGEST_LINE]
        self._send(Progress(self.run_id, self._dispatch.fence, float(percent), text))

    def log(self, text: object, level: str = "info") -> None:
        """Add a line to the run's log; past the limit one last line says that it was cut."""
        self._lines += 1
        if self._lines > MOST_LINES:
            return
        line = clean(text)
        if self._lines == MOST_LINES:
            line, level = f"log cut after {MOST_LINES:,} lines", "warning"
        elif len(line) > LONGEST_LINE:
            line = line[:LONGEST_LINE] + "… (cut)"
        self._send(LogLine(self.run_id, self._dispatch.fence, self._lines, time.time(), clean(level)[:32], line))

    def checkpoint(self, value: Any) -> None:
        """Remember a JSON value; a later attempt finds it as `last_checkpoint`."""
        data = payload.encode(value, "checkpoint")
        self._checkpoint = data
        self._send(Checkpoint(self.run_id, self._dispatch.fence, data))

    @property
    def last_checkpoint(self) -> Any:
        """The latest checkpoint of this run, or None."""
        return None if self._checkpoint is None else payload.decode(self._checkpoint)

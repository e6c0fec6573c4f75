"""The output of an attempt's process as lines of the run's log: bounded, and without secrets."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from interlock.fields.secret import NameTest
from interlock.supervision.output import CHUNK, LOOKED_AT_CHUNK, PERIOD, STREAMS, Allowance, Output, readable
from interlock.wire.message import Dispatch, LogMessage, Message
from interlock.worker.context import LOG_CUT, MOST_BYTES, MOST_LINES, STREAM_LEVELS
from interlock.worker.redaction import NO_SECRETS, Redaction, texts_of

LINES_A_SECOND = 50_000  # lines of one attempt that are sent; then its writes block
BYTES_A_SECOND = 8 * 2**20  # bytes of the sent lines
READ_A_SECOND = 128 * 2**20  # bytes that are read of one attempt
LAST_BYTES = 4096
LAST_LINES = 20  # last lines of stderr in the error of an attempt
SHORTEST_INHERITED = 8  # characters of a worker's own variable, because many names only look like a secret's


def secrets_of(
    given: Any, env: Mapping[str, str | None], inherited: Mapping[str, str], is_secret: NameTest
) -> Redaction:
    """Return the redaction of a payload's secrets, and of variables with the name of one."""
    found = texts_of(given, (), is_secret)
    found |= {value for name, value in env.items() if value and is_secret(name)}
    found |= {value for name, value in inherited.items() if len(value) >= SHORTEST_INHERITED and is_secret(name)}
    # Also in the form of a line, without control characters.
    found |= {readable(os.fsencode(secret)) for secret in found if not secret.isprintable()}
    return Redaction(found) if found else NO_SECRETS


class _Bound(Allowance):
    """The bounds of one attempt's output. Further output is read all the same, or the program would block."""

    def __init__(self) -> None:
        super().__init__()
        self._all_lines = self._all_bytes = 0

    def at(self, now: float) -> None:
        if now >= self.ends_at:
            self.ends_at = now + PERIOD
            self._lines = self._bytes = self._read = 0

    def take(self, size: int) -> bool:
        if self.is_open:
            self._lines, self._bytes = self._lines + 1, self._bytes + size
            self._all_lines, self._all_bytes = self._all_lines + 1, self._all_bytes + size
            self.is_open = self._all_lines <= MOST_LINES and self._all_bytes <= MOST_BYTES
        return self.is_open

    @property
    def is_used_up(self) -> bool:
        if self._read >= READ_A_SECOND:
            return True
        return self.is_open and (self._lines >= LINES_A_SECOND or self._bytes >= BYTES_A_SECOND)


class ProcessLog(Output):
    def __init__(self, dispatch: Dispatch, report: Callable[[Message], None], redact: Redaction) -> None:
        super().__init__(self._send, lambda: None)
        self._allowance = _Bound()
        self._dispatch = dispatch
        self._report = report
        self._redact = redact
        self._number = 0
        self._is_cut = False
        self._last = bytearray()

    def feed(self, stream: str, data: bytes) -> None:
        if stream == STREAMS[2]:
            self._last += data
            del self._last[: -LAST_BYTES - 1]
        super().feed(stream, data)

    def last_lines(self) -> list[str]:
        """Return the last complete lines of stderr: in an incomplete one, a secret might not be found."""
        start = self._last.find(b"\n") + 1 if len(self._last) > LAST_BYTES else 0
        lines = (readable(line) for line in bytes(self._last[start:]).split(b"\n"))
        return [self._redact(line) for line in lines if line.strip()][-LAST_LINES:]

    def _chunk(self) -> int:
        # A sent line costs more than a counted one, and others must have their turn.
        return LOOKED_AT_CHUNK if self._allowance.is_open else CHUNK

    def _give(self, stream: str, lines: list[str]) -> None:
        super()._give(stream, lines)
        if not self._allowance.is_open and not self._is_cut:
            self._is_cut = True
            self._send("", LOG_CUT)

    def _send(self, stream: str, line: str) -> None:
        self._number += 1
        key, level = (self._dispatch.run_id, self._dispatch.fence), STREAM_LEVELS.get(stream, "warning")
        self._report(LogMessage(*key, self._number, time.time(), level, self._redact(line), stream))

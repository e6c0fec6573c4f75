"""What the process of an attempt prints, as lines of the run's log: bounded, and without its secrets."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from interlock.model.message import Dispatch, LogLine, Message
from interlock.model.secret import NameTest
from interlock.supervision.output import CHUNK, LOOKED_AT_CHUNK, PERIOD, Allowance, Pipes, readable
from interlock.worker.context import MOST_LINES
from interlock.worker.redaction import NO_SECRETS, Redaction, texts_of

MOST_BYTES = 16 * 2**20
"""of the lines of one attempt that are sent at all; how much is kept of a run, the scheduler decides"""
LINES_A_SECOND = 50_000
"""that are sent of one attempt; then it has to wait until it can print on"""
BYTES_A_SECOND = 8 * 2**20
"""of the lines that are sent of one attempt"""
READ_A_SECOND = 128 * 2**20
"""bytes that are read of one attempt at all"""
LAST_BYTES = 4096
LAST_LINES = 20
"""of what it wrote to stderr, that stand in the error of an attempt"""
SHORTEST_INHERITED = 8
"""characters below which a variable of the worker's own is not looked for: many a name only looks like a secret's"""

STREAMS = {1: "stdout", 2: "stderr"}


def secrets_of(
    given: Any, env: Mapping[str, str | None], inherited: Mapping[str, str], is_secret: NameTest
) -> Redaction:
    """What leaves out the secrets of a payload, and the variables that have the name of one."""
    found = texts_of(given, (), is_secret)
    found |= {value for name, value in env.items() if value and is_secret(name)}
    found |= {value for name, value in inherited.items() if len(value) >= SHORTEST_INHERITED and is_secret(name)}
    # And as they are in a line, from which what would move a cursor is gone.
    found |= {readable(os.fsencode(secret)) for secret in found if not secret.isprintable()}
    return Redaction(found) if found else NO_SECRETS


class _Bound(Allowance):
    """How much of one attempt's output is sent at all. What is more is read all the same, or the program would stand
    still."""

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


class ProcessLog(Pipes):
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
        """The last that it wrote to stderr, whole lines only: of one that is cut a secret might not be known."""
        start = self._last.find(b"\n") + 1 if len(self._last) > LAST_BYTES else 0
        lines = (readable(line) for line in bytes(self._last[start:]).split(b"\n"))
        return [self._redact(line) for line in lines if line.strip()][-LAST_LINES:]

    def _chunk(self) -> int:
        # A line that is sent costs more than one that is counted, and others are to have their turn.
        return LOOKED_AT_CHUNK if self._allowance.is_open else CHUNK

    def _give(self, stream: str, lines: list[str]) -> None:
        super()._give(stream, lines)
        if not self._allowance.is_open and not self._is_cut:
            self._is_cut = True
            self._send(
                "warning", f"log cut: {MOST_LINES:,} lines or {MOST_BYTES // 2**20} MiB; what follows is left out"
            )

    def _send(self, level: str, line: str) -> None:
        self._number += 1
        line = self._redact(line)
        self._report(LogLine(self._dispatch.run_id, self._dispatch.fence, self._number, time.time(), level, line))

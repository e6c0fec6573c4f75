"""Delayed reports. The start of an attempt is sent after a moment, or not at all if the attempt has ended by then. The
end of an occurrence is delayed too, because no client waits for it. Ages keep the recorded times true.

Log lines are kept for a scheduler that is away, or may not have stored them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Container, Sequence
from math import inf

from msgspec.structs import replace

from interlock.ports.clock import Clock
from interlock.ports.executor import Key
from interlock.wire import message as m
from interlock.wire.message import CHUNKS, LogLine
from interlock.worker.held import HeldAttempt

SHORT_WAIT = 0.005  # seconds after which the start of an attempt is reported
LONG_WAIT = 0.05  # seconds after which the start or the end of an occurrence is reported
MOST_WAITING = 16  # delayed reports at which all are sent, because each end of an occurrence holds a slot


class Reports:
    def __init__(self, clock: Clock, send: Callable[[Sequence[m.Message]], None]) -> None:
        self._clock = clock
        self._send = send
        self._waiting: dict[Key, HeldAttempt] = {}
        self._timer: asyncio.Handle | None = None
        self._due = inf  # when the timer ends; a timer of uvloop that ends at once does not know

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def started(self, held: HeldAttempt) -> None:
        self._waiting[held.key] = held
        loop = asyncio.get_running_loop()
        at = loop.time() + (LONG_WAIT if held.due else SHORT_WAIT)
        if at < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._due = loop.call_at(at, self.send_all), at

    def ended(self, held: HeldAttempt, hurries: bool) -> None:
        if hurries:
            self._waiting.pop(held.key, None)
            self._send([self.of(held)])
        else:
            self.started(held)
            if len(self._waiting) >= MOST_WAITING:
                self.send_all()

    def send_start(self, held: HeldAttempt) -> None:
        """Report the start now, unless it is already reported."""
        if self._waiting.pop(held.key, None) is not None:
            self._send([self.of(held)])

    def send_all(self) -> None:
        if self._waiting:
            self._send([self.of(held) for held in self._waiting.values()])
        self.clear()

    def clear(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._due = None, inf

    def of(self, held: HeldAttempt) -> m.Message:
        """Return the report of an attempt: its outcome or its start, with its age."""
        now = self._clock.now().elapsed
        if held.outcome is None:
            return m.Started(*held.key, now - held.began)
        if isinstance(held.outcome, m.Returned):
            return replace(held.outcome, begun=held.begun)
        if isinstance(held.outcome, m.Lost):
            return held.outcome
        took = max(0.0, held.ended - held.began) if held.began else 0.0
        return replace(held.outcome, ago=max(0.0, now - held.ended), took=took)


MOST = 8 * 1024 * 1024  # bytes of log lines, roughly
IN_DOUBT = 2.0  # seconds for which a sent line is kept: a link that breaks loses the messages in it


class KeptLines:
    """Times are of a clock that never goes back. Chunks of a stream are kept until the scheduler answers a later
    heartbeat: then it has stored them. They are bounded for each attempt."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[float, LogLine]] = deque()
        self._lines: deque[tuple[float, LogLine]] = deque()  # each with its time
        self._size = 0

    def keep(self, line: LogLine, now: float, is_linked: bool) -> None:
        """Keep a line while there is room. Lines sent long ago make way, and while there is a link, any earlier one."""
        if line.level == CHUNKS:
            self._chunks.append((now, line))
            return
        size = _size(line)
        if is_linked:
            self.forget(now - IN_DOUBT)
            while self._lines and self._size + size > MOST:
                self._forget_first()
        if self._size + size <= MOST:
            self._lines.append((now, line))
            self._size += size

    def forget(self, before: float) -> None:
        while self._lines and self._lines[0][0] < before:
            self._forget_first()

    def confirm(self, before: float) -> None:
        """Forget the chunks that were sent before a heartbeat of that time, which is answered."""
        while self._chunks and self._chunks[0][0] < before:
            self._chunks.popleft()

    def _forget_first(self) -> None:
        self._size -= _size(self._lines.popleft()[1])

    def again(self, now: float, held: Container[tuple[str, int]]) -> list[LogLine]:
        """Return the lines to repeat over a new link; those of settled attempts are stored."""
        lines = [line for _, line in self._lines if (line.run_id, line.fence) in held]
        self._lines = deque((now, line) for line in lines)
        self._size = sum(map(_size, lines))
        chunks = [line for _, line in self._chunks if (line.run_id, line.fence) in held]
        self._chunks = deque((now, line) for line in chunks)
        return lines + chunks


def _size(line: LogLine) -> int:
    return len(line.text) + 100

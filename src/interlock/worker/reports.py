"""Delayed reports. The start of an attempt is sent after a moment, or not at all if the attempt has ended by then. The
end of an occurrence is delayed too, because no client waits for it. Ages keep the recorded times true.

Log lines are kept for a scheduler that is away, or may not have stored them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container, Sequence
from math import inf

from msgspec.structs import replace

from interlock.ports.clock import Clock
from interlock.ports.executor import Key
from interlock.wire import message as m
from interlock.wire.message import CHUNKS, LogMessage
from interlock.worker.held import HeldAttempt

logger = logging.getLogger("interlock.worker")

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
MOST_CHUNKS = 64 * 1024 * 1024  # bytes of chunks of all attempts, roughly
IN_DOUBT = 2.0  # seconds for which a sent line is kept: a link that breaks loses the messages in it


class KeptLines:
    """Times are of a clock that never goes back. Chunks of a stream are kept until the scheduler answers a later
    heartbeat, or settles their attempt: then it has stored them. A stream without room for its chunks is cut."""

    def __init__(self) -> None:
        self._chunks: dict[Key, deque[tuple[float, LogMessage]]] = {}
        self._chunks_size = 0
        self._cut: set[Key] = set()  # attempts whose further chunks are left out
        self._lines: deque[tuple[float, LogMessage]] = deque()  # each with its time
        self._size = 0

    def keep(self, line: LogMessage, now: float, is_linked: bool) -> list[LogMessage]:
        """Keep a line while there is room. Lines sent long ago make way, and while there is a link, any earlier one.
        Return what to send."""
        size = _size(line)
        if line.level == CHUNKS:
            return self._keep_chunks((line.run_id, line.fence), line, size, now)
        if is_linked:
            self.forget(now - IN_DOUBT)
            while self._lines and self._size + size > MOST:
                self._forget_first()
        if self._size + size <= MOST:
            self._lines.append((now, line))
            self._size += size
        return [line]

    def _keep_chunks(self, key: Key, line: LogMessage, size: int, now: float) -> list[LogMessage]:
        if key in self._cut:
            return []
        if self._chunks_size + size > MOST_CHUNKS:
            self._cut.add(key)
            line = replace(line, text="[]")
            logger.warning("the stream of run %s is cut: %d MiB of chunks wait here", line.run_id, MOST_CHUNKS // 2**20)
        self._chunks.setdefault(key, deque()).append((now, line))
        self._chunks_size += _size(line)
        return [line]

    def forget(self, before: float) -> None:
        while self._lines and self._lines[0][0] < before:
            self._forget_first()

    def confirm(self, before: float) -> None:
        """Forget the chunks that were sent before a heartbeat of that time, which is answered."""
        for key, chunks in list(self._chunks.items()):
            while chunks and chunks[0][0] < before:
                self._chunks_size -= _size(chunks.popleft()[1])
            if not chunks:
                del self._chunks[key]

    def settle(self, key: Key) -> None:
        """Forget the chunks of an attempt whose end is stored."""
        self._chunks_size -= sum(_size(line) for _, line in self._chunks.pop(key, ()))
        self._cut.discard(key)

    def _forget_first(self) -> None:
        self._size -= _size(self._lines.popleft()[1])

    def again(self, now: float, held: Container[Key]) -> list[LogMessage]:
        """Return the lines and chunks to repeat over a new link, in order; those of settled attempts are stored."""
        lines = [line for _, line in self._lines if (line.run_id, line.fence) in held]
        self._lines = deque((now, line) for line in lines)
        self._size = sum(map(_size, lines))
        self._chunks = {key: deque((now, line) for _, line in chunks) for key, chunks in self._chunks.items()}
        return sorted(
            [*lines, *(line for chunks in self._chunks.values() for _, line in chunks)], key=lambda line: line.number
        )


def _size(line: LogMessage) -> int:
    return len(line.text) + 100

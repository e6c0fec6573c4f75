"""Delayed reports. The start of an attempt is sent after a moment, or not at all if the attempt has ended by then. The
end of an occurrence is delayed too, because no client waits for it. Ages keep the recorded times true.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import inf

from msgspec.structs import replace

from interlock.ports.clock import Clock
from interlock.ports.executor import Key
from interlock.wire import message as m
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

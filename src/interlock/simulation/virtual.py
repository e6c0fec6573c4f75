"""The ground of a forecast: an event loop that jumps from timer to timer, links without delay, timed attempts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVarTuple

from interlock.model.failure import Outcome
from interlock.model.run import Now
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.ports.clock import Clock
from interlock.ports.executor import Executor, Key, Report
from interlock.wire import message as m

Arguments = TypeVarTuple("Arguments")


class VirtualLoop(asyncio.BaseEventLoop):
    """Timers of the same instant fire in the order in which they were set, which the standard loop does not promise."""

    _ready: Any  # the standard loop's queue of callbacks

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = count()

    def time(self) -> float:
        return self._now

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._order), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave the timer in the heap: `_run_once` skips it when its time comes."""

    def _run_once(self) -> None:
        if not self._ready:
            self._now = max(self._now, self._timers[0][0])
            while self._timers and self._timers[0][0] <= self._now:
                self._ready.append(heappop(self._timers)[2])
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake."""


class VirtualClock(Clock):
    def __init__(self, loop: asyncio.AbstractEventLoop, start: float) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> Now:
        elapsed = self._loop.time()
        return Now(self._start + elapsed, elapsed)


class _LinkEnd(Peer):
    """One end of a link within this process."""

    other: "_LinkEnd"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._is_open = True

    def send(self, messages: Sequence[m.Message]) -> None:
        asyncio.get_running_loop().call_soon(self.other.receive, messages)

    def receive(self, messages: Sequence[m.Message]) -> None:
        if self._is_open:
            self._endpoint.received(self, messages)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._endpoint.closed(self)
            self.other.close()

    def flush(self) -> None: ...

    pause = resume = flush


class VirtualBus(Bus):
    """Links that lose nothing and take no time."""

    def __init__(self) -> None:
        self._listener: Endpoint | None = None

    async def listen(self, endpoint: Endpoint) -> None:
        self._listener = endpoint

    async def connect(self, endpoint: Endpoint) -> Peer:
        assert self._listener is not None
        near, far = _LinkEnd(endpoint), _LinkEnd(self._listener)
        near.other, far.other = far, near
        endpoint.opened(near)
        self._listener.opened(far)
        return near

    async def close(self) -> None: ...


class TimedExecutor(Executor):
    """Attempts that do nothing for a given time, and then succeed or fail."""

    def __init__(self, lengths: Mapping[str, float], failing: frozenset[str]) -> None:
        self._lengths = lengths
        self._failing = failing
        self._report: Report = lambda message: None
        self._ends: dict[Key, asyncio.TimerHandle] = {}

    async def open(self, report: Report) -> None:
        self._report = report

    def length_of(self, attempt: m.Dispatch) -> float:
        return self._lengths[attempt.job_id]

    def result_of(self, attempt: m.Dispatch) -> bytes | None:
        """Return the result of an attempt; None if it fails."""
        return None if attempt.job_id in self._failing else b"null"

    def start(self, attempt: m.Dispatch) -> None:
        result = self.result_of(attempt)
        outcome = Outcome.FAILED if result is None else Outcome.SUCCEEDED
        later = asyncio.get_running_loop().call_later
        self._ends[attempt.key] = later(self.length_of(attempt), self._finish, attempt.key, outcome, result)
        self._report(m.Started(*attempt.key))

    def _finish(self, key: Key, outcome: Outcome, result: bytes | None = None) -> None:
        if (timer := self._ends.pop(key, None)) is not None:
            timer.cancel()
            error = "failed by --fail" if outcome is Outcome.FAILED else None
            self._report(m.Finished(*key, outcome, result, error, None))

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        self.kill(attempt)
        return False

    def kill(self, attempt: m.Dispatch) -> None:
        self._finish(attempt.key, Outcome.CANCELLED)

    async def close(self) -> None:
        for timer in self._ends.values():
            timer.cancel()

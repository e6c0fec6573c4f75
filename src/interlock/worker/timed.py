"""Attempts that have come ahead of their time, and the thread that begins each when it is due.

To wake up another thread or process costs more than many a handler does, so the thread that waits for the time runs
short ones itself. One that turns out to take long is left to it, and another thread waits in its place.
"""

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")
UNHURRIED = 0.05
"""seconds that the start or the end of what came ahead of its time may wait to be told: nobody waits for it"""
SLACK = 0.02
"""seconds that telling may be late, if something is begun then in any case"""


class Timed(Generic[T]):
    def __init__(self, begin: Callable[[T], None], tell: Callable[[], None]) -> None:
        self._begin = begin
        """may take its time: see `look_after`"""
        self._tell = tell
        self._tell_at = inf
        self._waiting: list[tuple[float, int, T]] = []
        self._count = 0
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        """held; who lets go of it wakes up the thread"""
        self._bell.acquire()
        self._thread: threading.Thread | None = None
        self._since = 0.0
        """when what it began was begun, while that has not returned"""

    def add(self, due: float, one: T) -> None:
        """Begin it at that time of the monotonic clock."""
        with self._lock:
            self._count += 1
            heappush(self._waiting, (due, self._count, one))
            is_first = self._waiting[0][1] == self._count
            if is_first or self._thread is None:
                self._wake()

    def tell_by(self, at: float) -> None:
        """Call `tell` at that time, if not before."""
        with self._lock:
            if at < self._tell_at:
                self._tell_at = at
                if self._thread is not threading.current_thread():
                    self._wake()

    def told(self) -> None:
        """There is nothing to tell any more."""
        self._tell_at = inf

    def look_after(self, patience: float) -> bool:
        """If what was begun has not returned for so long, let another thread wait for the others. Whether to look
        again."""
        with self._lock:
            is_late = self._since > 0 and time.monotonic() - self._since > patience
            if is_late or (self._waiting and not self._is_there()):
                self._start()
            return bool(self._waiting or self._since)

    def _is_there(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wake(self) -> None:
        if not self._is_there():
            self._start()
        elif self._bell.locked():
            self._bell.release()

    def _start(self) -> None:
        before = self._since, self._thread
        self._since, self._thread = 0.0, threading.Thread(target=self._wait, name="timed", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            # There is no room for another thread now; the next look tries again.
            self._since, self._thread = before

    def _wait(self) -> None:
        own = threading.current_thread()
        while True:
            now = time.monotonic()
            with self._lock:
                if self._thread is not own:
                    return
                self._since = 0.0
                due = self._waiting[0][0] if self._waiting else inf
                tells = self._tell_at <= (now if due > now else now - SLACK)
                begins = due <= now and not tells
                if begins:
                    self._since = now
                    one = heappop(self._waiting)[2]
                until = due if self._tell_at < due < self._tell_at + SLACK else min(due, self._tell_at)
            if begins:
                self._begin(one)
            elif tells:
                self._tell()
            else:
                self._bell.acquire(timeout=min(until - now, threading.TIMEOUT_MAX))

"""Threads for blocking attempts: one for each, and idle ones end after a while; or only the main thread."""

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable

IDLE = 5.0  # seconds without work after which a thread ends


class ThreadPool:
    """Runs each call in a thread, idle or new. Only one thread at a time is on its way to the calls that wait. It takes
    one and, if more wait, fetches the next thread. Threads whose calls are short take several meanwhile, so a burst of
    short calls occupies few threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[Callable[[], object]] = deque()
        self._idle: dict[threading.Lock, None] = {}  # bells of idle threads: releasing one wakes its thread
        self._is_coming = False  # a thread is being woken or started

    def submit(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._calls.append(call)
            must_start = self._fetch()
        if must_start:
            self._start()

    def _fetch(self) -> bool:
        """Wake a thread for the calls that wait; return whether one must be started instead."""
        if self._is_coming or not self._calls:
            return False
        self._is_coming = True
        if not self._idle:
            return True
        self._idle.popitem()[0].release()
        return False

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name="attempt", daemon=True).start()
        except RuntimeError:
            # The system allows no more threads now. The next thread that finishes its call tries again, or the next
            # submit does.
            self._is_coming = False

    def _work(self) -> None:
        bell = threading.Lock()
        bell.acquire()
        has_come = True
        while True:
            with self._lock:
                if has_come:
                    self._is_coming = has_come = False
                call = self._calls.popleft() if self._calls else None
                if call is None:
                    self._idle[bell] = None
                must_start = self._fetch()
            if must_start:
                self._start()
            if call is not None:
                call()
            elif bell.acquire(timeout=IDLE) or self._is_woken(bell):
                has_come = True
            else:
                return

    def _is_woken(self, bell: threading.Lock) -> bool:
        """Return whether a thread was woken at the last moment; otherwise it is no longer idle, and may end."""
        with self._lock:
            if bell in self._idle:
                del self._idle[bell]
                return False
        return bell.acquire()


class MainThread:
    """Runs calls on the main thread, where signal handlers can be set, and the loop between them. A call does not run
    on the loop, because it may run a loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], object]] = deque()
        self._signals = {number: signal.getsignal(number) for number in signal.valid_signals()}

    def reset_signals(self) -> None:
        """Undo the settings of a handler: its timer must not interrupt the next one."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._signals.items():
            if before is not None and signal.getsignal(number) is not before:
                signal.signal(number, before)

    def submit(self, call: Callable[[], object]) -> None:
        """Call it soon; from any thread."""
        self._calls.append(call)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def run_forever(self) -> None:
        while True:
            self._loop.run_forever()
            while self._calls:
                self._calls.popleft()()

"""A timer that is exact to some microseconds, where the system has one. Those of event loops count milliseconds: who
must not be late would wake up early, and turn round and round for the rest."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


class _Span(ctypes.Structure):
    _fields_ = (("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


class Alarm:
    """Rings once after a time that is set; to set it anew is to forget what it was set to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ring: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._span = _Span()
        self._system = ctypes.PyDLL(None) if sys.platform == "linux" else None
        self._descriptor = -1
        if self._system is not None and hasattr(self._system, "timerfd_create"):
            self._descriptor = self._system.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._descriptor >= 0:
            loop.add_reader(self._descriptor, self._expired)

    def set(self, delay: float, ring: Callable[[], None]) -> None:
        self.cancel()
        self._ring = ring
        if self._system is None or self._descriptor < 0:
            # A millisecond more, for some round down.
            self._timer = self._loop.call_later(delay + 0.001, self._expired)
            return
        # No time at all would stop it.
        self._span.s, self._span.ns = divmod(max(1, int(delay * 1e9)), 1_000_000_000)
        self._system.timerfd_settime(self._descriptor, 0, ctypes.byref(self._span), None)

    def cancel(self) -> None:
        """It may wake up the loop once more for nothing, if it is not set anew."""
        self._ring = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _expired(self) -> None:
        if self._descriptor >= 0:
            with suppress(BlockingIOError):  # it has been set anew since
                os.read(self._descriptor, 8)
        ring, self._ring = self._ring, None
        if ring is not None:
            ring()

"""Processes that handlers fork: they report through the process that they were forked from."""

import contextvars
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from interlock.wire import frames
from interlock.wire.message import Message

LARGEST = 2**18  # bytes of a message
MOST_WAITING = 1000  # messages, more than the buffer of the socket holds


class Copies:
    """The link from forked processes to the original, and the hooks on every fork."""

    def __init__(self, take: Callable[[Message], None], become_copy: Callable[[socket.socket | None], None]) -> None:
        self._take = take
        self._become_copy = become_copy
        self._ends: tuple[socket.socket, socket.socket] | None = None  # made for the first fork
        self._is_copy = self._is_read = False
        self._opening, self._reading = threading.Lock(), threading.Lock()
        os.register_at_fork(before=self._open, after_in_parent=self._read_on, after_in_child=self._let_go)

    def drain(self) -> None:
        """Take every message that was sent before this call."""
        if self._ends is None or self._is_copy:
            return
        with self._reading, suppress(BlockingIOError):
            # Forked processes may write for ever.
            for _ in range(MOST_WAITING):
                data = self._ends[0].recv(LARGEST, socket.MSG_DONTWAIT)
                for messages in frames.FrameReader().feed(data):
                    for message in messages:
                        self._take(message)

    def _open(self) -> None:
        if self._ends is not None:
            return
        # Two threads may fork at once. No copy waits for this lock: it has the ends.
        with self._opening:
            if self._ends is None:
                self._ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def _read_on(self) -> None:
        if self._ends is not None and not self._is_copy and not self._is_read:
            self._is_read = True
            thread = threading.Thread(target=self._read, name="copies", daemon=True)
            contextvars.Context().run(thread.start)

    def _read(self) -> None:
        assert self._ends is not None
        here = self._ends[0]
        while here.recv(1, socket.MSG_PEEK):
            self.drain()

    def _let_go(self) -> None:
        if not self._is_copy:
            self._is_copy = True
            if self._ends is not None:
                self._ends[0].close()
            # Without a free descriptor there is no way to the original.
            self._become_copy(None if self._ends is None else self._ends[1])

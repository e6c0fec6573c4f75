"""The messages of an executor process to its host. Processes that handlers fork report through the original."""

import contextvars
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from interlock.wire import frames
from interlock.wire.message import Message

logger = logging.getLogger("interlock.worker")


class Outbox:
    """Sends messages in order, from any thread.

    A signal handler or a finalizer may send while its own thread is sending. Its message then waits in the list until
    the interrupted call goes on, so no call waits for itself. On a main thread that executes a handler, a signal
    handler may also raise, in the middle of a message. So another thread sends, and the main thread only waits for it.
    """

    def __init__(self, link: socket.socket, is_isolated: bool = False) -> None:
        self._link = link
        self._lock = threading.RLock()
        self._is_sending = False
        self._unsent: list[Message] = []
        self._is_copy = False  # whether a handler forked this process
        self._original: socket.socket | None = None  # the way to the original from there
        self._waiting: queue.SimpleQueue[threading.Lock] | None = None  # held by the main thread until all is sent
        if is_isolated:
            self._waiting = queue.SimpleQueue()
            threading.Thread(target=self._send_for_main, name="outbox", args=[self._waiting], daemon=True).start()

    def send(self, *messages: Message) -> None:
        """Send messages after those that wait."""
        if self._is_copy:
            self._send_to_original(messages)
            return
        self._unsent.extend(messages)
        if self._waiting is not None and threading.current_thread() is threading.main_thread():
            until_sent = threading.Lock()
            until_sent.acquire()
            self._waiting.put(until_sent)
            until_sent.acquire()
        else:
            self._send_all()

    def _send_for_main(self, waiting: "queue.SimpleQueue[threading.Lock]") -> None:
        while True:
            until_sent = waiting.get()
            self._send_all()
            until_sent.release()

    def _send_all(self) -> None:
        while True:
            with self._lock:
                if self._is_sending:
                    return
                self._is_sending = True
                try:
                    # Other threads add to the list meanwhile.
                    if unsent := self._unsent[:]:
                        del self._unsent[: len(unsent)]
                        self._link.sendall(frames.encode(unsent))
                except OSError:
                    # The host is gone.
                    os._exit(1)
                finally:
                    self._is_sending = False
            if not self._unsent:
                return

    def add(self, message: Message) -> bool:
        """Add a message for the next call of `send`; return whether it is the only one."""
        is_first = not self._unsent
        self._unsent.append(message)
        return is_first

    def become_copy(self, original: socket.socket | None) -> None:
        """In a process that a handler forked, send to the process that it was forked from."""
        self._link.close()
        self._unsent.clear()
        self._is_copy = True
        self._original = original

    def _send_to_original(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            # Without an original, this process is about to end as well.
            with suppress(ConnectionError):
                if self._original is not None:
                    self._original.send(frames.encode([message]))


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
        """Take every message that was sent before this call. One that cannot be taken is logged, and never hinders the
        report of an attempt."""
        if self._ends is None or self._is_copy:
            return
        with self._reading, suppress(OSError):  # nothing waits
            # Forked processes may write for ever.
            for _ in range(MOST_WAITING):
                self._take_all(self._ends[0].recv(LARGEST, socket.MSG_DONTWAIT))

    def _take_all(self, data: bytes) -> None:
        try:
            for messages in frames.FrameReader().feed(data):
                for message in messages:
                    self._take(message)
        except Exception:
            logger.exception("lost a message of a forked process")

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

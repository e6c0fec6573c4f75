"""The descriptors 1 and 2 of a process that has one attempt at a time: the output of programs and of C code."""

import codecs
import contextvars
import faulthandler
import fcntl
import io
import os
import select
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

DESCRIPTORS = {"stdout": 1, "stderr": 2}
PIPE_SIZE = 2**20  # bytes that code may write while it holds the interpreter lock
CHUNK = 2**16
LAST_BYTES = 2**22  # bytes read at the end of the attempt; more means that a program it left behind still writes


def reopen(stream: TextIO) -> TextIO:
    """Return the stream over a descriptor of its own, which stays the same while 1 and 2 change."""
    descriptor = os.dup(stream.fileno())
    if stream.fileno() == DESCRIPTORS["stderr"] and faulthandler.is_enabled():
        # A crash ends the reader of the pipe as well.
        faulthandler.enable(descriptor)
    binary = io.FileIO(descriptor, "w")
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, write_through=True)


class Descriptors:
    """Lets 1 and 2 lead to pipes of one attempt until its end. Programs that it leaves behind write to the terminal
    then, and never to the log of the next attempt."""

    def __init__(self, write: Callable[[str, str, object], None], terminal: Mapping[str, TextIO]) -> None:
        self._write = write
        self._terminal = terminal
        self._lock = threading.Lock()
        self._has_ended = False
        self._pipes: dict[int, tuple[str, codecs.IncrementalDecoder]] = {}
        ends: dict[str, int] = {}
        for stream in DESCRIPTORS:
            here, ends[stream] = os.pipe()
            with suppress(OSError):
                fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
            os.set_blocking(here, False)
            self._pipes[here] = (stream, codecs.getincrementaldecoder("utf-8")("replace"))
        thread = threading.Thread(target=self._read_on, name="descriptors", daemon=True)
        contextvars.Context().run(thread.start)
        for stream, end in ends.items():
            os.dup2(end, DESCRIPTORS[stream])
            os.close(end)

    def end(self) -> None:
        for stream, descriptor in DESCRIPTORS.items():
            os.dup2(self._terminal[stream].fileno(), descriptor)
        with self._lock:
            for pipe in list(self._pipes):
                left = LAST_BYTES
                while left > 0 and (size := self._read(pipe)):
                    left -= size
            self._has_ended = True

    def _read_on(self) -> None:
        # Not `select`, which takes no descriptor above 1023.
        poll = select.poll()
        for pipe in self._pipes:
            poll.register(pipe, select.POLLIN)
        while self._pipes:
            for pipe, _ in poll.poll():
                with self._lock:
                    if self._read(pipe) == 0:
                        # Only here: this thread must not wait on a closed descriptor.
                        poll.unregister(pipe)
                        del self._pipes[pipe]
                        os.close(pipe)

    def _read(self, pipe: int) -> int | None:
        """Read some; return the number of bytes, 0 at the end, None if there are none yet."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return None
        stream, decoder = self._pipes[pipe]
        if self._has_ended:
            self._terminal[stream].buffer.write(data)
        else:
            self._write(stream, decoder.decode(data), self)
        return len(data)

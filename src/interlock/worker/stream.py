"""The stream of an attempt: chunks that its handler emits, sent in few messages and in order."""

import json
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from interlock.fields import payload
from interlock.fields.secret import MASK, is_marked, mask

LARGEST_CHUNK = 32 * 1024  # bytes of a chunk as JSON
PACE = 0.05  # least seconds between two messages with chunks of an attempt


class Stream:
    """Chunks wait in order until they are sent: at once, or, with a pacer, together with those of the next moment."""

    def __init__(self, redact: Callable[[str], str], send: Callable[[str], bool], pacer: "Pacer | None") -> None:
        self._redact = redact
        self._send = send
        self._pacer = pacer
        self._waiting: list[str] = []
        self._size = 0
        self._is_cut = False
        self._lock = threading.RLock()  # held while sending: chunks of two threads keep their order

    def add(self, chunk: Any) -> None:
        """Add a chunk. `NotJson` and `PayloadTooLarge` name what is wrong with it."""
        data = payload.encode(chunk, "chunk", LARGEST_CHUNK)
        value = mask(payload.decode(data), (), ()) if is_marked(data) else chunk
        text = json.dumps(_redacted(value, self._redact), ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            if self._size + len(text) > LARGEST_CHUNK:
                self.flush()
            self._waiting.append(text)
            self._size += len(text)
            is_first = len(self._waiting) == 1
        if self._pacer is None:
            self.flush()
        elif is_first:
            self._pacer.soon(self)

    def flush(self) -> None:
        """Send what waits."""
        with self._lock:
            waiting, self._waiting, self._size = self._waiting, [], 0
            if waiting and not self._is_cut:
                self._is_cut = not self._send(f"[{','.join(waiting)}]")


class Pacer:
    """A thread that sends the first chunk of a stream at once, and the following ones together after a moment. It
    starts with the first chunk of the process."""

    def __init__(self) -> None:
        self._streams: queue.SimpleQueue[Stream] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def soon(self, stream: Stream) -> None:
        self._streams.put(stream)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._send, name="streams", daemon=True)
                    self._thread.start()

    def _send(self) -> None:
        while True:
            self._streams.get().flush()
            while not self._streams.empty():
                self._streams.get().flush()
            time.sleep(PACE)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value without secrets. A number that is one becomes a text."""
    kind = type(value)
    if kind is str:
        return redact(value)
    if kind is dict:
        return {redact(key): _redacted(item, redact) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_redacted(item, redact) for item in value]
    return MASK if kind in (int, float) and redact(str(value)) != str(value) else value

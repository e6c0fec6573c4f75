"""The context of a handler: the attempt that it executes, and the stream of chunks that it emits."""

import json
import queue
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from interlock.error import BadValue
from interlock.fields import payload
from interlock.fields.secret import MASK, SECRET_NAMES, NameTest, from_json, is_marked, mask, matcher
from interlock.model.policy.verdict import NO_LIMITS, RunLimits
from interlock.wire.claim import Claim
from interlock.wire.message import CHUNKS, Checkpoint, Dispatch, LogMessage, Message, Progress, Usage
from interlock.worker.redaction import NO_SECRETS, Redaction, texts_of

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
        self.add_checked(mask(payload.decode(data), (), ()) if is_marked(data) else chunk)

    def add_checked(self, value: Any) -> None:
        """Add a chunk that is known to be one. Masked secrets may make it longer than `LARGEST_CHUNK`."""
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


MOST_LINES = 100_000  # log lines of one attempt that are sent; the scheduler keeps fewer of a run
MOST_BYTES = 16 * 2**20  # characters of these lines
LOG_CUT = f"log cut: {MOST_LINES:,} lines or {MOST_BYTES // 2**20} MiB; further lines are left out"
STREAM_CUT = f"stream and {LOG_CUT}"
LONGEST_LINE = 8192
LONGEST_NAME = 200  # characters of a logger
STREAM_LEVELS = {"stdout": "info", "stderr": "warning"}
"""levels of printed lines; programs report more than errors on stderr"""
_IS_SECRET = matcher(SECRET_NAMES)
_IS_MARK = matcher(())


def clean(text: object) -> str:
    """Return a text with invalid Unicode replaced, so that it can be sent."""
    return str(text).encode("utf-8", "replace").decode()


class Context:
    """The attempt that a handler executes: check for cancellation, report, and store a checkpoint for the next one."""

    state: Any = None
    """the value that the app's lifespan yielded in this process; None without a lifespan"""
    pacer: Pacer | None = None  # of the process
    _redaction: Redaction | None = None  # made with the first text; most attempts write none
    _stream: Stream | None = None  # made with the first chunk

    def __init__(
        self,
        dispatch: Dispatch,
        send: Callable[[Message], None],
        secret_arguments: tuple[str, ...] = (),
        is_secret: NameTest = _IS_SECRET,
    ) -> None:
        self._dispatch = dispatch
        self._send = send
        self.run_id = dispatch.run_id
        self.key = dispatch.key  # run and fence
        self.job_id = dispatch.job_id
        self.tenant = dispatch.tenant
        self.session = dispatch.session  # key of the session that the run belongs to
        self.parent = dispatch.parent  # id of the run that made this one, by its code, an action or a retry
        self.attempt = dispatch.attempt  # 1 for the first
        self.deadline = dispatch.deadline  # seconds since 1970 by which the run must have ended
        self.secret_arguments = secret_arguments
        self._is_secret = is_secret
        self._numbers = count(1)  # threads share it: each number is given once
        self._room = MOST_BYTES
        self.is_full = False  # whether further lines are left out
        self._checkpoint = dispatch.checkpoint
        self.stop_reason: str | None = None

    @property
    def claim(self) -> str:
        """Shows the scheduler that a request comes from the code of this attempt. Clients send it by themselves."""
        return str(Claim(self._dispatch.proof, self._dispatch.fence, self._dispatch.tenant, self._dispatch.run_id))

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the run, with those of its job."""
        return dict(self._dispatch.labels or {})

    @property
    def cancelled(self) -> bool:
        """Whether this attempt must stop: it is cancelled or out of time, or its worker is leaving."""
        return self.stop_reason is not None

    @property
    def limits(self) -> RunLimits:
        """The limits that the policy puts on the run. Its run time, retries, result and the environment of a program
        are enforced; `sandbox` and `tools` are for you to obey."""
        return self._dispatch.limits or NO_LIMITS

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The payload of the run, followed by those of the runs that were collapsed into it, in order. A `Secret` in
        them is one again."""
        return [_read(encoded) for encoded in self._dispatch.payloads]

    @property
    def last_payload(self) -> bytes:
        """The last of `payloads`, as JSON."""
        further = self._dispatch.further
        return further[-1] if further else self._dispatch.payload or payload.EMPTY

    def progress(self, percent: float, message: str = "") -> None:
        """Report progress, limited to 0 to 100, because a sum of floats may be slightly off."""
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or percent != percent:
            raise BadValue("percent", percent, "a number from 0 to 100")
        text = self.redact(clean(message))[:LONGEST_LINE]
        self._send(Progress(*self.key, float(min(max(percent, 0), 100)), text))

    def usage(self, tokens: int, window: int) -> None:
        """Report how many tokens of its window the session of the run has used. From 60 % on, it starts one run at a
        time. A `window` of 0 ends this. Without a session, a report changes nothing."""
        for field, value in (("tokens", tokens), ("window", window)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
                raise BadValue(field, value, "a whole number from 0 to 2^53 - 1")
        self._send(Usage(*self.key, tokens, window))

    def log(self, text: object, level: str = "info") -> None:
        """Add a line to the run's log; at the limit, one last line says that it was cut."""
        self.add_line(text, level)

    def add_line(self, text: object, level: str, logger: str = "", at: float | None = None) -> None:
        """Add a line of a logger, or of `stdout` or `stderr`."""
        if self.is_full:
            return
        # Whatever follows would be cut anyway; cleaning and redacting it may take long.
        line = self.redact(clean(str(text)[: 2 * LONGEST_LINE]))
        if len(line) > LONGEST_LINE:
            line = line[:LONGEST_LINE] + "… (cut)"
        level = "info" if level == CHUNKS else level
        level, logger = self.redact(clean(level))[:32], self.redact(clean(logger))[:LONGEST_NAME]
        self._room -= len(line)
        number = next(self._numbers)
        if number >= MOST_LINES or self._room < 0:
            if self.is_full:
                return
            self.is_full = True
            line, level, logger = LOG_CUT, "warning", ""
        now = time.time() if at is None else at
        self._send(LogMessage(*self.key, number, now, level, line, logger))

    def emit(self, chunk: Any) -> None:
        """Add a chunk to the stream of the run: a text or another JSON value of at most 32 KiB. Readers get chunks in
        order, and as they come. `NotJson` or `PayloadTooLarge` if it cannot be one."""
        self._started_stream().add(chunk)

    def take_chunks(self, text: str) -> None:
        """Add the chunks of a forked process, which has checked them. An empty list says that it is at its limit."""
        chunks = payload.decode(text.encode())
        if not chunks:
            self._room = -1
        for chunk in chunks or [None]:
            self._started_stream().add_checked(chunk)

    def _started_stream(self) -> Stream:
        """Return the stream of the attempt. If two threads make it at once, both get the same."""
        return self._stream or self.__dict__.setdefault("_stream", Stream(self.redact, self._send_chunks, self.pacer))

    def flush_stream(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def leave_stream(self) -> None:
        """In a forked process, leave what waits to the original, which also has the thread of the pacer."""
        self.__dict__.pop("_stream", None)
        self.pacer = None

    def _send_chunks(self, text: str) -> bool:
        """Send a JSON list of chunks; return False at the limit, where an empty one tells readers that the stream is
        cut, and a last line of the log says so too."""
        self._room -= len(text)
        number = next(self._numbers)
        fits = number < MOST_LINES and self._room >= 0
        self._send(LogMessage(*self.key, number, time.time(), CHUNKS, text if fits else "[]"))
        if not fits:
            self.is_full = True
            self._send(LogMessage(*self.key, next(self._numbers), time.time(), "warning", STREAM_CUT))
        return fits

    def checkpoint(self, value: Any) -> None:
        """Store a JSON value; the next attempt finds it as `last_checkpoint`."""
        data = payload.encode(value, "checkpoint")
        if is_marked(data):
            kept = payload.decode(data)
            from_json(kept)
            known = self._redaction or self._find_secrets()
            self._redaction = Redaction(known.secrets | texts_of(kept, (), _IS_MARK))
        self._checkpoint = data
        self._send(Checkpoint(*self.key, data))

    @property
    def last_checkpoint(self) -> Any:
        """The latest checkpoint of this run, or None; a `Secret` in it is one again."""
        if self._checkpoint is None:
            return None
        return _read(self._checkpoint)

    def redact(self, text: str) -> str:
        """Return the text without the secrets of this attempt. Logs, reports and errors are redacted by themselves."""
        redaction = self._redaction or self._find_secrets()
        return redaction(text) if redaction.secrets else text

    def _find_secrets(self) -> Redaction:
        found: set[str] = set()
        for given in self._dispatch.payloads:
            found |= texts_of(payload.decode(given), self.secret_arguments, self._is_secret)
        if self._checkpoint is not None and is_marked(self._checkpoint):
            found |= texts_of(payload.decode(self._checkpoint), (), _IS_MARK)
        self._redaction = Redaction(found) if found else NO_SECRETS
        return self._redaction


def _read(data: bytes) -> Any:
    value = payload.decode(data)
    return from_json(value) if is_marked(data) else value

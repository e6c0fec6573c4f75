"""The output of handlers, printed, logged or warned, as lines in the logs of their runs.

A context variable holds the attempt. Tasks inherit it; threads and calls in pools get it from the code that starts
them, and so do forked processes. Outside an attempt, output goes where it always goes.
"""

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partialmethod
from typing import Any, TextIO

from interlock.log_lines import JsonLines
from interlock.supervision.output import readable_text
from interlock.wire.claim import Claim, find_claims_with, read_claim
from interlock.wire.message import Dispatch, Message
from interlock.worker.context import LONGEST_LINE, STREAM_LEVELS, Context
from interlock.worker.descriptors import DESCRIPTORS, Descriptors, reopen

MOST_HELD = 2 * LONGEST_LINE  # characters of an incomplete line

_attempt: ContextVar["Capture | None"] = ContextVar("interlock_attempt", default=None)
_is_handling: ContextVar[bool] = ContextVar("interlock_is_handling", default=False)
"""whether logging handlers have a record that is already in the log, so that their output is not added again"""
_send_from_copy: Callable[[Message], None] | None = None  # set in a process that a handler forked
_terminal: dict[str, TextIO] | None = None  # the original streams, in a process that has one attempt at a time
_format = logging.Formatter().format


class Capture:
    """The output of one attempt."""

    __slots__ = ("_descriptors", "_held", "context", "is_open")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.is_open = True
        self._descriptors: Descriptors | None = None
        self._held: dict[tuple[str, object], str] = {}  # incomplete lines, by stream and source

    def write(self, stream: str, text: str, source: object = None) -> None:
        """Add the lines that are complete. Each thread has its own incomplete line, so lines never mix."""
        if self.context.is_full:
            return
        place, start = (stream, source or threading.get_ident()), 0
        while (end := text.find("\n", start)) >= 0:
            self._add(stream, self._held.pop(place, "") + text[start : min(end, start + MOST_HELD)])
            start = end + 1
        if start < len(text):
            held = self._held.get(place, "") + text[start : start + MOST_HELD]
            if len(held) > MOST_HELD:
                # A progress bar writes over its line for ever.
                held = held.rstrip("\r").rpartition("\r")[2][:MOST_HELD]
            self._held[place] = held

    def flush(self) -> None:
        """Add the incomplete lines."""
        for place in list(self._held):
            self._add(place[0], self._held.pop(place, ""))

    def enter(self) -> None:
        """Make this attempt the present one of a task or thread, and of the process if it has no other."""
        _attempt.set(self)
        carry_to_processes()
        if _terminal is not None and self._descriptors is None:
            # Without a free descriptor or thread, the output of programs goes to the terminal.
            with suppress(OSError, RuntimeError):
                self._descriptors = Descriptors(self.write, _terminal)

    def end(self) -> None:
        if self._descriptors is not None:
            self._descriptors.end()
        self.flush()
        self.context.flush_stream()
        self.is_open = False

    def forget(self) -> None:
        """In a forked process, leave the incomplete lines and the stream to the original."""
        self._held.clear()
        self.context.leave_stream()

    def _add(self, stream: str, text: str) -> None:
        self.context.add_line(readable_text(text), STREAM_LEVELS[stream], stream)


def present() -> Capture | None:
    found = _attempt.get()
    return found if found is not None and found.is_open else None


def _claim() -> str:
    """Return the claim of the attempt, also after its end: what it left behind still belongs to it."""
    found = _attempt.get()
    return "" if found is None else found.context.claim


find_claims_with(_claim)


class CapturedStream:
    """`sys.stdout` or `sys.stderr`: adds lines to the present attempt; outside attempts, writes to the original."""

    def __init__(self, name: str, original: Any) -> None:
        self._name = name
        self._original = original

    def write(self, text: str) -> int:
        if (capture := present()) is None:
            return int(self._original.write(text))
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not _is_handling.get():
            capture.write(self._name, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        capture = present()
        if capture is None:
            self._original.flush()
        elif _send_from_copy is not None:
            # A forked process flushes last of all.
            capture.flush()

    def close(self) -> None:
        """Close nothing: the stream belongs to the process, and later attempts write to it."""
        self.flush()

    def fileno(self) -> int:
        return self._original.fileno() if present() is None else DESCRIPTORS[self._name]

    def isatty(self) -> bool:
        return present() is None and self._original.isatty()

    @property
    def buffer(self) -> "_Bytes":
        return _Bytes(self, self._original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class _Bytes:
    """`sys.stdout.buffer`."""

    def __init__(self, writer: CapturedStream, original: TextIO) -> None:
        self._writer = writer
        self._original = original.buffer

    def write(self, data: Any) -> int:
        if present() is None:
            return int(self._original.write(data))
        self._writer.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self._writer.flush()

    close = flush

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def install(is_isolated: bool, as_json: bool = False) -> None:
    """Capture the output of every attempt in this process, which has one at a time if it is isolated. Print anything
    else as it comes, or as JSON."""
    global _terminal
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    if is_isolated:
        _terminal = streams = {name: reopen(stream) for name, stream in streams.items()}
    sys.stdout, sys.stderr = (
        CapturedStream(name, JsonLines(stream, name) if as_json else stream) for name, stream in streams.items()
    )
    _capture_records()
    _capture_warnings()
    _carry_to_threads()
    _carry_to_pools()


def _capture_records() -> None:
    # Not a handler of the root logger: `basicConfig` would do nothing beside it, `dictConfig` would remove it, and it
    # would miss loggers that do not propagate.
    call_handlers = logging.Logger.callHandlers

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        if (capture := present()) is None:
            call_handlers(logger, record)
            return
        capture.context.add_line(_text_of(record), record.levelname.lower(), record.name)
        token = _is_handling.set(True)
        try:
            call_handlers(logger, record)
        finally:
            _is_handling.reset(token)

    logging.Logger.callHandlers = handle  # type: ignore[method-assign,assignment] # see above
    logging.root.setLevel(logging.INFO)


def _text_of(record: logging.LogRecord) -> str:
    try:
        return _format(record)
    except Exception as error:  # noqa: BLE001 - like a handler of `logging`, never fail the caller
        return f"{record.pathname}:{record.lineno}: record cannot be formatted: {type(error).__name__}: {error}"


def _capture_warnings() -> None:
    show = warnings.showwarning

    def show_warning(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if file is not None or (capture := present()) is None:
            show(message, category, filename, lineno, file, line)
        else:
            capture.context.add_line(f"{filename}:{lineno}: {category.__name__}: {message}", "warning", "py.warnings")

    warnings.showwarning = show_warning
    # Otherwise only the first of all runs that reach a place would have its warning.
    warnings.defaultaction = "always"  # type: ignore[attr-defined] # documented as the default of filters


def _carry_to_threads() -> None:
    start = threading.Thread.start

    def start_thread(thread: threading.Thread) -> None:
        if (capture := present()) is not None:
            run = thread.run

            def run_in_attempt() -> None:
                _attempt.set(capture)
                run()

            thread.run = run_in_attempt  # type: ignore[method-assign] # of this one thread
        start(thread)

    threading.Thread.start = start_thread  # type: ignore[method-assign,assignment] # of every thread in this process


def _carry_to_pools() -> None:
    submit_to_thread, find = ThreadPoolExecutor.submit, futures.__getattr__

    def to_thread(pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        # Without an attempt too: the thread may have been started in one.
        return submit_to_thread(pool, _call_in, present(), function, *args, **kwargs)

    def find_and_carry(name: str) -> Any:
        found = find(name)
        carry_to_processes()
        return found

    ThreadPoolExecutor.submit = to_thread  # type: ignore[method-assign,assignment] # of every pool in this process
    # Most apps never import the other pool, which would take 20 ms.
    futures.__getattr__ = find_and_carry  # type: ignore[method-assign] # as above


def carry_to_processes() -> None:
    """Do so for process pools, once an app has imported them."""
    module: Any = sys.modules.get("concurrent.futures.process")
    pool = getattr(module, "ProcessPoolExecutor", None)
    if pool is not None and not isinstance(vars(pool)["submit"], partialmethod):
        pool.submit = partialmethod(_submit_to_process, pool.submit)


def _submit_to_process(pool: Any, submit: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if (capture := present()) is None:
        return submit(pool, function, *args, **kwargs)
    return submit(pool, call_for, read_claim(capture.context.claim), function, *args, **kwargs)


def _call_in(capture: Capture | None, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    token = _attempt.set(capture)
    try:
        return function(*args, **kwargs)
    finally:
        _attempt.reset(token)


def call_for(claim: Claim, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function in a process of a pool, which may have been forked for another attempt."""
    if _send_from_copy is None:
        return function(*args, **kwargs)
    key = claim.run_id, claim.fence
    dispatch = Dispatch(*key, "", 1, None, None, False, 0.0, tenant=claim.tenant, proof=claim.proof)
    capture = Capture(Context(dispatch, _send_from_copy))
    try:
        return _call_in(capture, function, *args, **kwargs)
    finally:
        capture.end()


def become_copy(send: Callable[[Message], None]) -> None:
    """In a process that a handler forked, send lines to the original, which redacts and numbers them."""
    global _send_from_copy
    _send_from_copy = send
    if (capture := present()) is not None:
        capture.forget()


def report_in_context(loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
    """Log an exception that nobody awaited in the context of its task: another attempt may run when it is found."""
    source: Any = details.get("task") or details.get("future") or details.get("handle")
    if hasattr(source, "get_context"):
        source.get_context().run(loop.default_exception_handler, details)
    else:
        loop.default_exception_handler(details)

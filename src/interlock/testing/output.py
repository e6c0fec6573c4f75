"""The output of functions under test: in the logs of their runs, and where it always goes."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from interlock.worker.context import STREAM_LEVELS, Context

present: ContextVar[Context | None] = ContextVar("interlock_test", default=None)  # the attempt of a task or thread
_held: dict[tuple[Context, str], str] = {}  # incomplete lines


class _Records(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (context := present.get()) is not None:
            context.add_line(self.format(record), record.levelname.lower(), record.name)


class _Writer:
    """`sys.stdout` or `sys.stderr`."""

    def __init__(self, name: str, original: TextIO) -> None:
        self._name = name
        self._original = original

    def write(self, text: str) -> int:
        if (context := present.get()) is not None:
            *lines, rest = (_held.pop((context, self._name), "") + text).split("\n")
            for line in lines:
                context.add_line(line, STREAM_LEVELS[self._name], self._name)
            if rest:
                _held[context, self._name] = rest
        return self._original.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def flush(context: Context) -> None:
    """Log the incomplete lines of an attempt that ends."""
    for name, level in STREAM_LEVELS.items():
        if rest := _held.pop((context, name), ""):
            context.add_line(rest, level, name)


@contextmanager
def captured() -> Iterator[None]:
    """Log what functions print or log, from the level info on, as a worker does."""
    root, handler, streams = logging.root, _Records(), {name: getattr(sys, name) for name in STREAM_LEVELS}
    level = root.level
    root.setLevel(min(level, logging.INFO))
    root.addHandler(handler)
    for name, stream in streams.items():
        setattr(sys, name, _Writer(name, stream))
    try:
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        root.removeHandler(handler)
        root.setLevel(level)

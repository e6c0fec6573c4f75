"""The output of functions under test: it goes to the logs of their runs, and to the terminal as always."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.worker.context import STREAM_LEVELS
from interlock.worker.output_capture import CapturedStream, present


class _Records(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (capture := present()) is not None:
            capture.context.add_line(self.format(record), record.levelname.lower(), record.name)


class _TestStream(CapturedStream):
    def write(self, text: str) -> int:
        super().write(text)
        return self._original.write(text) if present() is not None else len(text)


@contextmanager
def captured() -> Iterator[None]:
    """Log what functions print or log, from the level info on, as a worker does."""
    root, handler, streams = logging.root, _Records(), {name: getattr(sys, name) for name in STREAM_LEVELS}
    level = root.level
    root.setLevel(min(level, logging.INFO))
    root.addHandler(handler)
    for name, stream in streams.items():
        setattr(sys, name, _TestStream(name, stream))
    try:
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        root.removeHandler(handler)
        root.setLevel(level)

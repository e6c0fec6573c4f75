"""The log lines of a worker's runs on its standard error."""

import logging
import queue
import sys
import threading
from datetime import UTC, datetime

from interlock.supervision.output import STREAMS, readable_text
from interlock.wire.message import CHUNKS, LogMessage, Message

MOST = 10_000  # lines that wait for the terminal; further ones are counted
CLOSE = 1.0  # seconds for the last lines
ID = 16  # first characters of a run's id, which come from its time; enough to name it in commands


class Echo:
    """Prints in a separate thread: a terminal that blocks delays neither runs nor heartbeats."""

    def __init__(self, as_json: bool = False) -> None:
        self._as_json = as_json
        self._lines: queue.Queue[LogMessage | None] = queue.Queue(MOST)
        self._left_out = 0
        self._thread = threading.Thread(target=self._print, name="echo", daemon=True)
        self._thread.start()

    def show(self, message: Message) -> None:
        if isinstance(message, LogMessage) and message.level != CHUNKS:
            try:
                self._lines.put_nowait(message)
            except queue.Full:
                self._left_out += 1

    def close(self) -> None:
        if not self._lines.full():
            self._lines.put_nowait(None)
            self._thread.join(CLOSE)

    def _print(self) -> None:
        while (line := self._lines.get()) is not None:
            left_out, self._left_out = self._left_out, 0
            if left_out:
                sys.stderr.write(f"… {left_out:,} lines left out\n")
            if self._as_json:
                logging.getLogger().handle(record_of(line))
            else:
                sys.stderr.write(text_of(line))


def record_of(line: LogMessage) -> logging.LogRecord:
    """Return the line as a record, which is shown whatever the level of the log."""
    fields = {"name": line.logger or "run", "levelname": line.level.upper(), "msg": line.text, "created": line.at}
    return logging.makeLogRecord(fields | {"levelno": logging.INFO, "run_id": line.run_id})


def text_of(line: LogMessage) -> str:
    """Return time, the beginning of the run's id, level, logger and text. Further lines of a text are indented."""
    at = datetime.fromtimestamp(line.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    logger = "" if line.logger in ("", "root", *STREAMS.values()) else f"{readable_text(line.logger)}: "
    text = "\n  ".join(map(readable_text, line.text.split("\n")))
    return f"{at} {short(line.run_id)} {readable_text(line.level):7} {logger}{text}\n"


def short(run_id: str) -> str:
    """Return the beginning of an id; the whole id of an occurrence, which ends with its time."""
    return run_id[:ID] if run_id.isalnum() else run_id

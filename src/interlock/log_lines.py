"""Log to standard error, as text or JSON, with the fields of a run. As JSON, every line of the process is an object:
whatever is printed, warned about, or said last before a crash."""

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, TextIO

from interlock.fields.json_form import rfc3339
from interlock.fields.safe_text import safe, safe_json

FIELDS = ("run_id", "job_id", "scheduled_at", "state", "attempt")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={getattr(record, name)}" for name in FIELDS if hasattr(record, name))
        text = f"{at} {record.levelname.lower():7} {record.getMessage()}" + (f"  {fields}" if fields else "")
        text = safe(text).replace("\n", "\\n")
        if record.exc_info:
            # Indented, so that no line of the traceback looks like a log line.
            text += "\n" + indent(safe(self.formatException(record.exc_info)), "  ", lambda _: True)
        return text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": rfc3339(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in FIELDS if hasattr(record, name)},
        }
        if "scheduled_at" in entry:
            entry["scheduled_at"] = rfc3339(entry["scheduled_at"])
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return safe_json(json.dumps(entry, ensure_ascii=False))


class JsonLines:
    """`sys.stdout` or `sys.stderr`: writes each line as an entry of the log."""

    def __init__(self, original: TextIO, name: str) -> None:
        self.original = original
        self._name = name
        self._handler = logging.StreamHandler(original)
        self._handler.setFormatter(JsonFormatter())
        self._of_thread = threading.local()  # the beginning of a line

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._of_thread, "rest", "") + text).split("\n")
        self._of_thread.rest = rest
        for line in lines:
            self._put(line)
        return len(text)

    def flush(self) -> None:
        """Write a line that has not ended as well: it may be the last."""
        rest, self._of_thread.rest = getattr(self._of_thread, "rest", ""), ""
        self._put(rest)

    def _put(self, line: str) -> None:
        if line.strip():
            self._handler.handle(logging.makeLogRecord({"name": self._name, "levelname": "INFO", "msg": line}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def log_to_stderr(level: str, form: str = "text") -> None:
    """Take `level` and `form` as in the settings."""
    stderr = sys.stderr.original if isinstance(sys.stderr, JsonLines) else sys.stderr
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if form == "json":
        print_as_json()
        logging.captureWarnings(True)
        sys.excepthook = sys.unraisablehook = threading.excepthook = _log_error


def print_as_json() -> None:
    """Write what this process prints as entries of the log, each line as one. A terminal may show a live table."""
    if not isinstance(sys.stderr, JsonLines):
        sys.stderr = JsonLines(sys.stderr, "stderr")
    if not isinstance(sys.stdout, JsonLines) and not sys.stdout.isatty():
        sys.stdout = JsonLines(sys.stdout, "stdout")


def _log_error(*error: Any) -> None:
    """Log an error that nobody handles; take three values, as `sys.excepthook`, or one with such fields."""
    found = error if len(error) == 3 else (error[0].exc_type, error[0].exc_value, error[0].exc_traceback)
    if found[0] is SystemExit:
        return
    logging.getLogger("interlock").critical("an error ends the process or thread", exc_info=found)

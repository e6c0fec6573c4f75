"""How the command line speaks: errors on one line with their code, logs with their fields."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from interlock.model.error import BadValue, InterlockError

EXIT_ERROR = 1
EXIT_USAGE = 2
USAGE_CODES = frozenset(
    {"bad_value", "bad_duration", "bad_payload", "cannot_import", "bad_handler", "duplicate_job", "unknown_job"}
)
"""what is wrong with how the command was called, rather than with the world"""

FIELDS = ("run_id", "job_id", "scheduled_at", "state", "attempt")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an error of ours into one line and an exit code; a person never sees a traceback for it."""
    try:
        yield
    except InterlockError as error:
        print(f"error: {error} [{error.code}]", file=sys.stderr)  # noqa: T201 - this is the command line's voice
        sys.exit(EXIT_USAGE if error.code in USAGE_CODES else EXIT_ERROR)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{name}={getattr(record, name)}" for name in FIELDS if hasattr(record, name))
        text = f"{at} {record.levelname.lower():7} {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return f"{text}  {fields}" if fields else text


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_to_stderr(level: str, form: str = "text") -> None:
    if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise BadValue("--log-level", level, "one of debug, info, warning, error")
    if form not in ("text", "json"):
        raise BadValue("--log-format", form, "one of text, json")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

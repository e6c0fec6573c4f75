"""Log to standard error, as text or JSON, with the fields of a run."""

import json
import logging
from datetime import UTC, datetime
from textwrap import indent

from interlock.cli.output import safe, safe_json

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
            "at": record.created,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in FIELDS if hasattr(record, name)},
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return safe_json(json.dumps(entry, ensure_ascii=False))


def log_to_stderr(level: str, form: str = "text") -> None:
    """Take `level` and `form` as in the settings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

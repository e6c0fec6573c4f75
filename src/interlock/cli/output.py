"""How the command line speaks: exit codes, and errors on one line with their code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from interlock.model.error import InterlockError


class Exit(IntEnum):
    """The exit codes, which scripts rely on."""

    FINE = 0
    ERROR = 1
    USAGE = 2
    UNKNOWN = 3
    NO_SERVER = 4
    NOT_SUCCEEDED = 5
    NOT_ALLOWED = 6
    OUT_OF_TIME = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANING = {
    Exit.FINE: "fine",
    Exit.ERROR: "an error",
    Exit.USAGE: "wrong usage, or bad input",
    Exit.UNKNOWN: "there is no such run, request, job or service",
    Exit.NO_SERVER: "no server answers",
    Exit.NOT_SUCCEEDED: "the run that was waited for did not succeed, or the service that was started is not up",
    Exit.NOT_ALLOWED: "not allowed",
    Exit.OUT_OF_TIME: "what was waited for takes longer",
    Exit.INTERRUPTED: "Ctrl-C",
    Exit.BROKEN_PIPE: "whoever read the output went away",
}

EXIT_OF = {
    "usage": Exit.USAGE,
    "bad_value": Exit.USAGE,
    "bad_duration": Exit.USAGE,
    "bad_payload": Exit.USAGE,
    "bad_json": Exit.USAGE,
    "not_json": Exit.USAGE,
    "bad_config": Exit.USAGE,
    "bad_cursor": Exit.USAGE,
    "unknown_field": Exit.USAGE,
    "missing_field": Exit.USAGE,
    "payload_too_large": Exit.USAGE,
    "body_too_large": Exit.USAGE,
    "cannot_import": Exit.USAGE,
    "bad_handler": Exit.USAGE,
    "duplicate_job": Exit.USAGE,
    "duplicate_service": Exit.USAGE,
    "tokens_needed": Exit.USAGE,
    "unknown_job": Exit.UNKNOWN,
    "unknown_run": Exit.UNKNOWN,
    "unknown_bulk": Exit.UNKNOWN,
    "run_pruned": Exit.UNKNOWN,
    "unknown_child": Exit.UNKNOWN,
    "not_running": Exit.NO_SERVER,
    "connection_lost": Exit.NO_SERVER,
    "run_not_succeeded": Exit.NOT_SUCCEEDED,
    "service_not_up": Exit.NOT_SUCCEEDED,
    "unauthorized": Exit.NOT_ALLOWED,
    "forbidden": Exit.NOT_ALLOWED,
    "wait_timeout": Exit.OUT_OF_TIME,
}
"""by the code of the error; every other is ERROR"""


class WrongUsage(InterlockError):
    """Options that do not go together."""

    code = "usage"


class NotUp(InterlockError):
    """A service that was started did not come up, or did not stay."""

    code = "service_not_up"


_DIRECTIONS = {
    number: f"\\u{number:04x}" for number in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""what changes the direction of writing: with it, a text reads as another"""
_CONTROLS = _DIRECTIONS | {
    number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"
}


def safe(text: str) -> str:
    """Without what a terminal would obey: what jobs and submitters write is shown to others."""
    return text.translate(_CONTROLS)


_RARE = _DIRECTIONS | {number: f"\\u{number:04x}" for number in range(127, 160)}
"""the controls that JSON may have as they are"""


def safe_json(text: str) -> str:
    """The same for JSON, which still means the same."""
    return text.translate(_RARE)


def say(text: str) -> None:
    """Tell the person at the terminal something that is not the output."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command line's voice


def say_error(message: str, code: str, in_json: bool = False) -> Exit:
    """Say what went wrong, and return what to exit with."""
    if in_json:
        import json

        say(safe_json(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False)))
    else:
        # The faults of files are told one by one, below a line that counts them.
        text, *faults = message.splitlines() if code == "bad_config" else [" ".join(message.splitlines())]
        say("\n  ".join([f"error: {safe(text)} [{code}]", *(safe(fault) for fault in faults)]))
    return EXIT_OF.get(code, Exit.ERROR)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an error of ours into one line and an exit code; a person never sees a traceback for it."""
    try:
        yield
    except InterlockError as error:
        sys.exit(say_error(str(error), error.code))

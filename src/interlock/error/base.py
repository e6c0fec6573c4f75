"""The root of all errors, and the families that give them status and exit code."""

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The exit codes of the command line, which scripts rely on."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        found = int.__new__(cls, value)
        found._value_ = value
        found.meaning = meaning
        return found

    FINE = 0, "success"
    ERROR = 1, "any other error"
    USAGE = 2, "wrong usage or bad input"
    UNKNOWN = 3, "no such run, bulk request, job or service"
    NO_SERVER = 4, "no server answers"
    NOT_SUCCEEDED = 5, "the awaited run did not succeed, or the started service is not up"
    NOT_ALLOWED = 6, "not allowed"
    OUT_OF_TIME = 7, "the awaited run has not ended in time"
    INTERRUPTED = 130, "interrupted by Ctrl-C"
    BROKEN_PIPE = 141, "the reader of the output went away"


ERRORS: dict[str, type["InterlockError"]] = {}  # code → the class that declares it


class InterlockError(Exception):
    """The server failed; its log says more."""

    code: ClassVar[str] = "internal"  # stable; programs rely on it
    status: ClassVar[int] = 500
    """HTTP status. The reference of HTTP leaves out errors that merely inherit 500: they never reach a client."""
    exit_code: ClassVar[ExitCode] = ExitCode.ERROR
    meaning: ClassVar[str] = __doc__ or ""  # the docstring, on one line
    retry_after: float | None = None  # seconds after which to try again, if that may help

    def __init_subclass__(cls, code: str = "", status: int = 0, exit_code: ExitCode | None = None) -> None:
        cls.meaning = " ".join((cls.__doc__ or "").split())
        if exit_code is not None:
            cls.exit_code = exit_code
        if status:
            cls.status = status
        if code:  # a family declares none
            cls.code = code
            ERRORS.setdefault(code, cls)


ERRORS[InterlockError.code] = InterlockError


def rebuild(code: str, message: str, retry_after: float | None = None) -> InterlockError:
    """Return the error that a peer reported by code and message."""
    kind = ERRORS.get(code, InterlockError)
    error = kind.__new__(kind)
    if retry_after is not None:
        error.retry_after = retry_after
    Exception.__init__(error, message if kind.code == code else f"{message} ({code})")
    return error


def shown(value: object, limit: int = 80) -> str:
    """Return a value as messages show it: quoted, on one line. A long value is left out, not cut: masking would not
    recognise a part of a secret."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's __repr__ may raise anything, and the message must still be made
        text = f"<{type(value).__name__}>"
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else f"<{type(value).__name__}, too long to show>"


def without_value(name: object) -> object:
    """Return a name as messages show it, without text after a `=`: that was meant as a value, and may be a secret."""
    if not isinstance(name, str) or "=" not in name:
        return name
    return name.partition("=")[0] + "=…"


class BadInput(InterlockError, status=400, exit_code=ExitCode.USAGE):
    """A given value is not valid."""


class BadDefinition(InterlockError, exit_code=ExitCode.USAGE):
    """An app or a file has a wrong definition."""


class Missing(InterlockError, status=404, exit_code=ExitCode.UNKNOWN):
    """The named thing does not exist."""


class Conflict(InterlockError, status=409):
    """The request conflicts with the present state."""


class TooLarge(BadInput, status=413):
    """A given value is too large."""


class NotAllowed(InterlockError, status=403, exit_code=ExitCode.NOT_ALLOWED):
    """The caller may not do this."""


class Unavailable(InterlockError, status=503):
    """The request is not possible at the moment; try again."""

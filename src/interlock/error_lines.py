"""Errors on standard error: one line with their code, and the exit code of the process."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.error import ERRORS, CannotImport, ExitCode, InterlockError
from interlock.fields.safe_text import safe, safe_json
from interlock.log_lines import JsonLines


def say(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command line's voice


def say_error(message: str, code: str, in_json: bool = False) -> ExitCode:
    """Print an error, and return its exit code."""
    if isinstance(sys.stderr, JsonLines):
        logging.getLogger("interlock").error("%s [%s]", message, code)
    elif in_json:
        import json

        say(safe_json(json.dumps({"error": {"code": code, "message": message}}, ensure_ascii=False)))
    else:
        # A line that counts faults comes before them.
        text, *faults = message.splitlines() if code == "bad_config" else [" ".join(message.splitlines())]
        say("\n  ".join([f"error: {safe(text)} [{code}]", *(safe(fault) for fault in faults)]))
    return ERRORS.get(code, InterlockError).exit_code


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an `InterlockError` into one line and an exit code."""
    try:
        yield
    except InterlockError as error:
        sys.exit(say_failure(error))


def say_failure(error: InterlockError, in_json: bool = False) -> ExitCode:
    """Print the error, after the traceback if a user's module failed to import; return the exit code."""
    if isinstance(error, CannotImport) and error.__cause__ is not None and not in_json:
        text = _traceback(error.__cause__)
        if text:
            say(safe(text))
    return say_error(str(error), error.code, in_json)


def _traceback(error: BaseException) -> str:
    """Return the traceback with the user's frames alone, without those of Interlock and of Python's import."""
    import importlib
    import traceback
    from pathlib import Path

    others = (str(Path(__file__).parent), importlib.__file__, "<frozen importlib")
    whole = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = whole
    while one is not None:
        one.stack = traceback.StackSummary.from_list([it for it in one.stack if not it.filename.startswith(others)])
        one = one.__cause__ or one.__context__
    return "".join(whole.format()).rstrip() if whole.stack or isinstance(error, SyntaxError) else ""

"""Output of the command line: errors on one line with their code."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.error import ERRORS, BadInput, CannotImport, ExitCode, InterlockError
from interlock.fields.safe_text import safe, safe_json
from interlock.log_lines import JsonLines


class WrongUsage(BadInput, code="usage"):
    """Options were combined that exclude each other."""


class NotUp(InterlockError, code="service_not_up", exit_code=ExitCode.NOT_SUCCEEDED):
    """A started service did not come up, or did not stay up."""


class AuditBroken(InterlockError, code="audit_broken"):
    """An entry of the audit was altered, removed or reordered."""


def say(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command line's voice


def mute(descriptor: int) -> None:
    """Drop all further output to a reader that has gone; otherwise Python reports an error when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def ask(question: str) -> None:
    """Ask on standard error, because standard output may be a pipe; raise unless the answer is yes."""
    import typer  # child processes do without it

    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


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

    others = (str(Path(__file__).parents[1]), importlib.__file__, "<frozen importlib")
    whole = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = whole
    while one is not None:
        one.stack = traceback.StackSummary.from_list([it for it in one.stack if not it.filename.startswith(others)])
        one = one.__cause__ or one.__context__
    return "".join(whole.format()).rstrip() if whole.stack or isinstance(error, SyntaxError) else ""

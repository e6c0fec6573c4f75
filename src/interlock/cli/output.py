"""Output of the command line: text that is safe to print, and errors on one line with their code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.model.error import ERRORS, BadInput, CannotImport, ExitCode, InterlockError


class WrongUsage(BadInput, code="usage"):
    """Options were combined that exclude each other."""


class NotUp(InterlockError, code="service_not_up", exit_code=ExitCode.NOT_SUCCEEDED):
    """A started service did not come up, or did not stay up."""


class AuditBroken(InterlockError, code="audit_broken"):
    """An entry of the audit was altered, removed or reordered."""


_DIRECTIONS = {
    number: f"\\u{number:04x}" for number in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
"""marks of writing direction, which can disguise a text"""
_CONTROLS = _DIRECTIONS | {
    number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"
}


def safe(text: str) -> str:
    """Escape control characters: a terminal would obey those of a job or a submitter."""
    return text.translate(_CONTROLS)


_RARE = _DIRECTIONS | {number: f"\\u{number:04x}" for number in range(127, 160)}
"""control characters that JSON allows unescaped"""


def safe_json(text: str) -> str:
    """Escape control characters in JSON without changing its meaning."""
    return text.translate(_RARE)


def say(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command line's voice


def ask(question: str) -> None:
    """Ask on standard error, because standard output may be a pipe; raise unless the answer is yes."""
    import typer  # child processes do without it

    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


def say_error(message: str, code: str, in_json: bool = False) -> ExitCode:
    """Print an error, and return its exit code."""
    if in_json:
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

"""Output of the command line: errors on one line with their code."""

import os
import sys
from collections.abc import Iterable

from interlock.error import BadInput, BadValue, ExitCode, InterlockError
from interlock.fields.field_types import did_you_mean


class WrongUsage(BadInput, code="usage"):
    """Options were combined that exclude each other."""


class NotUp(InterlockError, code="service_not_up", exit_code=ExitCode.NOT_SUCCEEDED):
    """A started service did not come up, or did not stay up."""


class AuditBroken(InterlockError, code="audit_broken"):
    """An entry of the audit was altered, removed or reordered."""


def check_choice(field: str, value: str | None, known: Iterable[str]) -> None:
    """Refuse a value that is none of the known ones; None is not given."""
    words = [str(word) for word in known]
    if value is not None and value not in words:
        raise BadValue(field, value, f"one of {', '.join(words)}{did_you_mean(value, words)}")


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

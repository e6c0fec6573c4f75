"""Output of the command line: errors on one line with their code."""

import os
import sys

from interlock.error import BadInput, ExitCode, InterlockError


class WrongUsage(BadInput, code="usage"):
    """Options were combined that exclude each other."""


class NotUp(InterlockError, code="service_not_up", exit_code=ExitCode.NOT_SUCCEEDED):
    """A started service did not come up, or did not stay up."""


class AuditBroken(InterlockError, code="audit_broken"):
    """An entry of the audit was altered, removed or reordered."""


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

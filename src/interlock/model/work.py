"""The work of a job that is not a function of the app; each dispatch carries it."""

import re
import shlex

import msgspec

from interlock.model.error import BadValue

FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*|[^\x00\n]*\.py):[^\W\d]\w*(\.[^\W\d]\w*)*")


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of the process and each one that it starts; None for those of the worker."""

    memory: int | None = None
    """bytes of address space"""
    cpu: float | None = None
    """seconds of processor time, after which it is killed"""
    files: int | None = None
    processes: int | None = None
    """of the same user"""


class ProcessWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="process"):
    """A program. Its exit code decides, and its output is the run's log."""

    command: tuple[str, ...]
    env: dict[str, str | None] = {}
    """None removes a variable"""
    cwd: str | None = None
    stdin: bool = True
    """whether to write the payload to it, as one line of JSON; otherwise it is empty"""
    limits: ProcessLimits = ProcessLimits()


class FunctionWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="function"):
    """A function that the worker imports on first use: `module:name`, or `path/to/file.py:name`."""

    function: str

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not FUNCTION.fullmatch(self.function):
            raise BadValue("function", self.function, "of the form module:name or path/to/file.py:name")


Work = ProcessWork | FunctionWork


def shell(text: str) -> tuple[str, ...]:
    """Return the command that runs this text in a shell."""
    return ("/bin/sh", "-c", text)


def command_of(work: Work) -> str:
    return shlex.join(work.command) if isinstance(work, ProcessWork) else work.function

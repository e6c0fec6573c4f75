"""What a job does where it is not a function of the app: the worker is told with every attempt."""

import re
import shlex

import msgspec

from interlock.model.error import BadValue

FUNCTION = re.compile(r"([^\W\d]\w*(\.[^\W\d]\w*)*|[^\x00\n]*\.py):[^\W\d]\w*(\.[^\W\d]\w*)*")


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the process, and each one that it starts, may take; None is what the worker itself may."""

    memory: int | None = None
    """bytes of address space"""
    cpu: float | None = None
    """seconds of processor time; then it is killed"""
    files: int | None = None
    processes: int | None = None
    """of the same user"""


class ProcessWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="process"):
    """A program. Its exit code decides, and what it prints is the run's log."""

    command: tuple[str, ...]
    env: dict[str, str | None] = {}
    """None takes a variable away"""
    cwd: str | None = None
    stdin: bool = True
    """the payload is written to it, as one line of JSON; otherwise there is nothing to read"""
    limits: ProcessLimits = ProcessLimits()


class FunctionWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="function"):
    """A function that the worker imports when it is first needed: `module:name`, or `path/to/file.py:name`."""

    function: str

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or not FUNCTION.fullmatch(self.function):
            raise BadValue("function", self.function, "of the form module:name or path/to/file.py:name")


Work = ProcessWork | FunctionWork


def shell(text: str) -> tuple[str, ...]:
    """The command that has a shell read this."""
    return ("/bin/sh", "-c", text)


def command_of(work: Work) -> str:
    """As it is told to people."""
    return shlex.join(work.command) if isinstance(work, ProcessWork) else work.function

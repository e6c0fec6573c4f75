"""A child that is a process, in a session of its own, started and watched by the guard."""

import asyncio
import errno
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from interlock.error import CannotStart, shown
from interlock.fields.field_types import Command, FieldPath
from interlock.model.work import Limits
from interlock.supervision.goal import unless, words
from interlock.supervision.guard_child import DEFAULT_PATH
from interlock.supervision.guard_client import Ended, NotSpawned, Program, Spawned
from interlock.supervision.guard_link import is_inherited
from interlock.supervision.instance import Birth, NativeInstance, Surroundings
from interlock.supervision.output import STREAMS, Output
from interlock.supervision.spec import Process

OWN_VARIABLES = {
    "INTERLOCK_PREV_SIGNAL",
    *("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"),
    *("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"),
}
"""variables for the supervisor itself, from the one above it and from systemd, which its children must not get"""
_NOT_A_PROGRAM = "is not a program"
_REASONS = {
    ("command", errno.EACCES): "is not executable",
    ("command", errno.ENOEXEC): _NOT_A_PROGRAM,
    ("command", errno.EINVAL): _NOT_A_PROGRAM,
    ("command", errno.E2BIG): "has arguments, or variables, that are too long",
    ("interpreter", errno.ENOENT): "needs an interpreter that is not found",
    ("cwd", errno.ENOENT): "is not found",
    ("cwd", errno.ENOTDIR): "is not a folder",
    ("cwd", errno.EACCES): "may not be entered",
}


class ProcessInstance(NativeInstance):
    can_suspend = True

    def __init__(self, spec: Process, birth: Birth, around: Surroundings) -> None:
        super().__init__(birth, around)
        self._spec = spec
        self._guard = around.guard
        self._output = Output(self._deliver, lambda: self.on_line)
        self._process: Spawned | None = None
        self._is_killed = asyncio.Event()

    async def start(self) -> None:
        command: tuple[str, ...] = ()
        pipes: dict[int, int] = {}
        try:
            command = self._command()
            for number, stream in STREAMS.items() if self._spec.capture else ():
                pipes[number] = self._output.open(stream)
            program = Program(
                command=command,
                environment=self._environment(),
                cwd=self._spec.cwd,
                limits=self._spec.limits,
                outlives=self._spec.outlives,
                descriptors=self._inherited() | pipes,
            )
            self._process = await self._guard.spawn(program)
        except BaseException as error:
            self._output.close()
            if isinstance(error, (NotSpawned, OSError, UnicodeError)):
                spec, path = self._spec, self._environment().get("PATH")
                reason = reason_of(error, command, spec.cwd, spec.limits, path, spec.pass_fds)
                raise CannotStart(self._birth.path, reason) from error
            raise
        finally:
            for pipe in pipes.values():
                os.close(pipe)
        self.pid = self._process.pid
        self._process.exit.add_done_callback(self._exited)
        if self._is_killed.is_set():
            self._send(signal.SIGKILL)

    def _command(self) -> tuple[str, ...]:
        if not callable(self._spec.command):
            return tuple(self._spec.command)
        try:
            return Command().check(self._spec.command(self._birth), FieldPath("command"))
        except Exception as error:
            raise CannotStart(self._birth.path, f"command: {words(error)}") from error

    def _environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        given = {**own, **self._spec.env, **self._birth.environment()}
        return {name: value for name, value in given.items() if value is not None}

    def _inherited(self) -> dict[int, int]:
        found = {descriptor: descriptor for descriptor in self._spec.pass_fds}
        if not self._spec.capture:
            for number in STREAMS:
                # A supervisor without a stream of its own has none to pass on.
                if is_inherited(number):
                    found.setdefault(number, number)
        return found

    def _exited(self, future: "asyncio.Future[Ended]") -> None:
        ended = future.result()
        try:
            # Nothing is left that could still print, so all of its output is in the pipes now.
            self._output.close()
        finally:
            self.settle(self._exit(ended.code, signal=ended.signal, error=ended.error))

    @property
    def _is_spared(self) -> bool:
        return self._around.spares and self._spec.outlives

    async def stop(self, timeout: float) -> None:
        self._is_asked = True
        if self._process is None:
            self.settle(self._exit(0))
            return
        if self._is_spared:
            self._send(signal.SIGCONT)
            self._guard.let_go(self._process)
            await asyncio.wait([self.ended])
            return
        if timeout > 0:
            self._send(signal.SIGTERM)
            # A suspended process could not end.
            self._send(signal.SIGCONT)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await unless(self._is_killed.wait(), self.ended)
        if not self.ended.done():
            self.kill()
            await self._guard.finish(self._process)
            await asyncio.wait([self.ended])

    def kill(self) -> None:
        if self._is_spared and self._process is not None:
            return
        self._is_killed.set()
        if not self.ended.done():
            self.forced = self.forced or self._is_asked
            self._send(signal.SIGKILL)

    async def suspend(self) -> None:
        self._send(signal.SIGSTOP)

    async def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self._process is not None:
            self._guard.signal(self._process, number)


def reason_of(
    error: NotSpawned | OSError | UnicodeError,
    command: Sequence[str],
    cwd: str | None,
    limits: Limits,
    path: str | None,
    pass_fds: Sequence[int] = (),
) -> str:
    """Return why it was not started, in one line: the field, its value, and the reason."""
    if not isinstance(error, NotSpawned):
        return f"command: {error}"
    if error.stage == "guard":
        return str(error)
    if error.stage.startswith("limits."):
        value = getattr(limits, error.stage.removeprefix("limits."))
        return f"{error.stage}: {shown(value)} is more than is allowed here"
    if (error.stage, error.number) == ("command", errno.ENOENT):
        return f"command: {shown(command[0])} is not found{_searched(command[0], cwd, path)}"
    field, value, trouble = {
        "cwd": ("cwd", cwd, "cannot be entered"),
        "descriptors": ("pass_fds", pass_fds, "cannot be handed on"),
    }.get(error.stage, ("command", command[0], "cannot be started"))
    return f"{field}: {shown(value)} {_REASONS.get((error.stage, error.number), f'{trouble} ({error})')}"


def _searched(program: str, cwd: str | None, path: str | None) -> str:
    """Return where a program was looked for, and what to do."""
    if program.startswith("/"):
        return ""
    if "/" in program:
        return f" in {shown(cwd or os.getcwd(), 200)}"
    return f" in PATH ({shown(path or DEFAULT_PATH.decode(), 1000)}); give its whole path, or set PATH in env"

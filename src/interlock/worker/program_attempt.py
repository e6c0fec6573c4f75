"""An attempt that is a program: a process, started and watched by the worker's own guard.

None of its processes outlives the attempt or the worker, however that ends. Like the worker, it outlives the scheduler.
"""

import fcntl
import glob
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress

from interlock.error import BadUse, InterlockError
from interlock.fields import payload
from interlock.fields.environment import Environment
from interlock.fields.field_types import Command, FieldPath
from interlock.model.failure import Outcome
from interlock.model.work import ProcessWork
from interlock.ports.clock import elapsed
from interlock.supervision.guard_client import NotSpawned, Program, Spawned
from interlock.supervision.output import STREAMS
from interlock.supervision.process import OWN_VARIABLES, reason_of
from interlock.wire import message as m
from interlock.worker.pool import how_ended
from interlock.worker.process_log import ProcessLog, secrets_of
from interlock.worker.work_attempt import (
    PAYLOAD,
    PAYLOADS,
    RESULT,
    WorkAttempt,
    WorkParts,
    allowed,
    checked_result,
    line_of,
    too_long,
    variables_of,
)

PREFIX = "interlock-programs-"


class ProgramFolder:
    """The folder of all programs of a worker, made for the first one and locked. A worker that is killed leaves its
    folder, and the next one on the machine removes it. Only their user can read the files in it."""

    def __init__(self) -> None:
        self._path = ""
        self._lock = -1

    def add(self, given: bytes) -> "ProgramFiles":
        if not os.path.isdir(self._path):  # no program before, or the system has cleaned up
            self.close()
            _remove_left()
            self._path = tempfile.mkdtemp(prefix=PREFIX)
            self._lock = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return ProgramFiles(tempfile.mkdtemp(dir=self._path), given)

    def close(self) -> None:
        if self._path:
            shutil.rmtree(self._path, ignore_errors=True)
            os.close(self._lock)
            self._path = ""


class ProgramFiles:
    def __init__(self, folder: str, given: bytes) -> None:
        self._folder = folder
        self._result = os.path.join(folder, "result.json")
        payload_name = os.path.join(folder, "payload.json")
        self.variables: dict[str, str | None] = {PAYLOAD: payload_name, RESULT: self._result}
        for name, data in ((payload_name, given), (self._result, b"")):
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)

    def result(self, redact: Callable[[str], str]) -> bytes:
        """Return what the program has written, `null` if that is nothing; raise if it cannot be a result."""
        try:
            # The program may have put another file in its place: do not wait for a pipe, nor follow a link.
            descriptor = os.open(self._result, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return b"null"
        except OSError as error:
            raise BadUse(RESULT, f"the file cannot be read: {error.strerror}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise BadUse(RESULT, "the file cannot be read: not a regular file")
            if status.st_size > payload.LIMIT:
                raise too_long(status.st_size)
            return checked_result(os.read(descriptor, payload.LIMIT), redact)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _remove_left() -> None:
    """Remove the folders of workers that were killed: nobody has them locked."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), f"{PREFIX}*")):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # An empty one may belong to a worker that is about to lock it.
                if os.fstat(descriptor).st_uid == os.geteuid() and os.listdir(descriptor):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


NOT_HANDED_ON = OWN_VARIABLES | {"INTERLOCK_URL", "INTERLOCK_TOKEN", "INTERLOCK_RESUME_ID", "INTERLOCK_PREV_EXIT"}
"""variables of the worker itself, which its programs do not get"""
FURTHER = 3  # descriptor with all payloads of a run that has collected some
XCPU_IN_SHELL = 128 + signal.SIGXCPU  # exit code of a shell whose command was ended by that signal


class ProgramAttempt(WorkAttempt):
    def __init__(self, parts: WorkParts, folder: ProgramFolder, dispatch: m.Dispatch) -> None:
        assert isinstance(dispatch.work, ProcessWork)
        self._work = dispatch.work
        self._folder = folder
        self._process: Spawned | None = None
        self._files: ProgramFiles | None = None
        super().__init__(parts, dispatch)

    def _terminate(self) -> None:
        if self._process is not None:
            self._parts.guard.signal(self._process, signal.SIGTERM)
            # A suspended process could not end.
            self._parts.guard.signal(self._process, signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._parts.tasks.begin(self._parts.guard.finish(self._process))

    def _clean_up(self) -> None:
        if self._files is not None:
            self._files.remove()

    async def _live(self) -> m.Message:
        if self._is_asked:
            return self._finished(Outcome.CANCELLED)
        self._is_starting = True
        work = self._work
        try:
            self._parts.guard.open()
            if elapsed() > self._dispatch.begin_by:
                return m.Expired(*self._key)
            self._process = await self._start()
        except (NotSpawned, OSError, UnicodeError) as error:
            if isinstance(error, NotSpawned) and error.stage == "guard":
                return m.Lost(*self._key, str(error))
            return self._failed(
                reason_of(error, work.command, work.cwd, work.limits, {**os.environ, **work.env}.get("PATH"))
            )
        except InterlockError as error:
            return self._failed(str(error))
        self._tell()
        if self._is_asked:
            self._terminate()
        ended = await self._process.exit
        assert self._log is not None
        assert self._files is not None
        # Nothing is left that could still print, so all of its output is in the pipes now.
        self._log.close()
        if ended.code is None and ended.signal is None:
            return m.Lost(*self._key, ended.error)
        exit_code = ended.code if ended.code is not None else -(ended.signal or 0)
        files = self._files
        return self._ended(exit_code, self._how(exit_code), lambda: files.result(self._redact))

    async def _start(self) -> Spawned:
        """Return when it executes its program."""
        payloads = self._dispatch.payloads
        command = Command().check(self._work.command, FieldPath("command"))
        env = Environment().check(self._work.env, FieldPath("env"))
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_HANDED_ON}
        self._redact = secrets_of(
            [payload.decode(encoded) for encoded in payloads], env, inherited, self._parts.is_secret
        )
        log = self._log = ProcessLog(self._dispatch, self._tell, self._redact)
        variables = {**allowed({**inherited, **env}, self._dispatch.limits), **variables_of(self._dispatch)}
        descriptors: dict[int, int] = {}
        self._files = self._folder.add(line_of(payloads[-1]))
        variables |= self._files.variables
        try:
            for number, stream in STREAMS.items():
                descriptors[number] = log.open(stream)
            if self._work.stdin:
                descriptors[0] = _file_of(line_of(payloads[-1]))
            if len(payloads) > 1:
                descriptors[FURTHER] = _file_of(b"".join(map(line_of, payloads)))
                variables[PAYLOADS] = f"/dev/fd/{FURTHER}"
            program = Program(
                command=command,
                environment={name: value for name, value in variables.items() if value is not None},
                cwd=self._work.cwd,
                limits=self._work.limits,
                descriptors=descriptors,
            )
            return await self._parts.guard.spawn(program)
        except BaseException:
            log.close()
            raise
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)

    def _how(self, exit_code: int) -> str:
        cpu = self._work.limits.cpu
        if cpu is not None and exit_code in (-signal.SIGXCPU, XCPU_IN_SHELL):
            return f"used up its {cpu:g}s of processor time (limits.cpu)"
        return how_ended(exit_code)


def _file_of(data: bytes) -> int:
    """Return a file in memory with this data: unlike a pipe it holds everything, even if nobody reads it."""
    descriptor = os.memfd_create("payload")
    try:
        written = 0
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], written)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor

"""An attempt that is a program: a process, started and watched by the worker's own guard.

None of its processes outlives the attempt or the worker, however that ends. Like the worker, it outlives the scheduler.
"""

import asyncio
import fcntl
import glob
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import msgspec

from interlock.error import BadUse, InterlockError
from interlock.fields import payload
from interlock.fields.environment import Environment
from interlock.fields.field_types import Command, FieldPath
from interlock.fields.secret import Secret, from_json, is_marked, matcher
from interlock.model.failure import Outcome
from interlock.model.labels import SAGA_LABELS
from interlock.model.policy.verdict import RunLimits
from interlock.model.work import ProcessWork
from interlock.ports.clock import elapsed
from interlock.ports.executor import Key, Report
from interlock.supervision.guard_client import Ended, Guard, NotSpawned, Program, Spawned
from interlock.supervision.output import STREAMS
from interlock.supervision.process import OWN_VARIABLES, reason_of
from interlock.task_set import TaskSet
from interlock.wire import message as m
from interlock.wire.claim import VARIABLE, Claim
from interlock.worker.context import clean
from interlock.worker.pool import how_ended
from interlock.worker.process_log import ProcessLog, secrets_of
from interlock.worker.redaction import NO_SECRETS

PREFIX = "interlock-programs-"
RESULT = "INTERLOCK_RESULT"


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
        self.variables: dict[str, str | None] = {"INTERLOCK_PAYLOAD": payload_name, RESULT: self._result}
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
            status, limit = os.fstat(descriptor), payload.LIMIT
            if not stat.S_ISREG(status.st_mode):
                raise BadUse(RESULT, "the file cannot be read: not a regular file")
            if (size := status.st_size) > limit:
                raise BadUse(RESULT, f"the result has {size:,} bytes; the limit is {limit:,}")
            data = redact((os.read(descriptor, limit) or b"null").decode(errors="replace")).encode()
        finally:
            os.close(descriptor)
        if (fault := payload.fault_of(data, "result")) is not None:
            raise BadUse(RESULT, f"{fault}; it has {size:,} bytes, of {limit:,} that are allowed")
        return data

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


class ProgramParts:
    """The parts that all programs of a worker share."""

    def __init__(self, ended: Callable[[Key, m.Message], None], report: Report, secret_names: Sequence[str]) -> None:
        self.ended = ended
        self.report = report
        self.is_secret = matcher(tuple(secret_names))
        self.is_closing = False
        self.guard = Guard()
        self.folder = ProgramFolder()
        self.tasks = TaskSet()

    async def close(self) -> None:
        self.is_closing = True
        await self.guard.close()
        await self.tasks.end()
        self.folder.close()


class ProgramAttempt:
    def __init__(self, parts: ProgramParts, dispatch: m.Dispatch) -> None:
        assert isinstance(dispatch.work, ProcessWork)
        self._parts = parts
        self._dispatch = dispatch
        self._key: Key = dispatch.key
        self._work = dispatch.work
        self._redact = NO_SECRETS
        self._log: ProcessLog | None = None
        self._is_asked = False
        self._is_starting = False
        self._is_running = False
        self._process: Spawned | None = None
        self._files: ProgramFiles | None = None
        self._task = parts.tasks.begin(self._run())

    def stop(self) -> None:
        """Send TERM, the only request that a process knows."""
        if self._is_asked or self._is_running:
            self._terminate()
        elif self._is_starting:
            self._task.cancel()
        self._is_asked = True

    def _terminate(self) -> None:
        if self._process is not None:
            self._parts.guard.signal(self._process, signal.SIGTERM)
            # A suspended process could not end.
            self._parts.guard.signal(self._process, signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._parts.tasks.begin(self._parts.guard.finish(self._process))

    async def _run(self) -> None:
        """Report its end, whatever happens."""
        try:
            message = await self._live()
        except asyncio.CancelledError:
            message = self._finished(Outcome.CANCELLED)
        except Exception as error:  # noqa: BLE001 - no attempt may stay without an end
            message = self._failed(f"{type(error).__name__}: {error}")
        finally:
            if self._files is not None:
                self._files.remove()
        self._parts.ended(self._key, message)

    def _tell(self, message: m.Message | None = None) -> None:
        """Report its start if that is not done yet, because its output may arrive first, and then the message."""
        if not self._is_running:
            self._is_running = True
            self._parts.report(m.Started(*self._key))
        if message is not None:
            self._parts.report(message)

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
        return self._ended(await self._process.exit)

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
        variables = {**_allowed({**inherited, **env}, self._dispatch.limits), **_variables(self._dispatch)}
        descriptors: dict[int, int] = {}
        self._files = self._parts.folder.add(_line_of(payloads[-1]))
        variables |= self._files.variables
        try:
            for number, stream in STREAMS.items():
                descriptors[number] = log.open(stream)
            if self._work.stdin:
                descriptors[0] = _file_of(_line_of(payloads[-1]))
            if len(payloads) > 1:
                descriptors[FURTHER] = _file_of(b"".join(map(_line_of, payloads)))
                variables["INTERLOCK_PAYLOADS"] = f"/dev/fd/{FURTHER}"
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

    def _ended(self, ended: Ended) -> m.Message:
        assert self._log is not None
        # Nothing is left that could still print, so all of its output is in the pipes now.
        self._log.close()
        if ended.code is None and ended.signal is None:
            return m.Lost(*self._key, ended.error)
        exit_code = ended.code if ended.code is not None else -(ended.signal or 0)
        if self._parts.is_closing:
            return m.Lost(*self._key, f"its process {how_ended(exit_code)}", exit_code)
        if self._is_asked:
            # Many programs exit with 0 after TERM although their work is not done.
            return self._finished(Outcome.CANCELLED, None, exit_code)
        if exit_code == 0:
            assert self._files is not None
            try:
                return m.Finished(*self._key, Outcome.SUCCEEDED, self._files.result(self._redact), None, 0)
            except InterlockError as error:
                return self._finished(Outcome.FAILED_FATAL, self._redact(clean(str(error))), 0)
        return self._failed(self._how(exit_code), exit_code, self._log.last_lines())

    def _how(self, exit_code: int) -> str:
        cpu = self._work.limits.cpu
        if cpu is not None and exit_code in (-signal.SIGXCPU, XCPU_IN_SHELL):
            return f"used up its {cpu:g}s of processor time (limits.cpu)"
        return how_ended(exit_code)

    def _failed(self, why: str, exit_code: int | None = None, last_lines: Sequence[str] = ()) -> m.Message:
        """Put the reason into the last line, which is shown where only one line fits."""
        *before, last = last_lines or ("",)
        text = self._redact(clean(why))
        error = "\n".join([*before, f"{text}: {last}" if last else text])
        return self._finished(Outcome.FAILED, error, exit_code)

    def _finished(self, outcome: Outcome, error: str | None = None, exit_code: int | None = None) -> m.Message:
        return m.Finished(*self._key, outcome, None, error, exit_code)


def _variables(dispatch: m.Dispatch) -> dict[str, str]:
    """Return the variables that describe the run."""
    found = {
        "INTERLOCK_RUN_ID": dispatch.run_id,
        "INTERLOCK_JOB_ID": dispatch.job_id,
        "INTERLOCK_ATTEMPT": str(dispatch.attempt),
        "INTERLOCK_TENANT": dispatch.tenant,
        VARIABLE: str(Claim(dispatch.proof, dispatch.fence, dispatch.tenant, dispatch.run_id)),
    }
    found |= {name: (dispatch.labels or {})[name] for name in SAGA_LABELS if name in (dispatch.labels or {})}
    if dispatch.scheduled_at:
        scheduled_at = datetime.fromtimestamp(dispatch.scheduled_at, UTC)
        found["INTERLOCK_SCHEDULED_AT"] = scheduled_at.isoformat().replace("+00:00", "Z")
    return found


def _allowed(variables: dict[str, str | None], limits: RunLimits | None) -> dict[str, str | None]:
    """Return the variables that the policy lets a program have."""
    if limits is None or limits.environment is None:
        return variables
    return {
        name: value
        for name, value in variables.items()
        if any(fnmatchcase(name, pattern) for pattern in limits.environment)
    }


def _line_of(given: bytes) -> bytes:
    """Return a payload as one line of JSON, with its secrets as plain texts for the program."""
    if is_marked(given):
        given = msgspec.json.encode(from_json(payload.decode(given)), enc_hook=Secret.reveal)
    # JSON texts contain no line breaks.
    return given.replace(b"\n", b" ") + b"\n"


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

"""The files of programs: a payload, and the result that the program writes. Only their user can read them.

All programs of a worker share a folder that the worker has locked. A worker that is killed leaves its folder, and the
next one on the machine removes it.
"""

import fcntl
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress

from interlock.error import BadUse
from interlock.fields import payload

PREFIX = "interlock-programs-"
RESULT = "INTERLOCK_RESULT"


class ProgramFolder:
    """Made for the first program."""

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

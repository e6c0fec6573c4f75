"""Turn a fork of the guard into a child: session, signals, limits and descriptors, then its program.

Like the guard, it imports little.
"""

import ctypes
import errno
import marshal
import os
import signal
from collections.abc import Iterable

from interlock.supervision.lineage import tried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ResourceLimit = tuple[str, int, int]  # name, number of the resource, value
ChildPlan = tuple[list[bytes], dict[bytes, bytes], bytes, list[ResourceLimit], bool]
"""command, environment, folder, limits, and whether it outlives the supervisor"""

PR_SET_PDEATHSIG = 1
OOM_SCORE = 500
DEFAULT_PATH = b"/bin:/usr/bin"
prctl = ctypes.CDLL(None).prctl


def become(
    plan: ChildPlan, descriptors: dict[int, int], status: int, parent: int, altered: Iterable[int]
) -> "NoReturn":
    """In the new process, execute the program of the plan, or report why not. All other descriptors are closed."""
    command, environment, folder, limits, outlives = plan
    stage = "fork"
    try:
        os.setsid()
        if not outlives:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        for number in altered:
            signal.signal(number, signal.SIG_DFL)
        _prefer_for_oom()
        stage = "cwd"
        os.chdir(folder)
        stage = "descriptors"
        status = _aside(status, descriptors)
        _connect(descriptors)
        for name, limit, value in limits:
            import resource

            stage = name
            # The signal for processor time comes a second before the kill, so that the exit shows the reason.
            resource.setrlimit(limit, (value, value + (limit == resource.RLIMIT_CPU)))
        stage = "command"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage, code = _execute(command, environment)
    except OSError as error:
        code = error.errno or 0
    except MemoryError:
        code = errno.ENOMEM
    except BaseException:  # noqa: BLE001 - whatever happens, this fork must not go on as a guard
        code = errno.EPERM
    try:
        os.write(status, marshal.dumps((stage, code)))
    finally:
        os._exit(127)


def _execute(command: list[bytes], environment: dict[bytes, bytes]) -> tuple[str, int]:
    """Become the program. Return only on failure: the stage and the number of the error."""
    name = command[0]
    if b"/" in name:
        paths = [name]
    else:
        paths = [(folder or b".") + b"/" + name for folder in environment.get(b"PATH", DEFAULT_PATH).split(b":")]
    why = ("command", errno.ENOENT)
    for path in paths:
        try:
            os.execve(path, command, environment)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                if tried(os.access, path, os.F_OK) == 1:
                    return "interpreter", errno.ENOENT
            elif error.errno == errno.EACCES:
                why = ("command", errno.EACCES)
            elif error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                # The folder may be at fault.
                why = why if why[1] == errno.EACCES else ("command", error.errno)
            else:
                return "command", error.errno or 0
    return why


def _connect(descriptors: dict[int, int]) -> None:
    sources = [(_aside(source, descriptors), target) for target, source in descriptors.items()]
    # A child gets none of the guard's own streams.
    for source, target in [(0, 1), (0, 2), *sources]:
        os.dup2(source, target)


def _aside(descriptor: int, targets: dict[int, int]) -> int:
    """Return the descriptor, or a copy of it, under a number that is no target."""
    while descriptor in targets:
        descriptor = os.dup(descriptor)
    return descriptor


def _prefer_for_oom() -> None:
    """Make the system end this process before the supervisor when memory runs out."""
    if (descriptor := tried(os.open, "/proc/self/oom_score_adj", os.O_RDWR)) >= 0:
        try:
            if int(os.read(descriptor, 16)) < OOM_SCORE:
                os.write(descriptor, str(OOM_SCORE).encode())
        except OSError:
            pass  # the system then treats it like any other process
        os.close(descriptor)

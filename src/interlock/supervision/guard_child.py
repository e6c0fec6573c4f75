"""How the guard's copy of itself becomes a child: its session, signals, limits and descriptors, and then its program.

Like the guard it imports little.
"""

import ctypes
import errno
import marshal
import os
import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    Limit = tuple[str, int, int]
    """what it is called, the number of the resource, and the value"""
    Plan = tuple[list[bytes], dict[bytes, bytes], bytes | None, list[Limit], bool]
    """command, environment, folder, limits, and whether it outlives the supervisor"""
else:
    import _signal as signal

PR_SET_PDEATHSIG = 1
prctl = ctypes.CDLL(None).prctl


def become(plan: "Plan", descriptors: dict[int, int], status: int, parent: int, altered: "Iterable[int]") -> "NoReturn":
    """In the new process: be what was asked for, or say why not. What else is open is closed by executing a program."""
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
        if folder is not None:
            stage = "cwd"
            os.chdir(folder)
        stage = "descriptors"
        status = _aside(status, descriptors)
        sources = [(_aside(source, descriptors), target) for target, source in descriptors.items()]
        for source, target in sources:
            os.dup2(source, target)
        for name, limit, value in limits:
            stage = name
            resource.setrlimit(limit, (value, value))
        stage = "command"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        stage, code = _execute(command, environment)
    except OSError as error:
        code = error.errno or 0
    except MemoryError:
        code = errno.ENOMEM
    except BaseException:  # noqa: BLE001 - whatever happens, this copy of the guard must not go on as one
        code = errno.EPERM
    try:
        os.write(status, marshal.dumps((stage, code)))
    finally:
        os._exit(127)


def _execute(command: list[bytes], environment: dict[bytes, bytes]) -> tuple[str, int]:
    """Become the program; if that cannot be, why: what it fails for, and the number of the error."""
    name = command[0]
    folders = [b""] if b"/" in name else environment.get(b"PATH", os.defpath.encode()).split(b":")
    why = ("command", errno.ENOENT)
    for folder in folders:
        path = os.path.join(folder, name)
        try:
            os.execve(path, command, environment)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                if os.path.exists(path):
                    return "interpreter", errno.ENOENT
            elif error.errno == errno.EACCES:
                why = ("command", errno.EACCES)
            else:
                return "command", error.errno or 0
    return why


def _aside(descriptor: int, targets: dict[int, int]) -> int:
    """The descriptor, or a copy of it, under a number that nothing else will be put to."""
    while descriptor in targets:
        descriptor = os.dup(descriptor)
    return descriptor


def _prefer_for_oom() -> None:
    """When memory runs out, this process goes before the supervisor does."""
    if (descriptor := tried(os.open, "/proc/self/oom_score_adj", os.O_WRONLY)) >= 0:
        tried(os.write, descriptor, b"500")
        os.close(descriptor)


def tried(call: "Callable[..., Any]", *values: object) -> int:
    """What the system answers; -1 where it refuses, most often because a process is gone."""
    try:
        return call(*values)  # type: ignore[no-any-return]
    except OSError:
        return -1

"""The processes of this machine as /proc shows them, and the mark that each child of a guard inherits and passes on.

The guard and the supervisor share this module. Like the guard, it imports little.
"""

import os
import signal
from collections.abc import Callable

MARKER = "INTERLOCK_CHILD"
"""environment variable of the mark: `identity.number` for each guard above, the outermost first"""
NOT_YET = -1


def tried(call: Callable[..., object], *values: object) -> int:
    """Return the result of a system call; -1 if it fails, usually because the process is gone."""
    try:
        return call(*values)  # type: ignore[return-value] # a number wherever it is used
    except OSError:
        return -1


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def facts(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; none if the process does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def is_dead(of: list[bytes]) -> bool:
    """Return whether a process has died, reaped or not. A zombie with threads has lost only its first one."""
    return not of or (of[0] in (b"Z", b"X") and int(of[17]) <= 1)


def parent(of: list[bytes]) -> int:
    return int(of[1]) if of else 0


def start(of: list[bytes]) -> int:
    """Return the start time, which distinguishes two processes with the same pid."""
    return int(of[19]) if of else NOT_YET


def kill(pid: int, started: int) -> None:
    """Kill this process, but not a later one with the same pid."""
    if (descriptor := tried(os.pidfd_open, pid)) >= 0:
        if start(facts(pid)) == started:
            tried(signal.pidfd_send_signal, descriptor, signal.SIGKILL)
        os.close(descriptor)


def marked(pid: int, token: bytes) -> int | None:
    """Return the number in a process's mark of this guard; None without a mark, NOT_YET while that is unknown."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except ProcessLookupError:
        return NOT_YET
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(MARKER.encode() + b"="):
            for mark in variable.partition(b"=")[2].split(b"/"):
                if mark.startswith(token) and mark[len(token) :].isdigit():
                    return int(mark[len(token) :])
    # While a process executes a program or ends, its environment is empty or incomplete. It has no mark only if its
    # whole environment has none and the system, as its last step, has set the program's address.
    if not (fields := facts(pid)):
        return NOT_YET
    program, begin, end = int(fields[23]), int(fields[47]), int(fields[48])
    return None if program and end and end - begin == len(environment) else NOT_YET

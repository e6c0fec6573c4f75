"""Which processes there are, and whose: by parents and by the mark that every child of a guard is given and hands down.

The guard and the supervisor share it. Like the guard it imports little.
"""

import os
import signal
from collections.abc import Callable, Iterable

Children = Callable[[int], Iterable[int]]

MARKER = "INTERLOCK_CHILD"
"""the variable by which a descendant is known: `identity.number` for each guard above it, the outermost first"""
NOT_YET = -1


def tried(call: Callable[..., object], *values: object) -> int:
    """Return the system's answer; -1 where it refuses, most often because a process is gone."""
    try:
        return call(*values)  # type: ignore[return-value]
    except OSError:
        return -1


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def facts(pid: int) -> list[bytes]:
    """What the system says of a process, from its state on; nothing if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def is_dead(of: list[bytes]) -> bool:
    """Whoever has it now may be slow to reap it, or never do so. One that has threads has lost only its first."""
    return not of or (of[0] in (b"Z", b"X") and int(of[17]) <= 1)


def parent(of: list[bytes]) -> int:
    return int(of[1]) if of else 0


def start(of: list[bytes]) -> int:
    """When it was started: two processes of one number differ in that."""
    return int(of[19]) if of else NOT_YET


def kill(pid: int, started: int) -> None:
    """Kill this process, and not another one that has its number by now."""
    if (descriptor := tried(os.pidfd_open, pid)) >= 0:
        if start(facts(pid)) == started:
            tried(signal.pidfd_send_signal, descriptor, signal.SIGKILL)
        os.close(descriptor)


def children_of_all() -> Children:
    """What tells the children of a process, as they are now where the system lists them; else it is found out once."""
    own = os.getpid()
    if tried(os.access, f"/proc/{own}/task/{own}/children", os.R_OK) == 1:
        return lambda pid: listed_children(f"/proc/{pid}/task")
    found: dict[int, list[int]] = {}
    for pid in processes():
        # The system's own have no session.
        if tried(os.getsid, pid) > 0:
            found.setdefault(parent(facts(pid)), []).append(pid)
    return lambda pid: found.get(pid, ())


def listed_children(tasks: str) -> list[int]:
    """Each thread has those that it has started."""
    found: list[int] = []
    try:
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # and it has none any more
    return found


def descendants(pid: int, children: Children) -> dict[int, int]:
    """Each with when it was started."""
    found: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        for one in children(waiting.pop()):
            started = start(facts(one))
            if started != NOT_YET and one not in found:
                found[one] = started
                waiting.append(one)
    return found


def marked(pid: int, token: bytes) -> int | None:
    """The number that a process has by its environment, None if it has none of this guard's, or NOT_YET."""
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
    # While a process executes a program, or ends, it has no environment, and what was being read breaks off. So it has
    # none of this guard's only if all of it was there, and the program, whose place the system notes last.
    if not (fields := facts(pid)):
        return NOT_YET
    program, begin, end = int(fields[23]), int(fields[47]), int(fields[48])
    return None if program and end and end - begin == len(environment) else NOT_YET

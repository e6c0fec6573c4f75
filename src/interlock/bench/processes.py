"""Measure what processes use, and have them end with the process that started them."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path

from interlock.model.error import InterlockError

_PR_SET_PDEATHSIG = 1


def with_parent() -> Callable[[], None] | None:
    """Return the `preexec_fn` for a process that gets SIGTERM when this one ends, however it ends.

    None in any thread but the main one: the system takes the end of the thread for that of the parent."""
    if threading.current_thread() is not threading.main_thread():
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def become() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return become


def tree(pid: int, without: Container[int] = ()) -> list[int]:
    """A process and all below it, but for some and what is below those."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                status = Path(f"/proc/{name}/stat").read_text()
                below.setdefault(int(status.rpartition(")")[2].split()[1]), []).append(int(name))
    found = [pid]
    for one in found:
        found += [child for child in below.get(one, []) if child not in without]
    return found


def memory(pid: int) -> int:
    """Bytes that it has, shared ones in proportion."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise InterlockError("bench: this system does not tell how much memory a process has")


def processor(pid: int) -> float:
    """Seconds of processor time of all its threads; `/proc` would tell it in steps of ten milliseconds."""
    # The clock that clock_getcpuclockid(3) gives for a process, which Python does not have.
    return time.clock_gettime(~pid << 3 | 2)

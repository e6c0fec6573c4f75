"""System settings of an executor process: its parent, its priority when memory runs out, its memory limit."""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from interlock.error import BadValue

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Make this process end, with everything it has started, when its parent ends, however that happens."""
    signal.signal(signal.SIGHUP, lambda *_: end_group())
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
    if os.getppid() != parent:
        end_group()


def end_group() -> NoReturn:
    """Kill this process and everything that handlers have started in it."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def prefer_for_oom() -> None:
    """Make the system end this process before the scheduler and the host when memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def limit_memory(limit: int) -> None:
    """Limit the address space to these bytes beyond the present size; 0 is no limit. Then MemoryError is raised."""
    if limit <= 0:
        return
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size + limit, size + limit))
    except (OSError, ValueError, OverflowError) as error:
        raise BadValue("memory_limit", limit, f"possible here ({error})") from error

"""What the system is told about an executor process: whose it is, and what it may take."""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from interlock.model.error import BadValue

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the system tell this process when the one that started it ends, however that happens, and end then with
    everything it has started."""
    signal.signal(signal.SIGHUP, lambda *_: end_group())
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP, 0, 0, 0)
    if os.getppid() != parent:
        end_group()


def end_group() -> NoReturn:
    """Kill this process and what handlers have started in it."""
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def prefer_for_oom() -> None:
    """When memory runs out, this process goes before the scheduler and the host do."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def limit_memory(limit: int) -> None:
    """Bytes of address space beyond what the process has now; 0 is no limit. Past it, allocation raises MemoryError."""
    if limit <= 0:
        return
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size + limit, size + limit))
    except (OSError, ValueError, OverflowError) as error:
        raise BadValue("memory_limit", limit, f"possible here ({error})") from error

"""What processes take, as the system tells it."""

import os
import time
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from interlock.model.error import InterlockError


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

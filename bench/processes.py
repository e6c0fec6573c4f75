"""What processes use: memory and processor time."""

import os
import time
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from interlock.error import InterlockError


class Usage(NamedTuple):
    memory: int  # bytes at the start, shared ones in proportion
    processor: float  # seconds of processor time in it
    start: float
    end: float


def watch(pids: Sequence[int], seconds: float) -> Usage:
    """Let time pass, and return what the processes used meanwhile."""
    taken, before, start = sum(map(memory, pids)), sum(map(processor, pids)), time.time()
    time.sleep(seconds)
    return Usage(taken, sum(map(processor, pids)) - before, start, time.time())


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
    """Return its bytes, shared ones in proportion."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise InterlockError("bench: this system does not report the memory of a process")


def processor(pid: int) -> float:
    """Return the seconds of processor time of all its threads; `/proc` has them in steps of ten milliseconds."""
    # The clock that clock_getcpuclockid(3) gives for a process, which Python does not have.
    return time.clock_gettime(~pid << 3 | 2)

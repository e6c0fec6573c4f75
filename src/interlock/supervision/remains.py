"""Finding and killing what a guard has left behind that was killed itself."""

import asyncio
import os
import signal
from collections.abc import Set
from pathlib import Path

from interlock.supervision.guard import NOT_YET, marked
from interlock.supervision.guard_child import tried

BETWEEN = 0.01
ROUNDS = 300
"""looks until what does not die is left alone"""


async def remove(sessions: Set[int], identity: str) -> None:
    """Kill every process of these sessions, and every one that descends from children of the guard with this identity;
    return when they are gone."""
    among: list[int] | None = None
    for _ in range(ROUNDS):
        found, doubtful = await asyncio.to_thread(_find, among, sessions, f"{identity}.".encode())
        for pid in found:
            tried(os.kill, pid, signal.SIGKILL)
        if not found and not doubtful:
            return
        # What is killed may leave others behind.
        among = None if found else doubtful
        await asyncio.sleep(BETWEEN)


def _find(among: list[int] | None, sessions: Set[int], token: bytes) -> tuple[list[int], list[int]]:
    """Those that belong to them, and those of which that cannot be told yet."""
    found, doubtful = [], []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()] if among is None else among:
        session = tried(os.getsid, pid)
        # The system's own have none.
        if session > 0 and _is_alive(pid):
            mark = marked(pid, token)
            if mark == NOT_YET:
                doubtful.append(pid)
            elif session in sessions or mark is not None:
                found.append(pid)
    return found, doubtful


def _is_alive(pid: int) -> bool:
    """Whoever has it now may be slow to reap it, or never do so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

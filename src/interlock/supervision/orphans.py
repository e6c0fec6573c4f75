"""Finding and killing what a guard has left behind that was killed itself."""

import asyncio
import os
from collections.abc import Iterable, Set

from interlock.supervision.lineage import (
    NOT_YET,
    children_of_all,
    descendants,
    facts,
    is_dead,
    kill,
    marked,
    parent,
    processes,
    start,
    tried,
)

BETWEEN = 0.01
ROUNDS = 300
"""looks until what does not die is left alone"""


async def remove(sessions: Set[int], identity: str) -> None:
    """Kill every process of these sessions, every one that descends from children of the guard with this identity, and
    all that descends from those; return when they are gone."""
    among: list[int] | None = None
    known: dict[int, int] = {}
    for _ in range(ROUNDS):
        found, doubtful = await asyncio.to_thread(_end, among, sessions, f"{identity}.".encode(), known)
        if not found and not doubtful:
            return
        # What is killed may leave others behind.
        among = None if found else doubtful
        await asyncio.sleep(BETWEEN)


def _end(among: list[int] | None, sessions: Set[int], token: bytes, known: dict[int, int]) -> tuple[bool, list[int]]:
    """Whether there were any that live, and those of which it cannot be told yet; `known` are those of all looks, each
    with when it was started."""
    found, doubtful = _find(processes() if among is None else among, sessions, token)
    if found:
        children = children_of_all()
        for pid in list(found):
            found.update(descendants(pid, children))
    known.update(found)
    is_alive = False
    for pid, started in known.items():
        state = facts(pid)
        if start(state) != started:
            continue
        if not is_dead(state):
            is_alive = True
            kill(pid, started)
        elif parent(state) == os.getpid():
            # Whoever takes in orphans, as the first process of a container does, has to see to their end as well.
            tried(os.waitpid, pid, os.WNOHANG)
    return is_alive, doubtful


def _find(among: Iterable[int], sessions: Set[int], token: bytes) -> tuple[dict[int, int], list[int]]:
    """Those that belong to them, dead or alive, and those of which that cannot be told yet."""
    found, doubtful = {}, []
    for pid in among:
        session = tried(os.getsid, pid)
        # The system's own have none.
        if session <= 0:
            continue
        state = facts(pid)
        if session in sessions:
            found[pid] = start(state)
        elif not is_dead(state):
            mark = marked(pid, token)
            if mark == NOT_YET:
                doubtful.append(pid)
            elif mark is not None:
                found[pid] = start(state)
    return found, doubtful

"""Killing everything that a killed guard has left behind."""

import asyncio
import os
from collections.abc import Set

from interlock.supervision.lineage import NOT_YET, facts, is_dead, kill, marked, parent, processes, start, tried

BETWEEN = 0.01
ROUNDS = 300  # looks before a process that does not die is left alone


async def remove(sessions: Set[int], identity: str) -> None:
    """Kill every process in these sessions, every one with the mark of the guard, and their descendants; return when
    they are gone."""
    known: dict[int, int] = {}
    for _ in range(ROUNDS):
        if await asyncio.to_thread(_kill_all, sessions, f"{identity}.".encode(), known):
            return
        await asyncio.sleep(BETWEEN)


def _kill_all(sessions: Set[int], token: bytes, known: dict[int, int]) -> bool:
    """Look once; return whether nothing is left. `known` has the start times of all processes found so far."""
    # The system's own processes have no session.
    states = {pid: facts(pid) for pid in processes() if tried(os.getsid, pid) > 0}
    marks = {pid: marked(pid, token) for pid, state in states.items() if not is_dead(state)}
    found = {pid for pid in states if tried(os.getsid, pid) in sessions or marks.get(pid) not in (None, NOT_YET)}
    while more := {pid for pid, state in states.items() if parent(state) in found} - found:
        found |= more
    known.update((pid, start(states[pid])) for pid in found)
    left = NOT_YET in marks.values()
    for pid, started in known.items():
        state = facts(pid)
        if start(state) == started and not is_dead(state):
            left = True
            kill(pid, started)
        elif start(state) == started and parent(state) == os.getpid():
            # A supervisor that adopts orphans, as the first process of a container does, must reap them.
            tried(os.waitpid, pid, os.WNOHANG)
    return not left

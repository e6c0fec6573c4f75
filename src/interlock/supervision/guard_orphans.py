"""Processes that the guard's children have left to it, and the owner of each.

An orphan belongs to the child whose session it is in, or whose mark it has. Otherwise, if a child has just ended, it
belongs to that child; if not, to the only child old enough to have started it, or to none. It keeps its pid until the
guard reaps it.
"""

import os
import time

from interlock.supervision.lineage import NOT_YET, facts, marked, processes, start, tried

DOUBT = 1.0  # seconds after which an unreadable environment counts as one without a mark


class GuardedChild:
    __slots__ = ("deadline", "ended", "number", "outlives", "pid", "started", "status")

    def __init__(self, number: int, pid: int, status: int, outlives: bool) -> None:
        self.number = number
        self.pid = pid
        self.started = start(facts(pid))
        self.status = status  # descriptor that reports whether its program could be executed; -1 afterwards
        self.outlives = outlives
        self.ended: tuple[int | None, int | None] | None = None  # exit code and signal, once the process is dead
        self.deadline = 0.0


class Orphans:
    def __init__(self, token: bytes, leaders: dict[int, GuardedChild]) -> None:
        """`leaders` are the guard's children by pid."""
        self._token = token
        self._leaders = leaders
        self._owners: dict[int, int | None] = {}
        self._doubtful: dict[int, tuple[float, int | None]] = {}
        """orphan with an unknown mark → since when, and its owner should it have no mark"""
        self._has_list = tried(os.access, "/proc/thread-self/children", os.R_OK) == 1

    def living(self) -> tuple[list[int], bool]:
        """Return the live orphans, and whether any dead ones were reaped."""
        living, have_died = [], False
        for pid in self._candidates():
            if pid not in self._leaders:
                try:
                    # By far the cheapest test for a child.
                    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None:
                        living.append(pid)
                    else:
                        have_died = True
                        self.forget(pid)
                except ChildProcessError:
                    continue
        return living, have_died

    def _candidates(self) -> list[int]:
        if not self._has_list:
            return processes()
        # The list is complete, because processes leave it only when they are reaped here.
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]

    def forget(self, pid: int) -> None:
        self._owners.pop(pid, None)
        self._doubtful.pop(pid, None)

    def owner(self, pid: int) -> int | None:
        """Return the number of the child that owns an orphan; None for no owner, NOT_YET while that is unknown."""
        if pid in self._owners:
            return self._owners[pid]
        owner = self._known(pid)
        if owner is None or owner == NOT_YET:
            now = time.monotonic()
            since, suspect = self._doubtful.setdefault(pid, (now, self._suspect(pid)))
            if owner == NOT_YET and now - since < DOUBT:
                return NOT_YET
            owner = suspect
        self.forget(pid)
        self._owners[pid] = owner
        return owner

    def _known(self, pid: int) -> int | None:
        leader = self._leaders.get(tried(os.getsid, pid))
        return leader.number if leader is not None else marked(pid, self._token)

    def _suspect(self, pid: int) -> int | None:
        started = start(facts(pid))
        possible = [child for child in self._leaders.values() if child.started <= started]
        for child in possible:
            if child.ended is not None:
                return child.number
        return possible[0].number if len(possible) == 1 else None

    def look(self) -> None:
        """Settle the owners of the present orphans before another child ends and seems to own them."""
        found, _ = self.living()
        try:
            # If a child has just died, they may be its own; handle that child first.
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                for pid in found:
                    self.owner(pid)
        except ChildProcessError:
            return

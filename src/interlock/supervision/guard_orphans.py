"""What the children of a guard have left to it, and whose that is, as far as it can be told.

An orphan in the session of a child, or with its mark, or once seen among its descendants, is that child's. One that is
none of that and turns up when a child has ended is taken for that child's; turning up at another time it is that of the
only child it may come from by its age, or else nobody's. It keeps its number until it is reaped here.
"""

import os
import time

from interlock.supervision.lineage import (
    NOT_YET,
    Children,
    children_of_all,
    descendants,
    facts,
    marked,
    processes,
    start,
    tried,
)

DOUBT = 1.0
"""seconds after which a process whose environment cannot be read is taken for one without a mark"""


class Child:
    __slots__ = ("deadline", "ended", "kin", "number", "outlives", "pid", "started", "status")

    def __init__(self, number: int, pid: int, status: int, outlives: bool) -> None:
        self.number = number
        self.pid = pid
        self.started = start(facts(pid))
        self.status = status
        """the descriptor that tells whether its program could be executed; -1 once that is known"""
        self.outlives = outlives
        self.kin: dict[int, int] = {}
        """processes that have been seen to descend from it, each with when it was started"""
        self.ended: tuple[int | None, int | None] | None = None
        """exit code and signal, once its process is dead"""
        self.deadline = 0.0


class Orphans:
    def __init__(self, token: bytes, leaders: dict[int, Child]) -> None:
        """`leaders` are the children by process, as the guard has them."""
        self._token = token
        self._leaders = leaders
        self._owners: dict[int, int | None] = {}
        self._doubtful: dict[int, tuple[float, int | None]] = {}
        """since when, and whose they are if they have no mark"""
        self._has_list = tried(os.access, "/proc/thread-self/children", os.R_OK) == 1

    def living(self) -> tuple[list[int], bool]:
        """Those that live, and whether there were others, which are reaped."""
        living, have_died = [], False
        for pid in self._candidates():
            if pid not in self._leaders:
                try:
                    # The cheapest way by far to learn whether a process is a child.
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
        # Complete, because nothing leaves it but what is reaped here.
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]

    def forget(self, pid: int) -> None:
        self._owners.pop(pid, None)
        self._doubtful.pop(pid, None)

    def owner(self, pid: int) -> int | None:
        """The number of the child that an orphan comes from; None if that cannot be told, or NOT_YET."""
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
        if leader is not None:
            return leader.number
        started = start(facts(pid))
        for child in self._leaders.values():
            if child.kin.get(pid) == started:
                return child.number
        return marked(pid, self._token)

    def _suspect(self, pid: int) -> int | None:
        started = start(facts(pid))
        possible = [child for child in self._leaders.values() if child.started <= started]
        for child in possible:
            if child.ended is not None:
                return child.number
        return possible[0].number if len(possible) == 1 else None

    def look(self) -> None:
        """Get to know those that are there, so that they are not taken for what a child leaves that ends later."""
        found, _ = self.living()
        try:
            # If a child has just died they may be its: then it is dealt with first.
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                for pid in found:
                    self.owner(pid)
        except ChildProcessError:
            return


def note(child: Child, children: Children | None = None) -> None:
    """Remember what descends from a child while that can be seen."""
    kept = {pid: started for pid, started in child.kin.items() if start(facts(pid)) == started}
    child.kin = {**kept, **descendants(child.pid, children or children_of_all())}

"""A lane as plain as it can be: a list that is searched from end to end. The core must start the same runs."""

from typing import NamedTuple

from interlock.core.lanes.lane import AGEING


class Waiting(NamedTuple):
    arrival: int
    rank: int
    tenant: str
    run_id: str


class PlainLane:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting: list[Waiting] = []
        self.active: list[str] = []
        self.started: list[str] = []
        """every run that was started, in order"""
        self.turns: dict[tuple[int, str], int] = {}
        self.clocks: dict[int, int] = {}
        self.arrivals = 0
        self.starts = 0  # since the scheduler was started
        self.is_open = True

    def add(self, run_id: str, rank: int, tenant: str) -> None:
        if (rank, tenant) not in self._lines():
            self.turns[rank, tenant] = self.clocks.get(rank, 0)
        self.arrivals += 1
        self.waiting.append(Waiting(self.arrivals, rank, tenant, run_id))

    def remove(self, run_id: str) -> None:
        self.waiting = [one for one in self.waiting if one.run_id != run_id]
        self.active = [one for one in self.active if one != run_id]

    def restart(self, created: list[str]) -> None:
        """Forget all turns, and order the waiting runs as they were created."""
        waiting, self.waiting = sorted(self.waiting, key=lambda one: created.index(one.run_id)), []
        self.turns, self.clocks, self.starts = {}, {}, 0
        for one in waiting:
            self.add(one.run_id, one.rank, one.tenant)

    def fill(self) -> None:
        while self.is_open and self.waiting and len(self.active) < self.limit:
            if self.starts % AGEING == AGEING - 1:
                one = min(self.waiting)
            else:
                one = min(self.waiting, key=lambda one: (one.rank, self._turn(one), self._first(one), one.arrival))
            self.waiting.remove(one)
            self.active.append(one.run_id)
            self.started.append(one.run_id)
            self.starts += 1
            self.clocks[one.rank] = self.turns[one.rank, one.tenant]
            self.turns[one.rank, one.tenant] += 1

    def _lines(self) -> set[tuple[int, str]]:
        return {(one.rank, one.tenant) for one in self.waiting}

    def _turn(self, one: Waiting) -> int:
        return self.turns[one.rank, one.tenant]

    def _first(self, one: Waiting) -> int:
        """The first arrival of its line: among tenants with as many turns, the one that has waited longest."""
        return min(other.arrival for other in self.waiting if (other.rank, other.tenant) == (one.rank, one.tenant))

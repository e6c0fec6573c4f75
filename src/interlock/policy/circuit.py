"""The circuit to the policy service: a service that fails gets no calls for a while, then a few probes.

A circuit is a value, so that schedulers can share it. Time is passed in: seconds of one clock for all who share it.
"""

import msgspec
from msgspec.structs import replace

from interlock.error import PolicyUnavailable

FAILURES = 3  # failures in a row that open it
PAUSE = 30.0  # seconds that it stays open
PROBES = 3  # calls that may begin after the pause
SUCCESSES = 2  # successes of probes that close it


class PolicyCircuit(msgspec.Struct, frozen=True, kw_only=True):
    until: float | None = None  # end of the pause, then the start of the first probe; None while closed
    failures: int = 0  # in a row, while closed
    probes: int = 0  # begun after the pause
    successes: int = 0  # of these probes
    round: int = 0  # grows as it opens, probes and closes; the result of a call of an earlier round says nothing

    @property
    def is_open(self) -> bool:
        return self.until is not None

    @property
    def level(self) -> int:
        """0 closed, 1 probing, 2 open."""
        return 0 if self.until is None else 1 if self.probes else 2

    def allows(self, now: float) -> bool:
        """Return whether a call may begin."""
        if self.until is None or self._is_probing:
            return True
        # Probes without a result, because their scheduler has died, make room after another pause. A clock that was set
        # back keeps no circuit open.
        start = self.until if self.probes else self.until - PAUSE
        return not start <= now < start + PAUSE

    @property
    def _is_probing(self) -> bool:
        return 0 < self.probes < PROBES

    def begin(self, now: float) -> "PolicyCircuit":
        """Count a call. Its result goes with the round of the circuit returned. Raise if none may begin."""
        if not self.allows(now):
            raise PolicyUnavailable("circuit open after repeated failures; no calls until the pause ends")
        if self.until is None:
            return self
        if self._is_probing:
            return replace(self, probes=self.probes + 1)
        return PolicyCircuit(until=now, probes=1, round=self.round + 1)

    def give_back(self, round: int) -> "PolicyCircuit":
        """Forget a call that ended without a result."""
        return replace(self, probes=self.probes - 1) if round == self.round and self.probes else self

    def succeed(self, round: int) -> "PolicyCircuit":
        if round != self.round:
            return self
        if self.until is None:
            return replace(self, failures=0) if self.failures else self
        if self.successes + 1 < SUCCESSES:
            return replace(self, successes=self.successes + 1)
        return PolicyCircuit(round=self.round + 1)

    def fail(self, round: int, now: float) -> "PolicyCircuit":
        if round != self.round:
            return self
        if self.until is None and self.failures + 1 < FAILURES:
            return replace(self, failures=self.failures + 1)
        return PolicyCircuit(until=now + PAUSE, round=self.round + 1)

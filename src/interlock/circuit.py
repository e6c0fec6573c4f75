"""A circuit: a peer that fails gets no tries for a while, then a few probes."""

import msgspec


class CircuitRules(msgspec.Struct, frozen=True, kw_only=True):
    failures: int  # in a row that open it
    pause: float  # seconds that it stays open
    longest_pause: float  # the pause doubles up to this while probes fail
    probes: int = 1  # tries that may begin after the pause
    successes: int = 1  # of probes that close it


class Circuit:
    """Times are elapsed ones, so that a wall clock set back keeps no circuit open."""

    def __init__(self, rules: CircuitRules) -> None:
        self._rules = rules
        self.round = 0  # grows as it opens and closes; the result of a try of an earlier round says nothing
        self.until = 0.0  # end of the latest pause
        self._pause = 0.0  # zero while closed
        self._failures = self._probes = self._successes = 0

    @property
    def is_open(self) -> bool:
        return self._pause > 0

    @property
    def level(self) -> int:
        """0 closed, 1 probing, 2 open."""
        return 0 if not self.is_open else 1 if self._probes else 2

    def allows(self, now: float) -> bool:
        """Return whether a try may begin."""
        return not self.is_open or (now >= self.until and self._probes < self._rules.probes)

    def begin(self) -> int:
        """Count a try. Return the round, to pass on with its result."""
        self._probes += self.is_open
        return self.round

    def give_back(self, round: int) -> None:
        """Forget a try that ended without a result."""
        self._probes -= self.is_open and round == self.round

    def succeed(self, round: int) -> bool:
        """Return whether this closes it."""
        if round != self.round:
            return False
        self._failures = 0
        self._successes += 1
        if not self.is_open or self._successes < self._rules.successes:
            return False
        self._enter(0.0)
        return True

    def fail(self, round: int, now: float) -> bool:
        """Return whether this opens it, or keeps it open for longer."""
        if round != self.round:
            return False
        self._failures += 1
        if not self.is_open and self._failures < self._rules.failures:
            return False
        self._enter(min(max(self._rules.pause, self._pause * 2), self._rules.longest_pause))
        self.until = now + self._pause
        return True

    def _enter(self, pause: float) -> None:
        self._pause = pause
        self.round += 1
        self._failures = self._probes = self._successes = 0

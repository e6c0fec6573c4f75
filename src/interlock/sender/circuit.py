"""A circuit per host: a host that fails gets no requests for a while, then one at a time until it answers."""

FAILURES = 5  # failed tries in a row that open a circuit
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 300.0


class Circuit:
    """Times are elapsed ones, so that a wall clock set back keeps no circuit open."""

    def __init__(self) -> None:
        self.until = 0.0  # end of the pause while open
        self._failures = 0
        self._pause = 0.0  # zero while closed
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._pause > 0

    def allows(self, now: float) -> bool:
        """Return whether a try may begin."""
        return not self.is_open or (now >= self.until and not self._probing)

    def begin(self) -> bool:
        """Note that a try begins. Return whether it is a probe; pass this on with its result."""
        self._probing = self.is_open
        return self._probing

    def give_back(self) -> None:
        """Note that the try was not made after all."""
        self._probing = False

    def succeeded(self) -> bool:
        """Close the circuit. Return whether it was open."""
        was_open = self.is_open
        self._failures, self._pause, self._probing = 0, 0.0, False
        return was_open

    def failed(self, now: float, probe: bool) -> bool:
        """Count a failure. Return whether the circuit opens, or stays open for longer. Failures of tries that began
        before it opened say nothing new."""
        self._failures += 1
        if not (probe if self.is_open else self._failures >= FAILURES):
            return False
        self._pause = min(max(FIRST_PAUSE, self._pause * 2), LONGEST_PAUSE)
        self.until, self._probing = now + self._pause, False
        return True

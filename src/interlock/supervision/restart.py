"""The decision after the end of a child, pure.

The child's own policy, its exit and the rest of its budget decide whether it is restarted; the strategy decides which
siblings are restarted with it.
"""

from collections import deque

from interlock.fields.duration import checked
from interlock.model.child_info import Exit, Status
from interlock.supervision.spec import Backoff, Budget, OnExhausted, Restart, Strategy

WANTS_RESTART: dict[tuple[Restart, bool], bool] = {
    (Restart.ALWAYS, True): True,
    (Restart.ALWAYS, False): True,
    (Restart.ON_FAILURE, True): False,
    (Restart.ON_FAILURE, False): True,
    (Restart.NEVER, True): False,
    (Restart.NEVER, False): False,
}
"""(policy, ended well) → whether it is restarted"""


def decide(
    strategy: Strategy, policy: Restart, on_exhausted: OnExhausted, *, ended_well: bool, within_budget: bool
) -> Strategy | OnExhausted | None:
    """Return the strategy by which to restart, what follows an exhausted budget, or None to leave it as it ended."""
    if not WANTS_RESTART[policy, ended_well]:
        return None
    return strategy if within_budget else on_exhausted


def status_after(exit: Exit) -> Status:
    """Return the status of a child that ended by itself and is not restarted."""
    if exit.ok:
        return Status.FINISHED
    return Status.FAILED if exit.signal is None or exit.error else Status.KILLED


class Restarts:
    """A child's recent restarts, for its budget and its backoff. Times are seconds of a clock that never goes back."""

    def __init__(self, backoff: Backoff, budget: Budget) -> None:
        self._backoff = backoff
        self._budget = budget
        self._in_a_row = 0
        self._times: deque[float] = deque()

    def lived(self, seconds: float) -> None:
        """Reset the backoff if the last life was long enough."""
        if seconds > checked(self._backoff.reset_after):
            self._in_a_row = 0

    def allowed(self, now: float) -> bool:
        """Return whether the budget allows another restart."""
        while self._times and now - self._times[0] >= checked(self._budget.max_duration):
            self._times.popleft()
        return self._budget.max_restarts == 0 or len(self._times) < self._budget.max_restarts

    def take(self, now: float, chance: float) -> float:
        """Count one restart and return the seconds to wait before it; `chance` is from 0 to 1."""
        if self._budget.max_restarts:
            self._times.append(now)
        delay = self._backoff.delay(self._in_a_row, chance)
        self._in_a_row += 1
        return delay

"""The decision after the end of a child: pure, as tables.

The child's own policy decides whether it is restarted, by how it ended and what is left of its budget; the strategy
decides which siblings are restarted with it.
"""

from collections import deque
from enum import Enum

from interlock.model.child_info import Exit, Status
from interlock.supervision.spec import Backoff, Budget, OnExhausted, Restart, Strategy


class Decision(Enum):
    RESTART_CHILD = "restart the child"
    RESTART_ALL = "stop the others in reverse order, start all in order"
    RESTART_REST = "stop those after it in reverse order, start it and them in order"
    LEAVE = "leave it as it ended"
    GIVE_UP = "leave it as failed and exhausted, its siblings go on"
    FAIL_SUPERVISOR = "the same, and its supervisor fails"


WANTS_RESTART: dict[tuple[Restart, bool], bool] = {
    (Restart.ALWAYS, True): True,
    (Restart.ALWAYS, False): True,
    (Restart.ON_FAILURE, True): False,
    (Restart.ON_FAILURE, False): True,
    (Restart.NEVER, True): False,
    (Restart.NEVER, False): False,
}
"""(policy, ended well) → whether it is restarted"""

WITHIN_BUDGET: dict[Strategy, Decision] = {
    Strategy.ONE_FOR_ONE: Decision.RESTART_CHILD,
    Strategy.ONE_FOR_ALL: Decision.RESTART_ALL,
    Strategy.REST_FOR_ONE: Decision.RESTART_REST,
}

EXHAUSTED: dict[OnExhausted, Decision] = {
    OnExhausted.STOP_CHILD: Decision.GIVE_UP,
    OnExhausted.FAIL_SUPERVISOR: Decision.FAIL_SUPERVISOR,
}


def decide(
    strategy: Strategy, policy: Restart, *, ended_well: bool, within_budget: bool, on_exhausted: OnExhausted
) -> Decision:
    if not WANTS_RESTART[policy, ended_well]:
        return Decision.LEAVE
    return WITHIN_BUDGET[strategy] if within_budget else EXHAUSTED[on_exhausted]


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
        if seconds > self._backoff.reset_after:  # type: ignore[operator]
            self._in_a_row = 0

    def allowed(self, now: float) -> bool:
        """Return whether the budget allows another restart."""
        while self._times and now - self._times[0] >= self._budget.max_duration:  # type: ignore[operator]
            self._times.popleft()
        return self._budget.max_restarts == 0 or len(self._times) < self._budget.max_restarts

    def take(self, now: float, chance: float) -> float:
        """Count one restart and return the seconds to wait before it; `chance` is from 0 to 1."""
        if self._budget.max_restarts:
            self._times.append(now)
        delay = self._backoff.delay(self._in_a_row, chance)
        self._in_a_row += 1
        return delay

"""An attempt as its worker keeps it."""

import asyncio
from math import inf

from interlock.model import message as m

Key = tuple[str, int]


class HeldAttempt:
    """An attempt from its dispatch until it is settled."""

    def __init__(self, dispatch: m.Dispatch, begin_by: float) -> None:
        self.dispatch = dispatch
        self.key: Key = (dispatch.run_id, dispatch.fence)
        self.begin_by = begin_by  # elapsed time after which the worker asks the scheduler before it begins it
        self.due = 0.0  # elapsed time before which it must not begin
        self.named = inf  # elapsed time of the first heartbeat that named it
        self.waits = True  # whether the executor does not have it yet
        self.begun = False
        self.began = 0.0  # elapsed time
        self.ended = 0.0  # elapsed time
        self.outcome: m.Message | None = None
        self.stop: str | None = None
        self.is_termed = False  # whether it got TERM, so that KILL is next
        self.timer: asyncio.TimerHandle | None = None
        self.latest: dict[type[m.Message], m.Message] = {}
        """its progress and checkpoint, for a scheduler that has not stored them"""

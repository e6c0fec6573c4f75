"""An attempt as its worker has it."""

import asyncio
from math import inf

from interlock.model import message as m

Key = tuple[str, int]


class HeldAttempt:
    """An attempt from its dispatch until it is settled."""

    __slots__ = (
        "began",
        "begin_by",
        "begun",
        "dispatch",
        "due",
        "ended",
        "is_termed",
        "key",
        "latest",
        "named",
        "outcome",
        "stop",
        "timer",
        "waits",
    )

    def __init__(self, dispatch: m.Dispatch, begin_by: float) -> None:
        self.dispatch = dispatch
        self.key: Key = (dispatch.run_id, dispatch.fence)
        self.begin_by = begin_by
        """elapsed time after which the scheduler is asked before it is begun"""
        self.due = 0.0
        """elapsed time before which it must not begin"""
        self.named = inf
        """elapsed time of the first heartbeat that named it"""
        self.waits = True
        """whether the executor has not been given it"""
        self.begun = False
        self.began = 0.0
        """elapsed time"""
        self.ended = 0.0
        """as above"""
        self.outcome: m.Message | None = None
        self.stop: str | None = None
        self.is_termed = False
        """has got TERM; KILL is next"""
        self.timer: asyncio.TimerHandle | None = None
        self.latest: dict[type[m.Message], m.Message] = {}
        """its progress and checkpoint, for whoever takes over or has not stored them"""

"""An attempt as its worker has it."""

import asyncio
from math import inf

from interlock.model import message as m


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
        "is_timed",
        "latest",
        "named",
        "outcome",
        "stop",
        "timer",
        "told",
        "waits",
    )

    def __init__(self, dispatch: m.Dispatch, begin_by: float) -> None:
        self.dispatch = dispatch
        self.begin_by = begin_by
        """elapsed time after which the scheduler is asked before it is begun"""
        self.due = 0.0
        """elapsed time before which it must not begin"""
        self.named = inf
        """elapsed time of the first heartbeat that named it"""
        self.is_timed = False
        """whether it is begun here when its time has come"""
        self.waits = True
        """whether the executor has not been given it"""
        self.begun = False
        self.began = 0.0
        """elapsed time"""
        self.told = False
        """whether the scheduler has been told that it has begun"""
        self.ended = 0.0
        self.outcome: m.Message | None = None
        self.stop: str | None = None
        self.is_termed = False
        """has got TERM; KILL is next"""
        self.timer: asyncio.TimerHandle | None = None
        self.latest: dict[type[m.Message], m.Message] = {}
        """its progress and checkpoint, for whoever takes over or has not stored them"""

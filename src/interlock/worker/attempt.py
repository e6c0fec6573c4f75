"""An attempt as its executor process has it."""

import asyncio

from interlock.model import message as m
from interlock.worker.context import Context
from interlock.worker.definition import Definition


class Attempt:
    """One that was given to this process, until its end is told."""

    __slots__ = ("began", "context", "definition", "dispatch", "entered", "reported", "task", "told")

    def __init__(self, dispatch: m.Dispatch, definition: Definition | None, context: Context) -> None:
        self.dispatch = dispatch
        self.definition = definition
        """None until it is loaded"""
        self.context = context
        self.task: asyncio.Task[None] | None = None
        self.entered = False
        self.told = False
        """whether the host has been told that it began"""
        self.reported = False
        self.began = 0.0
        """when, by the monotonic clock, if it had come ahead of its time"""

    def know(self, definition: Definition) -> None:
        self.definition = definition
        self.context.secret_arguments = definition.job.secrets

    def start(self) -> m.Started:
        # Between a host and its processes, ages are times of the clock that they share.
        self.told = True
        return m.Started(self.dispatch.run_id, self.dispatch.fence, self.began)

"""An attempt as its executor process has it."""

import asyncio

from interlock.model import message as m
from interlock.worker.context import Context
from interlock.worker.definition import Definition


class Attempt:
    """One that was given to this process, until its end is told."""

    __slots__ = ("context", "definition", "dispatch", "entered", "reported", "task")

    def __init__(self, dispatch: m.Dispatch, definition: Definition | None, context: Context) -> None:
        self.dispatch = dispatch
        self.definition = definition
        """None until it is loaded"""
        self.context = context
        self.task: asyncio.Task[None] | None = None
        self.entered = False
        self.reported = False

    def know(self, definition: Definition) -> None:
        self.definition = definition
        self.context.secret_arguments = definition.job.secrets

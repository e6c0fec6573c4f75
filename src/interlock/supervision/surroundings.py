"""The shared parts of all supervisors of one tree, and the making of instances."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.model.child_info import Change, Exit
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision.instance import Birth, Instance, LineSink
from interlock.supervision.spec import Child, Container, Custom, Function, Process

if TYPE_CHECKING:
    from interlock.supervision.guard_client import Guard

logger = logging.getLogger("interlock.supervision")


class Surroundings:
    def __init__(
        self,
        *,
        handover: Handover | None = None,
        on_line: LineSink | None = None,
        on_change: Callable[[Change], None] | None = None,
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        guard: "Guard | None" = None,
    ) -> None:
        self.handover = handover if handover is not None else MemoryHandover()
        self.on_line = on_line
        self._on_change = on_change
        self.now = now  # wall time
        self.chance = chance  # a number from 0 to 1, for jitter
        self.abandoned: dict[str, asyncio.Task[Exit]] = {}
        """functions that did not end when they were cancelled, by path: they must not run twice at once"""
        self._guard = guard

    def publish(self, change: Change) -> None:
        if self._on_change is not None:
            try:
                self._on_change(change)
            except Exception:
                logger.exception("%s: on_change raised", change.path)

    def make(self, spec: Child, birth: Birth) -> Instance:
        """Return an instance that has not been started. Raise whatever a factory raises."""
        # Each kind is imported when it is first needed: most trees do not have them all.
        if isinstance(spec, Function):
            from interlock.supervision.function import FunctionInstance

            return FunctionInstance(spec, birth, self)
        if isinstance(spec, Process):
            from interlock.supervision.process import ProcessInstance

            return ProcessInstance(spec, birth, self)
        if isinstance(spec, Container):
            from interlock.supervision.container import ContainerInstance

            return ContainerInstance(spec, birth, self)
        assert isinstance(spec, Custom)
        return spec.factory(birth)

    @property
    def guard(self) -> "Guard":
        """The starter of processes, made when the first one is."""
        if self._guard is None:
            from interlock.supervision.guard_client import Guard

            self._guard = Guard()
        return self._guard

    async def close(self) -> None:
        """End the guard, once nothing of the tree runs any more."""
        guard, self._guard = self._guard, None
        if guard is not None:
            try:
                await guard.close()
            except Exception:
                logger.exception("the guard could not be closed")

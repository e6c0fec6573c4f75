"""What all supervisors of one tree share, and how each kind of child is brought to life in it."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from interlock.model.child_info import Exit
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision.function import FunctionInstance
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
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.handover = handover if handover is not None else MemoryHandover()
        self.on_line = on_line
        self.now = now
        """wall time"""
        self.chance = chance
        """a number from 0 to 1, for jitter"""
        self._guard: Guard | None = None
        self._left_alone: dict[str, asyncio.Task[Exit]] = {}
        """functions that did not end when they were cancelled: no other life of theirs begins beside them"""

    def make(self, spec: Child, birth: Birth) -> Instance:
        """An instance that has not been started. Raises whatever a factory raises."""
        if isinstance(spec, Function):
            return FunctionInstance(spec, birth, self.now, self._left_alone)
        if isinstance(spec, Process):
            from interlock.supervision.process import ProcessInstance

            return ProcessInstance(spec, birth, self.guard, self.on_line, self.now)
        if isinstance(spec, Container):
            return self._container(spec, birth)
        assert isinstance(spec, Custom)
        return spec.factory(birth)

    def _container(self, spec: Container, birth: Birth) -> Instance:
        from interlock.supervision.container import ContainerInstance

        guard, key = self.guard, f"{birth.path} {uuid4()}"
        # Containers belong to their engine, which knows nothing of us: the guard has them removed should we be killed.
        return ContainerInstance(
            spec,
            birth,
            self.on_line,
            self.now,
            on_created=partial(guard.remember, key),
            on_removed=partial(guard.disregard, key),
        )

    @property
    def guard(self) -> "Guard":
        """What starts processes, made when the first one is."""
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

    def failure(self, why: str) -> Exit:
        return Exit(at=self.now(), error=why)

"""The shared parts of all supervisors of one tree, and the making of instances."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from importlib import import_module

import msgspec

from interlock.model.child_info import Change, Exit
from interlock.ports.handover import Handover, MemoryHandover
from interlock.supervision.guard_client import Guard
from interlock.supervision.instance import Birth, Instance, LineSink
from interlock.supervision.spec import Child, Custom

logger = logging.getLogger("interlock.supervision")


class Surroundings(msgspec.Struct, kw_only=True):
    handover: Handover = msgspec.field(default_factory=MemoryHandover)
    on_line: LineSink | None = None
    on_change: Callable[[Change], None] | None = None
    now: Callable[[], float] = time.time  # wall time
    chance: Callable[[], float] = random.random  # a number from 0 to 1, for jitter
    guard: Guard = msgspec.field(default_factory=Guard)
    abandoned: dict[str, asyncio.Task[Exit]] = {}
    """functions that did not end when they were cancelled, by path: they must not run twice at once"""
    spares: bool = False  # whether a stop leaves processes alone that outlive the supervisor

    def publish(self, change: Change) -> None:
        if self.on_change is not None:
            try:
                self.on_change(change)
            except Exception:
                logger.exception("%s: on_change raised", change.path)

    def make(self, spec: Child, birth: Birth) -> Instance:
        """Return an instance that has not been started. Raise whatever a factory raises."""
        if isinstance(spec, Custom):
            return spec.factory(birth)
        # Each kind is imported when it is first needed: most trees do not have them all.
        module = import_module(f"interlock.supervision.{spec.kind}")
        instance: Instance = getattr(module, f"{spec.kind.capitalize()}Instance")(spec, birth, self)
        return instance

    async def close(self) -> None:
        """End the guard, once nothing of the tree runs any more."""
        guard, self.guard = self.guard, Guard()
        try:
            await guard.close(self.spares)
        except Exception:
            logger.exception("the guard could not be closed")

"""Notice when this process itself stood still: it was stopped, or the machine slept."""

import asyncio
import logging

from interlock.core.step import Command
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.wire.command import Stalled

logger = logging.getLogger("interlock.engine")

TICK = 0.5  # seconds between two ticks of the loop
STALL = 2.0  # seconds of delay that count as standing still


class StallWatch:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turned_at = 0.0
        self._stood_still = 0.0
        self._ticking: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._turned_at = self._clock.now().elapsed
        self._tick()

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()

    def notice(self, now: Now, commands: list[Command]) -> None:
        """Add a command that excludes the time this process stood still from silence."""
        self._turned(now.elapsed)
        if self._stood_still > 0:
            logger.warning("the scheduler stood still for %.1fs", self._stood_still)
            commands.insert(0, ("", Stalled(self._stood_still)))
            self._stood_still = 0.0

    def _turned(self, elapsed: float) -> None:
        late = elapsed - self._turned_at - TICK
        self._turned_at = elapsed
        if late > STALL:
            self._stood_still += late

    def _tick(self) -> None:
        """Record that the loop turns. A slow store does not stop it; a stopped process or a sleeping machine does."""
        self._turned(self._clock.now().elapsed)
        self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)

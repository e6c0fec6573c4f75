"""One life of a child: from the making of its instance until nothing is left of it."""

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from interlock.error import BadValue
from interlock.fields.duration import checked
from interlock.model.child_info import Exit, Status
from interlock.supervision.goal import Goal, first, unless, words
from interlock.supervision.instance import Instance
from interlock.supervision.probes import ReadyProbe, until_unwell
from interlock.supervision.spec import Probed

if TYPE_CHECKING:
    from interlock.supervision.child import ChildRunner

logger = logging.getLogger("interlock.supervision")


class Life:
    """Only its own life listens to an instance, so the reports of one that was replaced reach nobody."""

    def __init__(self, child: "ChildRunner", goal: Goal) -> None:
        self.goal = goal
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """settled when nothing is left of it, and its restart has been decided"""
        self.instance: Instance | None = None
        self.is_ready = False
        self.up_at: float | None = None  # by the loop's clock
        self.up_for = 0.0  # seconds
        self.forced = False  # whether it had to be killed after the request to end
        self._child = child
        self._path = child.path
        self._spec = child.spec
        self._patience = checked(child.spec.stop_timeout)
        self._is_begun = False  # whether `start` of the instance was called
        self._is_there = False  # whether `start` has returned, so that it must be stopped

    async def live(self) -> Exit | None:
        """Live, and return the exit; None if its goal was lowered before it began. Never raise, whatever an instance
        does."""
        try:
            return await self._live()
        except Exception as error:
            logger.exception("%s: its instance is faulty", self._path)
            self.kill()
            return self._failure(words(error, self._path))

    def kill(self) -> None:
        if self.instance is not None:
            try:
                self.instance.kill()
            except Exception:
                logger.exception("%s: it cannot be killed", self._path)

    async def _live(self) -> Exit | None:
        making = await unless(self._make(), self.goal.lowered)
        failed = None if making.cancelled() else making.exception()
        if making.cancelled() or failed is not None:
            if self.goal.lowered.done():
                return None
            return self._failure("cancelled" if failed is None else words(failed, self._path))
        instance = self.instance = making.result()
        why = await self._be_up(instance)
        if self.up_at is not None:
            self.up_for = asyncio.get_running_loop().time() - self.up_at
        if self._is_there and not instance.ended.done():
            self._child.become(Status.STOPPING, why)
            await self._stop(instance)
        self.forced = self.forced or instance.forced
        if not self._is_begun and not why:
            return None
        exit = self._end_of(instance)
        if exit.ok and self.up_at is None and not self.goal.lowered.done():
            why = why or "ended before it was ready"
        return msgspec.structs.replace(exit, error=why) if why and exit.error != why else exit

    async def _make(self) -> Instance:
        if self._child.nested is not None:
            return self._child.nested.instance()
        made = self._child.around.make(self._spec, await self._child.birth())
        if not isinstance(made, Instance) or not hasattr(made, "ended"):
            raise BadValue("factory", made, "an Instance")
        return made

    async def _be_up(self, instance: Instance) -> str:
        """Bring it up, and wait until it has ended or must end; return the fault, if any."""
        lowered, ended = self.goal.lowered, instance.ended
        rising = asyncio.get_running_loop().create_task(self._rise(instance))
        await first(rising, ended, lowered)
        if not rising.done() and not lowered.done() and not self._is_there:
            # It ended during its start, which is about to raise the reason.
            await asyncio.wait([rising, lowered], timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
        if not rising.done():
            rising.cancel()
            if not ended.done():
                # Undoing a start may take a while.
                self._child.become(Status.STOPPING)
            await asyncio.wait([rising])
        if rising.cancelled():
            return "" if lowered.done() or ended.done() else "its start was cancelled"
        raised = rising.exception()
        return words(raised, self._path) if raised is not None else await self._stay(instance)

    async def _rise(self, instance: Instance) -> None:
        """Wait until it is up. Raise if it cannot be started, or is not ready in time."""
        ready = self._spec.ready if isinstance(self._spec, Probed) else None
        # Before the start, because the probe may wait for the first line.
        probe = ReadyProbe(ready, instance) if ready is not None else None
        if self.goal.lowered.done():
            return
        child = self._child
        self._is_begun = True
        # If nobody sees the end of this life, the exit of the previous one must not count as its own.
        child.keep(None)
        await instance.start()
        self._is_there = True
        child.since = child.around.now()
        if probe is not None or child.to_be_suspended:
            # It exists now, but may not be up for a while.
            child.publish()
        async with child.shifting:
            if child.to_be_suspended and instance.can_suspend:
                await instance.suspend()
                self._is_up(Status.SUSPENDED)
        if probe is not None:
            await child.until(lambda: child.status is not Status.SUSPENDED)
            await probe.wait()
        self.is_ready = True
        if child.status is not Status.SUSPENDED:
            self._is_up(Status.RUNNING)

    def _is_up(self, status: Status) -> None:
        if self.up_at is None:
            self.up_at = asyncio.get_running_loop().time()
        self.goal.tried(None)
        self._child.become(status)

    async def _stay(self, instance: Instance) -> str:
        """Wait until it has ended or must end; return why it is not well, if that is the reason."""
        alive = self._spec.alive if isinstance(self._spec, Probed) else None
        if alive is None:
            await first(instance.ended, self.goal.lowered)
            return ""
        looking = until_unwell(alive, lambda: self._child.status is Status.SUSPENDED)
        unwell = await unless(looking, instance.ended, self.goal.lowered)
        if unwell.cancelled() or instance.ended.done():
            return ""
        raised = unwell.exception()
        return unwell.result() if raised is None else words(raised)

    async def _stop(self, instance: Instance) -> None:
        try:
            await instance.stop(self._patience)
        except Exception:
            logger.exception("%s: it cannot be stopped", self._path)
            self.forced = True
            self.kill()
            await asyncio.wait([instance.ended], timeout=self._patience)

    def _failure(self, why: str) -> Exit:
        return Exit(at=self._child.around.now(), error=why)

    def _end_of(self, instance: Instance) -> Exit:
        ended = instance.ended
        if not ended.done() or ended.cancelled():
            why = "its exit is unknown" if self._is_there else "stopped while it was starting"
            return self._failure(why)
        raised = ended.exception()
        return ended.result() if raised is None else self._failure(words(raised, self._path))

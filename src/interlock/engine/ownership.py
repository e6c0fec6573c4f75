"""The lease that lets a scheduler write: taken before each load, renewed every third of its term, and released."""

import asyncio
import logging
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from interlock.error import LeaseLost, OutcomeUnknown, StoreUnavailable
from interlock.model.run import Now
from interlock.ports.clock import Clock, StoreClock
from interlock.ports.leases import Lease, Leases

logger = logging.getLogger("interlock.engine")

T = TypeVar("T")

LEADER = "main"  # name of the one lease of a store
MOST_FAILURES = 3  # renewals in a row
GIVES_WAY = 3.0  # seconds for the successor of a hand-over to take the lease; a standby looks once a second
LEAST_WAIT = 1.0  # seconds for an answer of the store, even if the lease has ended: this process may have stood still


class Ownership:
    def __init__(self, leases: Leases, holder: str, ttl: float, clock: Clock, rng: Random) -> None:
        self._leases = leases
        self._holder = holder
        self._token = f"{rng.getrandbits(128):032x}"  # kept, so that a take with an unknown outcome can be repeated
        self._ttl = ttl
        self._clock = clock
        self.lease: Lease | None = None
        self.renew_at = 0.0  # elapsed time
        self.ends_at = 0.0  # elapsed time at which the lease ends if it is not renewed
        self.successor = ""  # holder that a hand-over names
        self._failures = 0
        self.lost = 0  # positions that the store has lost, until that is stored

    @property
    def held(self) -> Lease:
        if self.lease is None:
            raise LeaseLost(LEADER, "not held")
        return self.lease

    @property
    def has_ended(self) -> bool:
        """Whether the lease has ended, unless the store has prolonged it."""
        return self._clock.now().elapsed >= self.ends_at

    async def take(self, again: bool = False) -> bool:
        """Take the lease with a new epoch, also if it is ours; return False if another scheduler has it, or had it
        since and we take it `again`."""
        asked = self._clock.now()
        self.renew_at = asked.elapsed + self._ttl / 3
        lease = await self._answer(self._leases.take(LEADER, self._holder, self._token, self._ttl, again), self._ttl)
        if lease is not None:
            self._granted(lease, asked)
            self.lost += lease.lost
        return lease is not None

    async def renew(self) -> bool:
        """Renew the lease if it is time, or if our session is gone; return whether the store wrote it. Raise after too
        many failures in a row."""
        asked = self._clock.now()
        is_gone = not self._failures and not self._leases.has_session
        if self.lease is None or (asked.elapsed < self.renew_at and not is_gone):
            return False
        self.renew_at = asked.elapsed + self._ttl / 3
        limit = max(LEAST_WAIT, self.ends_at - asked.elapsed)
        try:
            self._granted(await self._answer(self._leases.renew(self.lease, self._ttl), limit), asked)
        except StoreUnavailable as error:
            self._failures += 1
            logger.warning("renewing the lease failed %d times: %s", self._failures, error)
            if self._failures >= MOST_FAILURES:
                raise
            return False
        return True

    async def _answer(self, call: Coroutine[Any, Any, T], limit: float) -> T:
        try:
            return await asyncio.wait_for(call, limit)
        except TimeoutError as error:
            raise StoreUnavailable(f"it did not answer within {limit:.1f}s") from error

    async def settle(self, commit: "asyncio.Future[None]") -> None:
        """Wait for a commit until the lease would end, and a moment; then its outcome is unknown."""
        for seconds in (self.ends_at - self._clock.now().elapsed, LEAST_WAIT):
            if seconds > 0 and not commit.done():
                await asyncio.wait([commit], timeout=seconds)
        if commit.done():
            return commit.result()
        commit.cancel()
        raise OutcomeUnknown("no answer before the lease ended")

    def _granted(self, lease: Lease, asked: Now) -> None:
        self.lease = lease
        self.ends_at = asked.elapsed + self._ttl
        if isinstance(self._clock, StoreClock):
            self._clock.compare(lease.granted_at, asked)
        self._failures = 0

    def lose(self) -> None:
        self.lease = None

    async def release(self) -> None:
        if self.lease is not None:
            try:
                await self._leases.release(self.lease, self.successor, GIVES_WAY)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

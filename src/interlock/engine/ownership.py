"""The lease that lets a scheduler write: taken, renewed every third of its term, and released."""

import logging
from random import Random

from interlock.error import StoreUnavailable
from interlock.model.run import Now
from interlock.ports.leases import Lease, Leases

logger = logging.getLogger("interlock.engine")

LEADER = "main"  # name of the one lease of a store
MOST_FAILURES = 3  # renewals in a row


class Ownership:
    def __init__(self, leases: Leases, holder: str, ttl: float) -> None:
        self._leases = leases
        self._holder = holder
        self._ttl = ttl
        self._lease: Lease | None = None
        self.renew_at = 0.0  # elapsed time
        self._failures = 0

    @property
    def epoch(self) -> int:
        return 0 if self._lease is None else self._lease.epoch

    async def take(self, now: Now, rng: Random) -> bool:
        """Take the lease, or keep it; return False if another scheduler has it."""
        token = f"{rng.getrandbits(128):032x}" if self._lease is None else self._lease.token
        lease = await self._leases.acquire(LEADER, self._holder, token, self._ttl, now.wall)
        if lease is None:
            return False
        self._lease = lease
        self.renew_at = now.elapsed + self._ttl / 3
        self._failures = 0
        return True

    async def renew(self, now: Now) -> bool:
        """Renew the lease if it is time; return whether the store wrote it. Raise after too many failures in a row."""
        if self._lease is None or now.elapsed < self.renew_at:
            return False
        self.renew_at = now.elapsed + self._ttl / 3
        try:
            self._lease = await self._leases.renew(self._lease, self._ttl, now.wall)
        except StoreUnavailable as error:
            self._failures += 1
            logger.warning("renewing the lease failed %d times: %s", self._failures, error)
            if self._failures >= MOST_FAILURES:
                raise
            return False
        self._failures = 0
        return True

    def lose(self) -> None:
        self._lease = None

    async def release(self) -> None:
        if self._lease is not None:
            try:
                await self._leases.release(self._lease)
            except StoreUnavailable as error:
                logger.warning("the lease could not be released: %s", error)

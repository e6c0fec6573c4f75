"""Port: who owns what.

A lease has a holder, a token only that holder knows, a time at which it ends, and an epoch that grows with every new
holder. The epoch is what makes it safe: every write carries it, and the store refuses one that is not current. So a
holder that was paused past the end of its lease can believe what it likes; what it writes is refused.
"""

from abc import ABC, abstractmethod

import msgspec


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    holder: str
    token: str
    epoch: int
    ends_at: float


class Leases(ABC):
    """Times are wall-clock seconds given by the caller. Calls raise `StoreUnavailable` when the service is away."""

    @abstractmethod
    async def acquire(self, name: str, holder: str, token: str, ttl: float, now: float) -> Lease | None:
        """Take a lease that is free, has ended (at exactly its end it has), or already has this token.

        A new holder gets a greater epoch than anyone had; the same token keeps its epoch. None if somebody else has it.
        """

    @abstractmethod
    async def renew(self, lease: Lease, ttl: float, now: float) -> Lease:
        """Prolong. Raises `LeaseLost` if the token or the epoch is no longer the current one; a lease that ran out but
        was taken by nobody can still be renewed."""

    @abstractmethod
    async def release(self, lease: Lease) -> None:
        """Give up; the next to come need not wait. With a token that is not current it changes nothing."""

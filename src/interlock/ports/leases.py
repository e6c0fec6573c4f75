"""Port: who owns what.

A lease has a holder, a token only that holder knows, a time at which it ends, and an epoch that grows with every new
holder. The epoch is what makes it safe: every write carries it, and the store refuses one that is not current. So a
holder that was paused past the end of its lease can believe what it likes; what it writes is refused.
"""

from abc import ABC, abstractmethod

import msgspec

from interlock.model.error import LeaseLost


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


# The rules, for adapters that can read and write a lease in one transaction. `current` is the stored one.


def acquired(current: Lease | None, name: str, holder: str, token: str, ttl: float, now: float) -> Lease | None:
    if current is None:
        epoch = 1
    elif current.token == token:
        epoch = current.epoch
    elif now < current.ends_at:
        return None
    else:
        epoch = current.epoch + 1
    return Lease(name=name, holder=holder, token=token, epoch=epoch, ends_at=now + ttl)


def renewed(current: Lease | None, lease: Lease, ttl: float, now: float) -> Lease:
    if current is None or (current.token, current.epoch) != (lease.token, lease.epoch):
        raise LeaseLost(lease.name, f"now held by {current.holder if current else 'nobody'}")
    return msgspec.structs.replace(lease, ends_at=now + ttl)


def released(current: Lease | None, lease: Lease) -> Lease | None:
    """The lease to store, or None where the token is not current."""
    if current is None or current.token != lease.token:
        return None
    # The epoch stays, so that the next holder's is greater; the token goes, so that nobody writes with it.
    return msgspec.structs.replace(lease, holder="", token="", ends_at=0.0)

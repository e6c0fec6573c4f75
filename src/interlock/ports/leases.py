"""Port: leases, which say who owns what.

A lease has a holder, a token that only the holder knows, an end, and an epoch that grows with every new holder. Every
write carries the epoch, and the store refuses one that is not current. So the writes of a holder that was paused past
the end of its lease are refused, whatever it believes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import msgspec

from interlock.error import LeaseLost


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    holder: str
    token: str
    epoch: int
    ends_at: float


L = TypeVar("L", bound=Lease | None)


class Leases(ABC):
    """Times are wall-clock seconds of the caller. Calls raise `StoreUnavailable` when the service is away."""

    @abstractmethod
    async def _change(self, name: str, change: Callable[[Lease | None], L]) -> L:
        """Store and return what `change` makes of the stored lease, in one transaction; None changes nothing."""

    async def acquire(self, name: str, holder: str, token: str, ttl: float, now: float) -> Lease | None:
        """Take a lease that is free, has ended (as it has at exactly its end), or has this token; None if another holds
        it. A new holder gets a greater epoch than any before; the same token keeps its epoch."""

        def change(current: Lease | None) -> Lease | None:
            epoch = 1 if current is None else current.epoch
            if current is not None and current.token != token:
                if now < current.ends_at:
                    return None
                epoch += 1
            return Lease(name=name, holder=holder, token=token, epoch=epoch, ends_at=now + ttl)

        return await self._change(name, change)

    async def renew(self, lease: Lease, ttl: float, now: float) -> Lease:
        """Prolong a lease, even one that ran out, unless another took it: then `LeaseLost` is raised."""

        def change(current: Lease | None) -> Lease:
            if current is None or (current.token, current.epoch) != (lease.token, lease.epoch):
                raise LeaseLost(lease.name, f"now held by {current.holder if current else 'nobody'}")
            return msgspec.structs.replace(lease, ends_at=now + ttl)

        return await self._change(lease.name, change)

    async def release(self, lease: Lease) -> None:
        """Give up a lease, so that the next holder need not wait. Does nothing if the token is not current."""

        def change(current: Lease | None) -> Lease | None:
            if current is None or current.token != lease.token:
                return None
            # The epoch stays, so that the next is greater; the token goes, so that nobody writes with it.
            return msgspec.structs.replace(lease, holder="", token="", ends_at=0.0)

        await self._change(lease.name, change)

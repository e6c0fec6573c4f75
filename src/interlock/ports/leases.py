"""Port: leases, which say who owns what.

A lease has a holder, a token that only the holder knows, an end, and an epoch that grows whenever it is taken, also by
the holder that has it. Every write carries the lease, and the store refuses one whose epoch or token is not current. So
the writes of a holder that was paused past the end of its lease are refused, whatever it believes. So are those that a
holder has given up on: it takes its lease again before it loads what is stored, and then no earlier write can still
take effect.
"""

from abc import ABC, abstractmethod

import msgspec


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Times are seconds of the store's clock. A holder counts the term from when it asked, by its own elapsed time."""

    name: str
    holder: str
    token: str
    epoch: int
    granted_at: float  # the time of the store as it was taken or renewed
    ends_at: float
    lost: int = 0
    """positions that the store had confirmed or shown to whoever takes it, and no longer has: it has gone back"""


class Leases(ABC):
    """Every time is one of the store's own clock, whatever the clocks of its callers say. Calls raise
    `StoreUnavailable` when the store is away. Such a call may have been carried out, and is repeated with the same
    token."""

    has_session: bool = True
    """Whether the store knows the holder's session; without, its lease may be given away before its end."""

    @abstractmethod
    async def take(self, name: str, holder: str, token: str, ttl: float, again: bool = False) -> Lease | None:
        """Take a lease for `ttl` seconds if it is free, was released, has ended (as it has at exactly its end), or has
        this token; `again` takes it only with this token, that is if nobody else had it in between, or if the store has
        gone back behind our last take. Return None if it is not to be had, also because it was released to another
        holder that still has time to take it. Its epoch is greater than any before that the store has or the caller has
        seen, also with the same token.

        Waits for a write that has passed the check of its lease, so that a later `load` has this write. A store that
        knows the session of the holder may also give a lease away once that has been gone for 2 s."""

    @abstractmethod
    async def renew(self, lease: Lease, ttl: float) -> Lease:
        """Prolong a lease, even one that has ended, unless it was taken since: then `LeaseLost` is raised. Raise
        `OutcomeUnknown` if the store has gone back since."""

    @abstractmethod
    async def release(self, lease: Lease, to: str = "", within: float = 0.0) -> None:
        """Give up a lease, so that the next holder need not wait; with `to`, only that holder may take it for the
        seconds of `within`. Does nothing unless the token is current."""

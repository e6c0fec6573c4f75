"""Port: one request to another system."""

from abc import ABC, abstractmethod

import msgspec

from interlock.model.delivery import Outgoing


class ReceivedAnswer(msgspec.Struct, frozen=True):
    status: int | None = None
    text: str = ""
    error: str = ""  # why the request failed; empty after a status from 200 to 299
    made: bool = True  # false if the request could not even be made

    @property
    def host_is_well(self) -> bool:
        """Whether the host works, even if it refuses this request, as with 404."""
        return self.status is not None and self.status < 500 and self.status != 429


class Transport(ABC):
    @abstractmethod
    async def post(self, id: str, outgoing: Outgoing, now: float, fresh: bool = False) -> ReceivedAnswer:
        """Make the request; never raise. `now` is the wall clock, for the signature. `fresh` opens a new
        connection: the receiver may have closed a kept one, and hooks are not retried."""

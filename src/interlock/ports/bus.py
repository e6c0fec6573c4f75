"""Port: links between a scheduler and its workers and clients."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from interlock.model.access import Caller
from interlock.wire.message import Message


class Peer(ABC):
    """The other end of one link. Messages arrive in order, whole, or not at all; the link may break at any moment."""

    identity: str = ""  # names the process at the other end, or the token of a worker elsewhere; empty if unknown
    on_process_end: Callable[[Callable[[], None]], None] | None = None
    """calls once when the process at the other end has ended, behind its last messages, or never if that cannot be
    known; None if that process is not of this machine. A link only breaks; such an end is known for certain"""
    caller: Caller | None = None  # of a worker elsewhere

    @abstractmethod
    def send(self, messages: Sequence[Message]) -> None:
        """Queue messages to be sent; never blocks. On a broken link they are dropped."""

    @abstractmethod
    def flush(self) -> None:
        """Hand queued messages to the system now, rather than at the end of this turn of the loop."""

    @abstractmethod
    def close(self) -> None:
        """Hand queued messages to the system, then break the link."""

    @abstractmethod
    def pause(self) -> None:
        """Stop reading from this link, so that the other side has to wait."""

    @abstractmethod
    def resume(self) -> None: ...


class Endpoint(ABC):
    """Receives the events of links. Called from the event loop, never concurrently; must not block."""

    tolerant = False  # whether it takes an `Unread` for a bad message; else the link is closed

    def opened(self, peer: Peer) -> None:  # noqa: B027 - most endpoints wait for the first message
        pass

    @abstractmethod
    def received(self, peer: Peer, messages: Sequence[Message]) -> None: ...

    @abstractmethod
    def closed(self, peer: Peer) -> None:
        """Called once for each opened peer, whichever side closed it."""


class Bus(ABC):
    @abstractmethod
    async def listen(self, endpoint: Endpoint) -> None:
        """Accept links until closed. Raises `SocketInUse` or `CannotListen`."""

    @abstractmethod
    async def connect(self, endpoint: Endpoint) -> Peer:
        """Make one link. Raises `NotRunning` if nobody listens."""

    @abstractmethod
    async def close(self) -> None:
        """Stop listening and break every link."""

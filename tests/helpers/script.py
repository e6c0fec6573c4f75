"""A scheduler that the test plays, for a real worker."""

from collections.abc import Sequence

from interlock.ports.bus import Endpoint, Peer
from interlock.wire import message as m


class Script(Endpoint):
    """Keeps what the worker says, in order, and apart from it how busy the machine is."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.heard: list[m.Message] = []
        self.loads: list[m.Load] = []

    def opened(self, peer: Peer) -> None:
        self.peer = peer

    def closed(self, peer: Peer) -> None:
        # A worker looks whether anybody is there before it comes to stay.
        if self.peer is peer:
            self.peer = None

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        self.heard += [one for one in messages if not isinstance(one, m.Load)]
        if isinstance(messages[0], m.Hello):
            peer.send([m.Welcome(0.1)])
        loads = [one for one in messages if isinstance(one, m.Load)]
        self.loads += loads
        peer.send([m.Seen() for _ in loads])

    def say(self, *messages: m.Message) -> None:
        assert self.peer is not None
        self.peer.send(messages)

    def of(self, run_id: str) -> list[str]:
        return [type(one).__name__ for one in self.heard if getattr(one, "run_id", None) == run_id]

    def beats(self, since: int = 0) -> list[list[str]]:
        return [[held.run_id for held in one.held] for one in self.heard[since:] if isinstance(one, m.Heartbeat)]

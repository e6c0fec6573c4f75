"""The socket: descriptors are not lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from interlock.buses.socket import ProcessWatch, SocketBus
from interlock.ports.bus import Endpoint, Peer
from interlock.wire.message import Greeting, Message
from tests.helpers.places import folder, until
from tests.helpers.processes import descriptors

__all__ = ["folder"]


class Watching(Endpoint):
    def __init__(self) -> None:
        self.open = 0

    def opened(self, peer: Peer) -> None:
        self.open += 1

    def received(self, peer: Peer, messages: Sequence[Message]) -> None:
        assert peer.on_process_end is not None
        peer.on_process_end(lambda: None)

    def closed(self, peer: Peer) -> None:
        self.open -= 1


async def test_a_process_that_links_again_and_again_costs_one_descriptor(folder: Path) -> None:
    processes = ProcessWatch()
    server, watching = SocketBus(folder / "s", processes), Watching()
    await server.listen(watching)
    opened = []
    for _ in range(5):
        client = SocketBus(folder / "s")
        peer = await client.connect(Watching())
        peer.send([Greeting(1)])
        await until(lambda: watching.open == 1, "it is linked")
        await asyncio.wait([asyncio.ensure_future(client.close())])
        await until(lambda: watching.open == 0, "the link has ended")
        opened.append(descriptors())
    assert opened[-1] <= opened[1]
    await server.close()
    processes.close()

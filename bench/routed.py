"""Jobs of ten topics, and workers that only say that they have done them: `python -m bench.routed SOCKET WORKERS`."""

import asyncio
import sys
import time
from collections.abc import Sequence

from interlock import runtime
from interlock.app import App
from interlock.bench.server import IN_FLIGHT
from interlock.buses.socket import SocketBus
from interlock.ports.bus import Endpoint, Peer
from interlock.wire.message import PROTOCOL, Dispatch, Finished, Hello, Load, Message, Started

POOLS = 10
SHORT = 0.01

app = App()


@app.job("short", lane="shared")
async def short() -> int:
    """Return nanoseconds of the monotonic clock at its start."""
    begin = time.monotonic_ns()
    await asyncio.sleep(SHORT)
    return begin


async def noop() -> None:
    pass


for number in range(POOLS):
    app.job(f"topic{number}.noop", lane="bench")(noop)


class Simulated(Endpoint):
    def received(self, peer: Peer, messages: Sequence[Message]) -> None:
        answers: list[Message] = []
        for one in messages:
            if isinstance(one, Dispatch):
                answers += Started(one.run_id, one.fence), Finished(one.run_id, one.fence, "succeeded")
        peer.send(answers)

    def closed(self, peer: Peer) -> None:
        asyncio.get_running_loop().stop()


async def work(socket: str, workers: int) -> None:
    bus, endpoint, peers = SocketBus(socket), Simulated(), []
    for number in range(workers):
        peer = await bus.connect(endpoint)
        jobs = {f"topic{one}.noop": "" for one in range(POOLS)}
        pool = f"pool{number % POOLS}" if workers > 1 else ""
        peer.send([Hello(f"worker{number}", PROTOCOL, 0, IN_FLIGHT // workers, 1, jobs, [], "", pool)])
        peers.append(peer)
    while True:
        await asyncio.sleep(5)
        for peer in peers:
            peer.send([Load()])


if __name__ == "__main__":
    runtime.run(work(sys.argv[1], int(sys.argv[2])))

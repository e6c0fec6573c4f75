"""Links of a cluster: several addresses, of which one leads; gateways; and a leader that falls silent."""

import asyncio
import socket
from typing import Any

import pytest

from interlock.api.patience import ask
from interlock.buses.several import SeveralPlaces
from interlock.client.connection import Connection
from interlock.config import Settings
from interlock.error import BadUse, ConnectionLost, NobodyLeads, NotRunning, Refused, TokenRefused
from interlock.model.cluster import NodeFacts
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.cluster_request import AskCluster, HandOver
from interlock.wiring.node import Node
from tests.helpers.places import until
from tests.remote.elsewhere import free_port
from tests.remote.stage import OF_GATEWAY, TOKEN, Network, Scheduler, Worker, connecting_bus
from tests.remote.test_strangers import on_loop

run_test = on_loop

LONG = 10.0  # a heartbeat interval
HELLO = m.Hello("w", m.PROTOCOL, 1, 1, 1, {}, [], "")
FACTS = NodeFacts(name="a", instance="1", roles=["scheduler"], version="1", since=0.0, digests={})


def nobody() -> Bus:
    return connecting_bus(("127.0.0.1", free_port()))


@pytest.mark.behaviour("ROU-12")
async def test_a_worker_uses_the_address_that_answers_and_finds_the_next_leader() -> None:
    store = MemoryStore()
    first, second = (Scheduler(LONG, FACTS, store), Scheduler(LONG, FACTS, store))
    second.address = ("127.0.0.1", free_port())
    await first.start()
    worker = Worker(SeveralPlaces([nobody(), connecting_bus(first.address), connecting_bus(second.address)]))
    try:
        await first.joined("site:worker-1")
        run_id = await first.submit()
        await until(lambda: len(worker.work.begun) == 1, "it has begun")
        await first.stop()
        await second.start()
        await second.joined("site:worker-1")
        worker.work.end((run_id, 1))
        run = await second.ended(run_id)
        assert (run.state, run.attempt, run.fence, run.crashes) == ("succeeded", 1, 1, 0)
        assert worker.work.begun == [(run_id, 1)]
    finally:
        await worker.close()
        await second.stop()


@pytest.mark.behaviour("ROU-12")
@pytest.mark.parametrize("kind", ["worker", "gateway"])
async def test_a_link_on_which_nothing_comes_for_one_lease_is_left(kind: str) -> None:
    """The network holds everything back, as a leader that stands still does. Heartbeats come every 10 s, so three of
    them would be too late."""
    scheduler = Scheduler(LONG, FACTS, lease=0.6)
    await scheduler.start()
    network = Network(lambda: scheduler.address)
    await network.start()
    ends: list[Worker | Connection] = []
    if kind == "worker":
        ends.append(Worker(connecting_bus(network.address)))
        await scheduler.joined("site:worker-1")
    else:
        connection = Connection(connecting_bus(network.address, OF_GATEWAY), silence=0.6)
        ends.append(connection)
        assert (await connection.ask(r.AskStatus(0))).available
    before = network.connections
    network.hold()
    if kind == "gateway":
        with pytest.raises(ConnectionLost):
            await connection.ask(r.AskStatus(0))
        network.heal()
        assert (await connection.ask(AskCluster(0))).leader == "a"
    await until(lambda: network.connections > before, "it has left the link and tries again")
    for end in ends:
        await end.close()
    await network.close()
    await scheduler.stop()


class Silent(Endpoint):
    def __init__(self) -> None:
        self.heard: list[m.Message] = []

    def received(self, peer: Peer, messages: list[m.Message]) -> None:  # type: ignore[override] # a list here
        self.heard += messages

    def closed(self, peer: Peer) -> None:
        pass


@pytest.mark.behaviour("SEC-2")
@pytest.mark.parametrize(
    ("token", "first", "why"),
    [
        (TOKEN, m.Greeting(m.PROTOCOL), "the token 'site' is that of a worker, not of a gateway"),
        (
            OF_GATEWAY,
            HELLO,
            "the token 'door' is that of a gateway, not of a worker",
        ),
    ],
)
async def test_a_token_is_good_for_its_own_role_only(token: str, first: m.Message, why: str) -> None:
    scheduler = Scheduler(LONG)
    await scheduler.start()
    bus, end = connecting_bus(scheduler.address, token), Silent()
    peer = await bus.connect(end)
    peer.send([first, r.AskStatus(1)])
    await until(lambda: bool(end.heard), "it is answered")
    (problem,) = end.heard
    assert isinstance(problem, m.Problem)
    assert (problem.code, problem.text) == (Refused.code, f"link: {why}")
    assert scheduler.engine.present.peers.clients.keys() == {"client-1"}  # the stage's own
    await bus.close()
    await scheduler.stop()


async def test_the_refusal_of_an_address_is_told_if_none_answers() -> None:
    scheduler = Scheduler(LONG)
    await scheduler.start()
    wrong = connecting_bus(scheduler.address, "wrong-0123456789abcdef")
    with pytest.raises(TokenRefused):
        await SeveralPlaces([nobody(), wrong, nobody()]).connect(Silent())
    with pytest.raises(NotRunning):
        await SeveralPlaces([nobody(), nobody()]).connect(Silent())
    right = connecting_bus(scheduler.address)
    several = SeveralPlaces([wrong, nobody(), right])
    (await several.connect(Silent())).close()
    await several.close()
    await scheduler.stop()


@pytest.mark.behaviour("CLU-1")
@pytest.mark.parametrize("request_", [AskCluster(0), HandOver(0)])
async def test_a_gateway_says_soon_that_nobody_leads(request_: r.Request[Any]) -> None:
    places = [nobody(), nobody()]
    connection = Connection(SeveralPlaces(places))
    async with asyncio.timeout(5.0):
        with pytest.raises(NobodyLeads) as caught:
            await ask(connection, request_)
    assert all(str(place) in str(caught.value) for place in places)
    await connection.close()


@pytest.mark.behaviour("ROU-12")
async def test_a_place_that_stands_still_keeps_nobody_from_the_next_leader() -> None:
    """The system accepts connections for a scheduler that is stopped, and it never says anything."""
    scheduler = Scheduler(LONG)
    await scheduler.start()
    with socket.socket() as stopped:
        stopped.bind(("127.0.0.1", 0))
        stopped.listen()
        several = SeveralPlaces([connecting_bus(stopped.getsockname()), connecting_bus(scheduler.address)])
        async with asyncio.timeout(8.0):
            (await several.connect(Silent())).close()
    await several.close()
    await scheduler.stop()


@pytest.mark.behaviour("ROU-12")
async def test_a_worker_outlasts_a_leader_that_does_not_know_it(caplog: pytest.LogCaptureFixture) -> None:
    """The next leader has other tokens, as in the middle of a rotation. Attempts must not end with the worker."""
    store = MemoryStore()
    first, second = Scheduler(LONG, FACTS, store), Scheduler(LONG, FACTS, store)
    second.address = ("127.0.0.1", free_port())
    await first.start()
    here = first.address
    wrong = connecting_bus(second.address, "wrong-0123456789abcdef")
    worker = Worker(SeveralPlaces([connecting_bus(here), wrong]))
    third = Scheduler(LONG, FACTS, store)
    third.address = here
    try:
        await first.joined("site:worker-1")
        run_id = await first.submit()
        await until(lambda: len(worker.work.begun) == 1, "it has begun")
        await first.stop()
        await second.start()
        await until(lambda: "its token is not that of a worker" in caplog.text, "the next leader refuses it")
        await second.stop()
        await third.start()
        await third.joined("site:worker-1")
        worker.work.end((run_id, 1))
        run = await third.ended(run_id)
        assert (run.attempt, run.crashes) == (1, 0)
        await third.stop()
    finally:
        await worker.close()


@pytest.mark.parametrize(
    ("given", "why"), [({}, "listen_workers: missing"), ({"roles": ["gateway"]}, "gateway_token: missing")]
)
def test_a_node_that_others_could_not_reach_as_the_leader_is_refused(given: dict[str, Any], why: str) -> None:
    """A scheduler that leads and listens nowhere would leave every other node without one."""
    settings = Settings(database="postgresql://db.example/x", nodes=["a.example:8421"], **given)
    with pytest.raises(BadUse, match=why):
        Node(settings, None)

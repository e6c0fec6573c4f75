"""The lease, while its store is away and when a start fails."""

import asyncio
from pathlib import Path

import pytest

from interlock.config import Settings
from interlock.error import CannotListen
from interlock.stores.postgres import PostgresStore
from interlock.wiring.scheduler import Scheduler
from tests.cluster.nodes import SCHEDULER, Cluster
from tests.cluster.test_two_nodes import held_at
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.postgres import Server, fetch, schema
from tests.helpers.processes import wait_until

STANDS_BY = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%SELECT nullif(session%' AND pid <> pg_backend_pid()"


@pytest.mark.behaviour("LEA-4")
def test_without_postgresql_work_goes_on_and_nobody_takes_the_lead(two_nodes: Cluster, postgres: Server) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    run_id, name = held_at(two_nodes, other)
    wait_until(lambda: fetch(postgres.url, STANDS_BY), "the other stands by")
    before = leader.process_of(SCHEDULER), leader.epoch(), other.epoch()
    tries = other.said.count("standing by")
    postgres.stop()
    try:
        answer = other.http.post("/api/v1/runs", {"job": "add", "payload": {"left": 1}})
        assert answer.status == 503, answer
        tell_to_go(two_nodes.folder, name)
        wait_until(lambda: lines_of(two_nodes.folder / f"{name}.ended"), "it works to its end")
        wait_until(lambda: other.said.count("standing by") >= tries + 3, "the other has tried")
        assert (leader.process_of(SCHEDULER), leader.epoch(), other.epoch()) == before
    finally:
        postgres.start()
    run = other.wait_for(run_id, "succeeded")
    assert (run["attempt"], run["crashes"]) == (1, 0)
    assert leader.wait_for(leader.submit("add", left=1), "succeeded")["result"] == 2


@pytest.mark.behaviour("LEA-6")
def test_an_idle_leader_connects_again_before_another_takes_its_lead(two_nodes: Cluster, postgres: Server) -> None:
    """It would have no other reason to write for 3.3 s."""
    leader, lease = two_nodes.leading(), f"{two_nodes.schema}.leases"

    def renewed() -> float:
        return float(fetch(postgres.url, f"SELECT ends_at FROM {lease}"))

    before, first = leader.epoch(), renewed()
    wait_until(lambda: renewed() > first, "it has just renewed its lease")
    fetch(postgres.url, f"SELECT pg_terminate_backend(split_part(session, ' ', 1)::int) FROM {lease}")
    last = renewed()
    wait_until(lambda: renewed() > last + 4, "it has renewed its lease for some time")
    assert two_nodes.leading() is leader
    assert leader.epoch() == before


def test_a_start_that_fails_gives_the_lease_back(postgres: Server, tmp_path: Path) -> None:
    """Another node, whose start may succeed, must not wait for its end."""

    async def body(database: str) -> None:
        settings = Settings(database=database, socket=str(tmp_path / "missing" / "s"), workers=0, http="off")
        with pytest.raises(CannotListen):
            await Scheduler({}, None, settings).start()
        store = PostgresStore(database)
        await store.open()
        lease = await store.take("main", "another", "its token", 10.0)
        await store.close()
        assert lease is not None
        assert lease.epoch == 2

    with schema(postgres.url) as database:
        asyncio.run(body(database))

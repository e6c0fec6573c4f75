"""The server is lost, and its replica takes its place."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cluster.nodes import SCHEDULER, Cluster, Node, clean_cluster
from tests.cluster.test_two_nodes import held_at
from tests.helpers.places import lines_of
from tests.helpers.postgres import Server, execute, fetch, own_server
from tests.helpers.processes import every_process, wait_until

SCHEMA = "replicated"


@contextmanager
def replicated(*names: str) -> Iterator[tuple[Server, Server, Cluster]]:
    with own_server() as primary, own_server(primary=primary) as replica:
        url = f"postgresql://postgres@/postgres?host={primary.home},{replica.home}&schema={SCHEMA}"
        with clean_cluster(url, *names) as cluster:
            yield primary, replica, cluster


def fail_over(primary: Server, replica: Server) -> None:
    for pid in primary.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    primary.stop()
    assert fetch(replica.url, "SELECT pg_promote()")


def follows(primary: Server) -> Callable[[], bool]:
    query = "SELECT bool_or(replay_lsn = pg_current_wal_lsn()) FROM pg_stat_replication"
    return lambda: bool(fetch(primary.url, query))


@pytest.mark.behaviour("RUN-17")
def test_a_failover_to_a_synchronous_replica_loses_no_acknowledged_run() -> None:
    with replicated("a", "b") as (primary, replica, cluster):
        execute(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        execute(primary.url, "SELECT pg_reload_conf()")
        wait_until(lambda: fetch(primary.url, "SHOW synchronous_standby_names") == "*", "commits wait for the replica")
        door, acknowledged, is_over = cluster.nodes["a"], list[str](), threading.Event()

        def submit() -> None:
            while not is_over.is_set():
                answer = door.http.post("/api/v1/runs", {"job": "add", "payload": {"left": 1}})
                if answer.status == 201:
                    acknowledged.append(answer.json["id"])

        client = threading.Thread(target=submit)
        client.start()
        try:
            wait_until(lambda: len(acknowledged) >= 50, "runs are acknowledged")
            fail_over(primary, replica)
            before = len(acknowledged)
            wait_until(lambda: len(acknowledged) >= before + 20, "runs are acknowledged again", 60.0)
        finally:
            is_over.set()
            client.join()
        for run_id in acknowledged:
            door.wait_for(run_id, "succeeded")
        assert all("acknowledged runs may be gone" not in node.said for node in cluster.nodes.values())


@pytest.mark.behaviour("REC-8")
def test_a_leader_whose_server_is_replaced_by_a_replica_that_lagged_says_what_is_lost_and_continues() -> None:
    with replicated("a") as (primary, replica, cluster):
        node = cluster.nodes["a"]
        kept, kept_name = held_at(cluster, node)
        wait_until(follows(primary), "the replica has everything")
        _lag(primary)
        lost, lost_name = held_at(cluster, node)
        fail_over(primary, replica)
        wait_until(lambda: "acknowledged runs may be gone" in node.said, "its log says so", 60.0)
        wait_until(lambda: _detail(node) is not None, "it is ready", 60.0)
        assert "positions" in str(_detail(node))
        assert node.run(lost) is None
        wait_until(lambda: lines_of(cluster.folder / f"{lost_name}.stopped"), "the lost attempt is stopped", 60.0)
        (entry,) = node.get("/api/v1/audit?kind=went_back")["entries"]
        assert entry["actor"] == "scheduler"
        assert entry["detail"]["positions"] > 0
        assert node.wait_for(node.submit("add", left=2), "succeeded")["result"] == 3
        assert node.run(kept)["state"] in ("dispatched", "running")
        (cluster.folder / f"{kept_name}.go").touch()
        node.wait_for(kept, "succeeded")


@pytest.mark.behaviour("REC-8")
def test_a_leader_whose_server_goes_back_behind_its_own_take_of_the_lease_says_so_and_leads_on() -> None:
    """In that server the lease still belongs to the earlier scheduler, which is gone; nobody has led since."""
    with replicated("a") as (primary, replica, cluster):
        node = cluster.nodes["a"]
        node.wait_for(node.submit("add", left=2), "succeeded")
        wait_until(follows(primary), "the replica has everything")
        _lag(primary)
        before = node.epoch()
        node.signal_part(SCHEDULER, signal.SIGKILL)
        wait_until(lambda: node.epoch() > before, "another scheduler leads", 60.0)
        leads = node.process_of(SCHEDULER)
        lost, _ = held_at(cluster, node)
        fail_over(primary, replica)
        wait_until(lambda: "acknowledged runs may be gone" in node.said, "its log says so", 60.0)
        wait_until(lambda: _detail(node) is not None, "it is ready", 60.0)
        assert node.process_of(SCHEDULER) == leads
        assert "another scheduler has led since" not in node.said
        assert node.run(lost) is None
        assert fetch(replica.url, f"SELECT epoch FROM {SCHEMA}.leases") > before + 1
        assert node.wait_for(node.submit("add", left=2), "succeeded")["result"] == 3


def _lag(primary: Server) -> None:
    (sender,) = [one.pid for one in every_process() if "walsender" in one.command and _is_of(primary, one.pid)]
    os.kill(sender, signal.SIGSTOP)


def _is_of(server: Server, pid: int) -> bool:
    return pid in server.processes()


def _detail(node: Node) -> str | None:
    found = node.get("/readyz")
    return None if found is None else found["checks"]["scheduler"]["detail"]

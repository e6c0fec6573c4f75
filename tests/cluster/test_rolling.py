"""Nodes of the first commit that runs a cluster and of this tree work together, whichever of them leads."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster, Node, clean_cluster
from tests.cluster.test_two_nodes import back, held_at
from tests.helpers.postgres import fetch, own_server, with_options
from tests.helpers.processes import wait_until
from tests.helpers.server import ROOT

STANDS_BY = """
SELECT 1 FROM pg_stat_activity WHERE query LIKE '%SELECT %session%FROM leases%' AND pid <> pg_backend_pid()
AND query NOT LIKE '%pg_backend_pid%'
"""
FIRST = "4f59f1f05218f0f72d5d2d57880184fa3252fa37"
"""the commit whose messages are in tests/core/frames"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tree of that commit, if the history is there."""
    if "SOAK" not in os.environ:
        pytest.skip("takes two minutes: part of make soak")
    tree = tmp_path_factory.mktemp("first") / "tree"
    made = subprocess.run(["git", "worktree", "add", "--detach", tree, FIRST], cwd=ROOT, capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"no history: {made.stderr.decode()}")
    yield tree
    subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


@contextmanager
def load(cluster: Cluster) -> Iterator[list[str]]:
    """Submit through every gateway; yield the acknowledged runs."""
    acknowledged, is_over = list[str](), threading.Event()

    def submit(door: Node) -> None:
        while not is_over.wait(0.02):
            try:
                answer = door.http.post("/api/v1/runs", {"job": "add", "payload": {"left": 1}})
            except OSError:
                continue
            if answer.status == 201:
                acknowledged.append(answer.json["id"])

    clients = [threading.Thread(target=submit, args=(node,)) for node in cluster.nodes.values()]
    for client in clients:
        client.start()
    try:
        yield acknowledged
    finally:
        is_over.set()
        for client in clients:
            client.join()


def run_from(node: Node, tree: Path) -> None:
    """Start a node again with the code of a tree."""
    if node.process is not None:
        assert node.stop() == 0, node.said
    node.extra = {"PYTHONPATH": f"{tree / 'src'}:{tree}"}
    node.begin()


@pytest.mark.behaviour("CLU-3")
@pytest.mark.parametrize("is_upgrade", [True, False], ids=["upgrade", "back"])
def test_a_cluster_is_upgraded_node_by_node_under_load(first: Path, is_upgrade: bool) -> None:
    before, after = (first, ROOT) if is_upgrade else (ROOT, first)
    with own_server("max_connections=80") as server:
        database = with_options(server.url, schema="rolling")
        with clean_cluster(database, "a", "b", extra={"PYTHONPATH": f"{before / 'src'}:{before}"}) as cluster:
            with load(cluster) as acknowledged:
                leader = cluster.leading()
                (other,) = cluster.others(leader)
                run_id, name = held_at(cluster, leader)
                wait_until(lambda: len(acknowledged) >= 50, "runs are acknowledged")
                run_from(other, after)
                back(other, leader)
                _goes_on(acknowledged, "one node is replaced")
                wait_until(lambda: fetch(server.url, STANDS_BY), "the scheduler of the other stands by")
                assert leader.http.post("/api/v1/cluster/hand-over").status == 200
                wait_until(lambda: cluster.leading() is other, "the other version leads", 60.0)
                back(leader, other)
                _goes_on(acknowledged, "the other version leads")
                run_from(leader, after)
                back(leader, other)
                _goes_on(acknowledged, "both are replaced")
            for submitted in acknowledged:
                assert other.wait_for(submitted, "succeeded")["crashes"] == 0
            (cluster.folder / f"{name}.go").touch()
            other.wait_for(run_id, "succeeded")
            assert other.get("/api/v1/dead-letters")["letters"] == []
            for node in cluster.nodes.values():
                wrong = ("Traceback", "internal error", "cannot be read", "has failed")
                assert [line for line in node.said.splitlines() if any(word in line for word in wrong)] == []


def _goes_on(acknowledged: list[str], when: str) -> None:
    before = len(acknowledged)
    wait_until(lambda: len(acknowledged) >= before + 50, f"runs are acknowledged after {when}", 60.0)

"""Two nodes over TLS, on PostgreSQL, each with a scheduler, a gateway and a worker. Kill either: the other goes on."""

import json
import signal
from itertools import count
from pathlib import Path

import pytest

from tests.cluster.nodes import GATEWAY, SCHEDULER, WORKER, Cluster, Node
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import JOBS, interlock

NUMBERS = count()


def held_at(cluster: Cluster, by: Node) -> tuple[str, str]:
    """Submit a run that lasts until it is told to go; return it and its worker."""
    name = f"hold-{next(NUMBERS)}"
    run_id = by.submit("hold", folder=str(cluster.folder), name=name)
    by.wait_for(run_id, "running")
    wait_until(lambda: lines_of(cluster.folder / f"{name}.started"), "it executes")
    return run_id, name


def ends_once(cluster: Cluster, by: Node, run_id: str, name: str) -> None:
    tell_to_go(cluster.folder, name)
    run = by.wait_for(run_id, "succeeded")
    assert (run["attempt"], run["crashes"]) == (1, 0)
    assert len(lines_of(cluster.folder / f"{name}.started")) == 1


def back(node: Node, *others: Node) -> None:
    """Wait until a node is in the cluster again."""

    def is_there() -> bool:
        found = others[0].get("/api/v1/cluster")
        return found is not None and node.name in {one["name"] for one in found["nodes"]}

    wait_until(is_there, f"{node.name} is back", 60.0)


@pytest.mark.behaviour("CLU-1", "ROU-12")
def test_both_serve_and_work_and_one_leads(two_nodes: Cluster) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    for node in (leader, other):
        assert node.wait_for(node.submit("add", left=2), "succeeded")["result"] == 3
        wait_until(lambda node=node: len(node.get("/api/v1/cluster")["nodes"]) == 2, "both have announced themselves")  # type: ignore[misc] # the default binds it
        found = node.get("/api/v1/cluster")
        assert [one["leads"] for one in found["nodes"]] == [True, False]
        assert all(one["differs"] == [] for one in found["nodes"])
        assert node.get("/readyz")["ready"]
    assert all(token not in node.said for node in (leader, other) for token in two_nodes.tokens.values())


@pytest.mark.behaviour("CLU-1")
def test_doctor_on_a_standby_finds_the_cluster(two_nodes: Cluster) -> None:
    (standby,) = two_nodes.others(two_nodes.leading())
    wait_until(lambda: len(standby.get("/api/v1/cluster")["nodes"]) == 2, "both have announced themselves")
    done = interlock(standby.folder, "doctor", "--json", "--app", JOBS)
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    # The second, if the scheduler of this node was killed as it led.
    ends = ("interlock.sock does not exist: no scheduler leads here", "the next one replaces it")
    assert found["socket"]["detail"].endswith(ends)
    assert (found["cluster"]["level"], "workers" in found) == ("ok", False)
    assert found["cluster"]["detail"].endswith("leads, nodes: a, b")
    assert [one for one in found.values() if one["level"] == "failed"] == []


@pytest.mark.behaviour("CLU-2", "LEA-3")
def test_a_hand_over_ends_no_attempt(two_nodes: Cluster) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    run_id, name = held_at(two_nodes, leader)
    done = interlock(leader.folder, "cluster", "hand-over", other.name)
    assert done.stderr == f"{leader.name} hands the lead over to {other.name}\n", done
    wait_until(lambda: two_nodes.leading() is other, "the other leads")
    back(leader, other)
    ends_once(two_nodes, leader, run_id, name)


@pytest.mark.behaviour("LEA-6")
def test_kill_9_of_the_leading_scheduler_costs_no_attempt(two_nodes: Cluster) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    run_id, name = held_at(two_nodes, other)
    before = max(leader.epoch(), other.epoch())
    leader.signal_part(SCHEDULER, signal.SIGKILL)
    wait_until(lambda: max(leader.epoch(), other.epoch()) > before, "one leads again", 60.0)
    two_nodes.leading()
    ends_once(two_nodes, other, run_id, name)


@pytest.mark.behaviour("LEA-2", "ROU-12")
def test_a_leader_that_stands_still_is_replaced_and_ends(two_nodes: Cluster) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    run_id, name = held_at(two_nodes, other)
    stopped = leader.process_of(SCHEDULER)
    leader.signal_part(SCHEDULER, signal.SIGSTOP)
    try:
        wait_until(lambda: other.leader() == other.name, "the other leads", 60.0)
        assert other.wait_for(other.submit("add", left=4), "succeeded")["result"] == 5
    finally:
        leader.signal_part(SCHEDULER, signal.SIGCONT)
    wait_until(lambda: stopped not in _pids(leader), "the old leader has ended")
    last = leader.said.rpartition(f"node {leader.name} leads, epoch")[2]
    assert f"node {leader.name} leads no more" in last
    assert "has failed" not in last
    back(leader, other)
    ends_once(two_nodes, leader, run_id, name)


def _pids(node: Node) -> list[int]:
    try:
        return [node.process_of(SCHEDULER)]
    except ValueError:
        return []


@pytest.mark.behaviour("RUN-17")
def test_a_lost_machine_loses_no_run(two_nodes: Cluster, tmp_path: Path) -> None:
    """The whole node is killed, with the worker that had a run of it."""
    lost = two_nodes.leading()
    (other,) = two_nodes.others(lost)
    submitted = [other.submit("count", folder=str(tmp_path), name=f"n{number}") for number in range(20)]
    lost.kill()
    try:
        for run_id in submitted:
            other.wait_for(run_id, "succeeded")
        wait_until(lambda: other.leader() == other.name, "its gateway has found the scheduler")
    finally:
        lost.begin()
        back(lost, other)


@pytest.mark.behaviour("RET-5")
def test_a_worker_that_dies_on_a_standby_is_known_to_be_gone_at_once(two_nodes: Cluster) -> None:
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    wait_until(lambda: len(two_nodes.workers()) == 2, "both workers are there")
    held = [held_at(two_nodes, leader) for _ in range(2)]
    here = {
        run_id: leader.run(run_id)["worker_id"].rpartition(":")[2].startswith(f"{other.name}-w1-") for run_id, _ in held
    }
    other.signal_part(WORKER, signal.SIGKILL)
    for run_id, name in held:
        if here[run_id]:
            wait_until(lambda run_id=run_id: leader.run(run_id)["crashes"] == 1, "it is lost", 20.0)  # type: ignore[misc] # the default binds it
        tell_to_go(two_nodes.folder, name)
        leader.wait_for(run_id, "succeeded")
    assert any(here.values()), "runs are spread over the workers"
    other.signal_part(GATEWAY, signal.SIGKILL)
    wait_until(lambda: other.leader() is not None, "its gateway is back")


@pytest.mark.behaviour("RET-5")
def test_a_node_that_is_stopped_at_once_says_that_its_workers_are_gone(two_nodes: Cluster) -> None:
    """Its links have ended too, but that alone is no proof: silence would tell only 30 s later."""
    leader = two_nodes.leading()
    (other,) = two_nodes.others(leader)
    wait_until(lambda: len(two_nodes.workers()) == 2, "both workers are there")
    held: list[tuple[str, str]] = []
    there: list[str] = []
    while not there and len(held) < 8:  # where the first ones go depends on how busy the workers seem
        held.append(held_at(two_nodes, leader))
        there = [run_id for run_id, _ in held if f":{other.name}-w1-" in leader.run(run_id)["worker_id"]]
    assert there, "runs are spread over the workers"
    other.send(signal.SIGTERM)
    wait_until(lambda: "Ctrl-C again" in other.said.rpartition("a node with")[2], "it stops")
    other.send(signal.SIGTERM)
    assert other.ended() == 0
    try:
        wait_until(lambda: all(leader.run(run_id)["attempt"] == 2 for run_id in there), "they are retried", 15.0)
        for run_id, name in held:
            tell_to_go(two_nodes.folder, name)
            leader.wait_for(run_id, "succeeded")
    finally:
        other.begin()
        wait_until(lambda: other.leader() is not None, "its gateway is back", 60.0)
        wait_until(lambda: len(two_nodes.workers()) == 2, "its worker is back", 60.0)

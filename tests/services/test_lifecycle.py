"""Services of `interlock up`: the order of starts and stops, restarts, groups, actions by hand."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.error import WrongStatus
from tests.helpers.processes import wait_until
from tests.helpers.server import interlock
from tests.services.keeper import Keeper, gone, group, kept, kill, service, state_of

READY = "ready: {log: is ready}"
AT_ONCE = "backoff: {initial: 0s}"
DECLARED = (
    group("all_of_them", "strategy: one_for_all")
    + service("one", "group: all_of_them", READY, AT_ONCE)
    + service("two", "group: all_of_them", READY)
    + service("three", "group: all_of_them", READY)
    + group("each")
    + service("left", "group: each", AT_ONCE)
    + service("right", "group: each")
    + service(
        "looper",
        "backoff: {initial: 10ms}",
        "budget: {max_restarts: 3, max_duration: 1m}",
        command='[sh, -c, "echo on my way; exit 7"]',
    )
    + service("w1")
)


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    with kept(declared=DECLARED) as keeper:
        keeper.until("w1", "running")
        yield keeper


@pytest.mark.behaviour("SUP-1", "SUP-11")
def test_each_starts_when_the_one_before_it_is_ready_and_they_stop_in_reverse(folder: Path) -> None:
    keeper = Keeper(folder, workers=0)
    keeper.declare("a", service("a", READY), group("shop"), service("b", "group: shop", READY))
    keeper.declare("b", service("unwanted"), service("c", READY))
    keeper.hold_up("a")
    with keeper:
        wait_until(lambda: keeper.notes() == ["a start"], "the first one has been started")
        assert [keeper.status(name) for name in "abc"] == ["starting", "created", "created"]
        # One that is stopped before its turn does not start when that comes.
        keeper.act("stop", "unwanted")
        keeper.let_go("a")
        keeper.until("c", "running")
    assert keeper.notes() == [
        "a start", "a ready", "b start", "b ready", "c start", "c ready", "c term", "b term", "a term",
    ]  # fmt: skip


@pytest.mark.behaviour("SUP-2")
def test_a_group_is_restarted_as_a_whole_and_its_neighbours_are_not(keeper: Keeper) -> None:
    names, others = ("one", "two", "three"), ("left", "right", "w1")
    before, untouched = keeper.pids(*names), keeper.pids(*others)
    since = len(keeper.notes())
    kill(before["two"])
    wait_until(lambda: keeper.notes("three")[-1] == "three ready", "the last one is up again")
    wait_until(lambda: len(keeper.lives("three")) == 2, "it is another one")
    after = keeper.pids(*names)
    assert not set(before.values()) & set(after.values())
    assert gone(*before.values())
    assert keeper.pids(*others) == untouched
    assert keeper.notes(*names)[since - len(keeper.notes(*others)) :] == [
        "three term", "one term", "one start", "one ready", "two start", "two ready", "three start", "three ready",
    ]  # fmt: skip
    assert keeper.child("two")["last_exit"]["signal"] == 9
    assert [keeper.child(name)["restarts"] for name in names] == [1, 1, 1]


@pytest.mark.behaviour("SUP-5")
def test_one_that_crashes_over_and_over_is_given_up_and_all_else_goes_on(keeper: Keeper) -> None:
    keeper.until("looper", "failed")
    keeper.run_one()
    keeper.pids("one", "two", "three", "left", "right", "w1")
    child = keeper.child("looper")
    assert (child["exhausted"], child["restarts"], child["last_exit"]["code"]) == (True, 3, 7)
    assert child["reason"] == "exit 7; restarted 3 times within 60s"
    (row,) = [line for line in interlock(keeper.folder, "tree").stdout.splitlines() if "/looper" in line]
    assert row.split("\t")[2:4] == ["failed", ""]
    assert row.endswith("\texit 7\tgiven up, exit 7; restarted 3 times within 60s")
    assert keeper.metric("interlock_service_up") == {
        "one": 1, "two": 1, "three": 1, "left": 1, "right": 1, "looper": 0, "w1": 1, "workers/w1": 1,
    }  # fmt: skip
    assert keeper.metric("interlock_service_restarts_total")["looper"] == 3
    assert [name for name, value in keeper.metric("interlock_service_exhausted").items() if value] == ["looper"]
    log = keeper.log("looper")
    assert log.count("stdout: on my way") == 4
    assert log[-1] == "status: ended with exit 7; given up after 3 restarts"
    with keeper.local.events(after=0, service="looper") as stream:
        told = stream.until(lambda one: one.name == "service" and one.data["after"]["exhausted"])
    assert [one.data["text"] for one in told if one.name == "service_log"] == ["on my way"] * 4
    assert re.search(r" error +services/looper .*exit 7; restarted 3 times within 60s", keeper.said)


@pytest.mark.behaviour("SUP-8")
def test_suspended_it_stands_still_and_comes_back_suspended(keeper: Keeper) -> None:
    pid = keeper.pid_of("left")
    ended = interlock(keeper.folder, "service", "suspend", "left", "--json")
    assert (ended.returncode, json.loads(ended.stdout)["status"]) == (0, "suspended")
    wait_until(lambda: state_of(pid) == "T", "the process stands still")
    assert state_of(keeper.pid_of("right")) == "S"
    kill(pid)
    wait_until(lambda: keeper.child("left")["pid"] not in (None, pid), "it is there again")
    keeper.until("left", "suspended")
    again = keeper.child("left")["pid"]
    wait_until(lambda: state_of(again) == "T", "the next one stands still as well")
    ended = interlock(keeper.folder, "service", "resume", "left", "--json")
    assert (ended.returncode, json.loads(ended.stdout)["status"], json.loads(ended.stdout)["pid"]) == (
        0,
        "running",
        again,
    )
    wait_until(lambda: state_of(again) == "S", "it goes on")


def test_a_service_may_have_the_name_of_a_worker(keeper: Keeper) -> None:
    """It is the one that is meant by the name, and its log is its own."""
    (worker,) = keeper.own_workers()
    assert keeper.child("w1")["path"] == "services/w1"
    assert keeper.act("restart", "w1")["path"] == "services/w1"
    assert keeper.own_workers() == [worker]
    assert "stdout: w1 is ready" in keeper.log("w1")


def test_names_of_the_tree_itself_are_nobody_to_act_on(keeper: Keeper) -> None:
    for name in ("engine", "gateway", "services", "workers", "housekeeping", "interlock"):
        answer = keeper.local.post(f"/api/v1/services/{name}/stop")
        assert (answer.status, answer.code) == (404, "unknown_child")
    answer = keeper.local.post("/api/v1/services/looper/suspend")
    assert (answer.status, answer.code) == (409, WrongStatus.code)
    keeper.run_one()


def test_a_service_may_have_the_name_of_a_part_of_the_tree(keeper: Keeper) -> None:
    keeper.declare("parts", service("engine"), service("workers"), group("services"), service("w2", "group: services"))
    try:
        assert keeper.reload()["added"] == ["engine", "workers", "services", "w2"]
        assert keeper.child("w2")["path"] == "services/services/w2"
        before = keeper.pids("engine", "workers", "w2")
        keeper.act("restart", "engine")
        keeper.act("restart", "services")
        after = keeper.pids("engine", "workers", "w2")
        assert [name for name in before if before[name] == after[name]] == ["workers"]
        keeper.run_one()
    finally:
        keeper.declare("parts")
        keeper.reload()

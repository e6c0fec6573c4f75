"""Requests at the same time: reloads, starts and stops of services do not undo each other."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.helpers.processes import wait_until
from tests.helpers.server import Server
from tests.services.keeper import Keeper, group, service

READY = "ready: {log: is ready}"


@pytest.fixture
def keeper(folder: Path) -> Iterator[Keeper]:
    one = Keeper(folder, workers=0)
    one.extra = {"INTERLOCK_URL": "http://127.0.0.1:1", "INTERLOCK_TOKEN": "hunter2"}
    yield one
    one.kill()


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def begun(keeper: Server, aside: ThreadPoolExecutor, method: str) -> "Future[int]":
    """Something that is asked for, and goes on."""
    return aside.submit(lambda: keeper.local.post(f"/api/v1/{method}").status)


@pytest.mark.behaviour("SUP-1", "SUP-6")
def test_a_faulty_reload_breaks_off_neither_the_start_nor_another_reload(
    keeper: Keeper, aside: ThreadPoolExecutor
) -> None:
    keeper.hold_up("first")
    keeper.declare("all", service("first", READY), service("second"))
    with keeper:
        keeper.until("first", "starting")
        faulty = keeper.declare("faulty", service("third", "restart: sometimes"))
        assert keeper.local.post("/api/v1/reload").status == 422
        assert keeper.status("second") == "created"
        keeper.let_go("first")
        keeper.pid_of("second")

        keeper.hold_up("fourth")
        faulty.unlink()
        keeper.declare("more", service("fourth", READY), service("fifth"))
        reload = begun(keeper, aside, "reload")
        keeper.until("fourth", "starting")
        keeper.declare("faulty", service("third", "restart: sometimes"))
        assert keeper.local.post("/api/v1/reload").status == 422
        keeper.let_go("fourth")
        assert reload.result(30) == 200
        keeper.pid_of("fifth")


@pytest.mark.behaviour("SUP-6")
def test_what_is_started_while_a_reload_stops_it_is_started_as_it_is_declared_now(
    keeper: Keeper, aside: ThreadPoolExecutor
) -> None:
    keeper.make_deaf("one")
    keeper.declare("all", service("one", READY, "stop_timeout: 2s"))
    with keeper:
        keeper.pid_of("one")
        keeper.declare("all", service("one", READY, "stop_timeout: 2s", command='[sh, -c, "echo new; sleep 1000"]'))
        reload = begun(keeper, aside, "reload")
        wait_until(lambda: "one term" in keeper.notes("one"), "it was told to end")
        start = begun(keeper, aside, "services/one/start")
        wait_until(lambda: "stdout: new" in keeper.log("one"), "the new one runs")
        assert len(keeper.lives("one")) == 1
        # It never is ready: whoever waits for that is let go by the next reload.
        keeper.declare("all", service("one", "stop_timeout: 2s", command='[sh, -c, "echo newest; sleep 1000"]'))
        keeper.reload()
        assert reload.result(30) == 200
        assert start.result(30) == 200
        wait_until(lambda: "stdout: newest" in keeper.log("one"), "the newest one runs")


@pytest.mark.behaviour("SUP-6")
def test_what_somebody_has_stopped_stays_down_when_it_moves_to_another_group(keeper: Keeper) -> None:
    keeper.declare("all", group("g"), service("one", "group: g"), service("two", "group: g"))
    with keeper:
        keeper.pids("one", "two")
        assert keeper.act("stop", "one")["status"] == "stopped"
        keeper.declare("all", group("g"), service("one"), service("two"))
        assert keeper.reload() == {"added": [], "changed": ["one", "two"], "removed": [], "unchanged": ["g"]}
        keeper.pid_of("two")
        assert keeper.status("one") == "stopped"
        assert keeper.act("start", "one")["status"] == "running"
        wait_until(lambda: len(keeper.lives("one")) == 2, "it has noted its start")
        before, after = keeper.lives("one")
        assert before.resume_id == after.resume_id


def test_a_service_finds_the_scheduler_that_runs_it_and_has_no_token(keeper: Keeper) -> None:
    keeper.declare("all", service("env", command='[sh, -c, "env | grep INTERLOCK_ | sort; sleep 1000"]'))
    with keeper:
        wait_until(lambda: f"stdout: INTERLOCK_SOCKET={keeper.socket}" in keeper.log("env"), "it knows where it is")
        said = "\n".join(keeper.log("env"))
        assert "INTERLOCK_URL" not in said
        assert "hunter2" not in said

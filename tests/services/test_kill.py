"""kill -9 of `interlock up`, of its process group, and of the guard: what has to go is gone, and comes back."""

import os
import signal
from pathlib import Path

import pytest

from tests.helpers.invariants import check_database
from tests.helpers.places import lines_of, tell_to_go
from tests.helpers.processes import Found, alive, children_of, processes_of, wait_until
from tests.services.keeper import Keeper, gone, group, kill, service

DECLARED = (
    group("pair", "strategy: one_for_all"),
    service("left", "group: pair"),
    service("right", "group: pair"),
    # What it has started is in a session of its own, and does not end for being asked to.
    service(
        "forker",
        command="""[sh, -c, "setsid sh -c 'trap : TERM HUP INT; while :; do sleep 1; done' & exec sleep 1000"]""",
    ),
)


def keeping(folder: Path) -> Keeper:
    keeper = Keeper(folder)
    keeper.declare("all", *DECLARED)
    keeper.leads_group = True
    return keeper


def start_work(keeper: Keeper) -> str:
    """A run that is executed until it is told to go."""
    run_id = keeper.local.submit("hold", {"folder": str(keeper.folder), "name": "work"})
    wait_until(lambda: keeper.local.get(f"/api/v1/runs/{run_id}").json["state"] == "running", "it runs")
    return run_id


def others(keeper: Keeper) -> list[Found]:
    """All of its processes but the workers, and what executes runs for them."""
    return [
        one
        for one in processes_of(keeper.folder)
        if not any(
            name in one.command for name in ("interlock.wiring.worker:run_worker", "interlock.worker.executor_process")
        )
    ]


def with_a_process_in_another_session(keeper: Keeper) -> None:
    forks = keeper.pid_of("forker")
    wait_until(lambda: any(os.getsid(one) != forks for one in children_of(forks)), "it has started one")


def guard_of(keeper: Keeper) -> int:
    (found,) = [one for one in children_of(keeper.pid) if Path(f"/proc/{one}/comm").read_text() == "interlock-guard\n"]
    return found


@pytest.mark.behaviour("SUP-10", "LIV-4")
@pytest.mark.parametrize("kill_group", [False, True])
def test_nothing_but_the_workers_outlives_it(folder: Path, kill_group: bool) -> None:
    keeper = keeping(folder)
    try:
        keeper.start()
        pids = list(keeper.pids("left", "right").values())
        with_a_process_in_another_session(keeper)
        run_id = start_work(keeper)
        gateway, (worker,) = keeper.gateway(), keeper.own_workers()
        assert os.getpgid(keeper.pid) == keeper.pid
        if kill_group:
            os.killpg(keeper.pid, signal.SIGKILL)
            assert keeper.ended() == -signal.SIGKILL
        else:
            keeper.kill()
        wait_until(lambda: others(keeper) == [], "everything but the worker is gone")
        assert gone(gateway, *pids)
        assert alive(worker)
        keeper.start()
        after = keeper.pids("left", "right", "forker")
        assert not set(after.values()) & set(pids)
        assert [life.resume_id for life in keeper.lives("left")] == [keeper.lives("left")[0].resume_id] * 2
        assert keeper.local.get(f"/api/v1/runs/{run_id}").json["state"] == "running"
        tell_to_go(folder, "work")
        run = keeper.local.ended(run_id)
        assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 1, 0)
        keeper.wait_for_strays()
        assert gone(worker)
        assert keeper.stop() == 0
    finally:
        keeper.kill()
    assert len(lines_of(folder / "work.started")) == 1
    check_database(keeper.database, [run_id])


@pytest.mark.behaviour("SUP-10", "SUP-12")
def test_the_guard_is_killed_and_all_comes_back_by_itself(folder: Path) -> None:
    keeper = keeping(folder)
    try:
        keeper.start()
        keeper.pids("left", "right")
        with_a_process_in_another_session(keeper)
        run_id = start_work(keeper)
        gateway, (worker,), own = keeper.gateway(), keeper.own_workers(), keeper.pid
        old = {one.pid for one in processes_of(folder)} - {own}
        kill(guard_of(keeper))
        wait_until(lambda: gone(*old), "all that it had started is gone")
        keeper.until("left", "running")
        after = keeper.pids("left", "right", "forker")
        assert not set(after.values()) & old
        assert [life.previous for life in keeper.lives("left")] == [-1, -1]
        assert keeper.gateway() != gateway
        wait_until(lambda: keeper.own_workers() not in ([], [worker]), "there is a worker")
        wait_until(lambda: len(lines_of(folder / "work.started")) == 2, "the run is executed again")
        tell_to_go(folder, "work")
        run = keeper.local.ended(run_id)
        assert (run["state"], run["attempt"], run["crashes"]) == ("succeeded", 2, 1)
        keeper.run_one()
        assert keeper.process is not None
        assert keeper.process.poll() is None
        assert keeper.metric("interlock_service_restarts_total")["left"] == 1
        assert keeper.stop() == 0
    finally:
        keeper.kill()
    assert lines_of(folder / "work.ended") == ["2"]
    check_database(keeper.database, [run_id])

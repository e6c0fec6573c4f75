"""A worker that stands still, or dies, beside others: nothing is executed again that has ended, and nothing waits."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.model.state import State
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until, until_running, until_true
from tests.helpers.processes import children_of
from tests.helpers.server import Server


@pytest.mark.behaviour("RUN-7", "LIV-2", "LIV-3", "REC-6")
def test_a_worker_that_stood_still_begins_nothing_that_has_ended_elsewhere(folder: Path) -> None:
    server = Server(folder, "--workers", "2", "--heartbeat", "500ms")
    count = {"folder": str(folder)}

    async def until_it_works(pid: int) -> None:
        """Give out work that stays until this worker has some."""
        probes: list[il.RunHandle[Any]] = []

        async def works() -> bool:
            probes.append(await app.submit("hold", {**count, "name": "probe"}))
            await until_running(probes[-1])
            return f"-{pid}" in str((await probes[-1].info()).worker_id)

        await until_true(works, "the worker works")
        tell_to_go(folder, "probe")
        for probe in probes:
            await probe.result(30)
        (folder / "probe.go").unlink()

    async def body() -> list[int]:
        server.start()
        async with app.connected(str(server.socket)):
            await until(lambda: len(server.own_workers()) == 2, "both workers are there")
            paused = server.own_workers()[0]
            await until_it_works(paused)
            os.kill(paused, signal.SIGSTOP)
            try:
                runs = await app.submit_many([il.run("count", count) for _ in range(60)])
                for run in runs:
                    await run.result(60)
            finally:
                os.kill(paused, signal.SIGCONT)
            # It has worked off everything that had arrived once it executes something new.
            await until_it_works(paused)
            return [(await run.info()).attempt for run in runs]

    try:
        attempts = run_async(body(), 120)
        assert server.stop() == 0
    finally:
        server.kill()
    executed = lines_of(folder / "executions")
    assert len(executed) == len(set(executed)) == 60, "each run was executed once"
    assert max(attempts) > 1, "some were given to the paused worker first, and the record says so"


@pytest.mark.behaviour("LAN-3", "RET-5", "LIV-2")
@pytest.mark.parametrize("dies", ["host", "executor"])
def test_the_death_of_a_worker_costs_no_concurrency_and_stops_no_schedule(folder: Path, dies: str) -> None:
    """The runs end only once all of them run at the same time, and others fill every process that a job can ask for."""
    (folder / "tick.yaml").write_text(
        f"kind: Job\nid: tick\nlane: cron\nschedule: {{every: 1s}}\nrun: {{shell: 'echo tick >> {folder}/ticks'}}\n"
    )
    server = Server(folder, "--workers", "1", "--heartbeat", "1s", str(folder / "tick.yaml"))
    together = 16

    async def body() -> None:
        server.start()
        async with app.connected(str(server.socket)):
            runs = await app.submit_many(
                [il.run("hold", {"folder": str(folder), "name": f"hold-{n}"}) for n in range(together)]
            )
            own = await app.submit_many(
                [il.run("hold.process", {"folder": str(folder), "name": "own"}) for _ in range(8)]
            )

            async def all_run(least: int) -> bool:
                infos = [await run.info() for run in runs]
                return all(one.state is State.RUNNING and one.attempt >= least for one in infos)

            await until_true(lambda: all_run(1), "all run")
            (host,) = server.own_workers()
            victims = [host] if dies == "host" else shared_executors(server)
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            await until_true(lambda: all_run(2), "all run again, at the same time")
            ticks = len(lines_of(folder / "ticks"))
            await until(lambda: len(lines_of(folder / "ticks")) >= ticks + 2, "the schedule goes on")
            for name in [*(f"hold-{n}" for n in range(together)), "own"]:
                tell_to_go(folder, name)
            for run in [*runs, *own]:
                await run.result(60)

    try:
        run_async(body(), 120)
        assert server.stop() == 0
    finally:
        server.kill()


def shared_executors(server: Server) -> list[int]:
    """The processes that most runs share: their parents are the workers, and they were there first."""
    return [min(children_of(pid)) for pid in server.own_workers()]

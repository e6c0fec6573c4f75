"""What a handler does, and what becomes of its run."""

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.model.state import ALLOWED
from soak.simulation.history import replay
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, tell_to_go, until
from tests.helpers.processes import children_of
from tests.helpers.server import Server

S = il.State
VALUES: list[Any] = [None, 7, 1.5, "ö☃", [1, {"a": None}], {"deep": [[[]]]}, True]


@pytest.mark.behaviour("EXE-1")
@pytest.mark.parametrize("job", ["echo", "echo.thread"])
async def test_functions_return_their_result(server: Server, job: str) -> None:
    async with app.connected(str(server.socket)):
        for value in VALUES:
            run = await app.submit(job, {"value": value})
            assert await run.result(30) == value


@pytest.mark.behaviour("EXE-1")
async def test_a_process_job_has_a_process_of_its_own(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        shared = await app.submit("hold", {"folder": str(folder), "name": "shared"})
        alone = await app.submit("echo.process", {"value": 3})
        value, pid = await alone.result(30)
        await until(lambda: lines_of(folder / "shared.started"), "the shared one has started")
        assert value == 3
        assert pid not in (os.getpid(), server.pid, int(lines_of(folder / "shared.started")[0].split()[1]))
        tell_to_go(folder, "shared")
        await shared.result(30)


@pytest.mark.behaviour("RUN-3", "RET-1", "RET-2", "RET-5", "EXE-1", "EXE-5")
@pytest.mark.parametrize(
    ("job", "payload", "end", "attempts", "failures", "outcome", "says"),
    [
        ("echo", {"value": 1}, S.SUCCEEDED, 1, 0, "succeeded", None),
        ("fail", {"text": "this went wrong"}, S.FAILED, 1, 1, "failed", "RuntimeError: this went wrong"),
        ("fail.thread", {"text": "this went wrong"}, S.FAILED, 1, 1, "failed", "RuntimeError: this went wrong"),
        ("flaky", {"failures": 99}, S.FAILED, 4, 4, "failed", "RuntimeError: attempt 4"),
        ("fatal", {}, S.FAILED, 1, 1, "failed_fatal", "never again"),
        ("unjson", {}, S.FAILED, 1, 1, "failed_fatal", "is not JSON"),
        ("exit.hard", {"code": 7}, S.ORPHANED, 1, 0, None, "exit code 7"),
    ],
)
async def test_an_end_its_figures_its_error_and_its_history(
    server: Server, job: str, payload: dict[str, Any], end: S, attempts: int, failures: int, outcome: str, says: str
) -> None:
    async with app.connected(str(server.socket)):
        before = time.time()
        run = await app.submit(job, payload)
        assert await run.wait(30) is end
        history, info = await run.history(), await run.info()
    assert (info.attempt, info.failures, info.outcome) == (attempts, failures, outcome)
    assert (info.crashes, info.exit_code) == ((1, 7) if end is S.ORPHANED else (0, None))
    assert (info.error is None) if says is None else (says in (info.error or ""))
    if job.startswith("fail"):
        assert info.error is not None
        assert info.error.startswith("Traceback")
        assert "tests/helpers/jobs.py" in info.error
    assert replay(history) is info.state is end
    assert [entry.seq for entry in history] == list(range(1, info.internals.seq + 1))
    assert all(entry.reason and entry.actor for entry in history)
    times = [before - 0.001, *(entry.at for entry in history)]
    assert times == sorted(times)
    assert all(entry.after in ALLOWED[entry.before] for entry in history if entry.before is not None)
    last = history[-1]
    assert (info.previous, info.reason, info.actor, info.changed_at) == (last.before, last.reason, last.actor, last.at)


@pytest.mark.behaviour("RUN-3", "RET-1")
async def test_a_retry_goes_through_the_entry_again(server: Server) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("flaky", {"failures": 2})
        assert await run.result(30) == 3
        history = await run.history()
        assert replay(history) is S.SUCCEEDED
        again = [S.RETRYING, S.PENDING, S.SCHEDULED, S.DISPATCHED, S.RUNNING, S.TERMINATING]
        first = [S.PENDING, S.SCHEDULED, S.DISPATCHED, S.RUNNING, S.TERMINATING]
        assert [entry.after for entry in history] == [*first, *again, *again, S.SUCCEEDED]
        waits = [after.at - before.at for before, after in pairwise(history) if before.after is S.RETRYING]
        assert waits == pytest.approx([max(0.02, waits[0]), max(0.04, waits[1])])


@pytest.mark.behaviour("EXE-1")
@pytest.mark.parametrize("job", ["exit", "exit.thread"])
async def test_system_exit_is_a_failure_with_its_code(server: Server, folder: Path, job: str) -> None:
    async with app.connected(str(server.socket)):
        neighbour = await app.submit("hold", {"folder": str(folder), "name": "neighbour"})
        await until(lambda: lines_of(folder / "neighbour.started"), "the neighbour has started")
        run = await app.submit(job, {"code": 3})
        assert await run.wait(30) is S.FAILED
        info = await run.info()
        assert (info.exit_code, info.crashes) == (3, 0)
        tell_to_go(folder, "neighbour")
        assert await neighbour.result(30) == 1


@pytest.mark.behaviour("EXE-1")
async def test_a_segfault_loses_no_neighbour_and_no_worker(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        neighbour = await app.submit("hold", {"folder": str(folder), "name": "neighbour"})
        await until(lambda: lines_of(folder / "neighbour.started"), "the neighbour has started")
        before = (await neighbour.info()).worker_id
        run = await app.submit("segfault", {"folder": str(folder), "times": 1})
        assert await run.result(30) == 2
        await until(lambda: len(lines_of(folder / "neighbour.started")) == 2, "the neighbour goes on elsewhere")
        tell_to_go(folder, "neighbour")
        assert await neighbour.result(30) == 2
        info = await neighbour.info()
        assert (info.crashes, info.failures, info.worker_id) == (1, 0, before)
        # After a crash each has a process of its own, where it can harm nobody.
        pids = [lines_of(folder / name)[-1].split()[1] for name in ("segfaults", "neighbour.started")]
        assert len({*pids, lines_of(folder / "segfaults")[0].split()[1]}) == 3


@pytest.mark.behaviour("EXE-1")
async def test_a_blocked_loop_delays_nobody_for_long(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        blocker = await app.submit("block.loop", {"folder": str(folder), "name": "blocker"})
        await until(lambda: lines_of(folder / "blocker.started"), "the loop is blocked")
        others = await app.submit_many([("echo", {"value": place}) for place in range(20)])
        assert [await run.result(30) for run in others] == list(range(20))
        assert await blocker.state() is S.RUNNING
        infos = [await run.info() for run in others]
        assert {(info.attempt, info.crashes) for info in infos} == {(1, 0)}
        tell_to_go(folder, "blocker")
        assert await blocker.result(30) == "unblocked"


@pytest.mark.behaviour("EXE-1")
async def test_one_that_eats_its_memory_fails_alone(folder: Path) -> None:
    database = str(folder / "interlock.db")
    async with app.running(database, slots=4, memory_limit=300 * 1024 * 1024):
        neighbour = await app.submit("hold", {"folder": str(folder), "name": "neighbour"})
        await until(lambda: lines_of(folder / "neighbour.started"), "the neighbour has started")
        run = await app.submit("eat.memory", {"megabytes": 2000})
        with pytest.raises(il.RunEnded, match="MemoryError"):
            await run.result(30)
        tell_to_go(folder, "neighbour")
        assert await neighbour.result(30) == 1
        assert await (await app.submit("eat.memory", {"megabytes": 1})).result(30) == 1024 * 1024


def test_the_scheduler_runs_no_handlers(server: Server) -> None:
    """Handlers are two processes away: a worker below the scheduler, an executor below the worker."""
    workers = server.own_workers()
    assert workers != []
    assert all(children_of(pid) for pid in workers)

"""What a handler is given besides its arguments, and limits on its time."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import interlock as il
from interlock.model.facets import ProgressInfo
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, tell_to_go, until, until_true
from tests.helpers.server import Server

S = il.State


@pytest.mark.behaviour("EXE-5")
async def test_a_checkpoint_is_found_in_the_next_attempt(server: Server) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("stepwise")
        expected = {"before": {"step": 2}, "now": {"step": 3}, "attempt": 3, "cancelled": False}
        assert await run.result(30) == expected
        assert [(line.attempt, line.text) for line in await run.logs()] == [
            (attempt, f"attempt {attempt}") for attempt in (1, 2, 3)
        ]


@pytest.mark.behaviour("RUN-20", "EXE-5")
async def test_progress_and_log_are_seen_while_it_runs(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("progress", {"folder": str(folder), "name": "work"})

        async def reported() -> bool:
            return (await run.info()).progress == ProgressInfo(42.0, "under way")

        await until_true(reported, "the progress is seen")
        await until_true(run.logs, "the line is seen")
        assert await run.state() is S.RUNNING
        line = (await run.logs())[0]
        assert (line.text, line.level, line.attempt) == ("a line", "warning", 1)
        assert abs(line.at - time.time()) < 3600
        tell_to_go(folder, "work")
        assert await run.result(30) is None


@pytest.mark.behaviour("RUN-26")
async def test_runs_that_a_handler_makes_belong_to_its_run(server: Server) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("family", {"depth": 2}, tenant="acme", labels={"team": "data"})
        top = await run.result(30)
        assert (top["parent"], top["tenant"], top["labels"]) == (None, "acme", {"team": "data"})
        made = top["child"], top["in_thread"], top["child"]["child"]
        parents = run.id, run.id, top["child"]["run"]
        assert [(one["parent"], one["tenant"]) for one in made] == [(parent, "acme") for parent in parents]
        last = await (await app.handle(top["child"]["child"]["run"])).info()
        assert (last.root, last.created_by) == (run.id, f"run {top['child']['run']}")
        assert last.facets["behind"] == ["local"]
        forged = await app.submit("family", {"depth": 1, "tenant": "other"}, tenant="acme")
        with pytest.raises(il.RunFailed, match="tenant: 'other' is not that of run"):
            await forged.result(30)


@pytest.mark.behaviour("EXE-5")
async def test_a_handler_knows_its_deadline(server: Server) -> None:
    async with app.connected(str(server.socket)):
        before = time.time()
        run = await app.submit("deadline")
        assert before + 3600 <= await run.result(30) <= time.time() + 3600
        instant = datetime.now(UTC) + timedelta(minutes=5)
        run = await app.submit("deadline", deadline=instant)
        assert await run.result(30) == pytest.approx(instant.timestamp(), abs=0.001)


@pytest.mark.behaviour("RUN-22")
async def test_a_deadline_ends_running_work(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("hold", {"folder": str(folder), "name": "work"}, deadline="3s")
        await until(lambda: lines_of(folder / "work.started"), "it has started")
        assert await run.wait(30) is S.TIMEOUT
        assert lines_of(folder / "work.stopped") == ["1 timeout"]


async def test_waiting_for_a_result_can_be_given_up(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("hold", {"folder": str(folder), "name": "work"})
        with pytest.raises(il.WaitTimeout, match="it continues"):
            await run.result("50ms")
        tell_to_go(folder, "work")
        assert await run.result(30) == 1

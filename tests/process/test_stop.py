"""Cancel: asked, then TERM, then KILL, and nothing of the work is left."""

from pathlib import Path

import pytest

import interlock as il
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, tell_to_go, until, until_running
from tests.helpers.processes import alive
from tests.helpers.server import Server

S = il.State


@pytest.mark.behaviour("RUN-10", "RUN-11", "EXE-5")
@pytest.mark.parametrize("job", ["hold", "hold.thread", "hold.process"])
async def test_work_that_listens_is_asked_to_stop(server: Server, folder: Path, job: str) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit(job, {"folder": str(folder), "name": "work"})
        await until(lambda: lines_of(folder / "work.started"), "it has started")
        await until_running(run)
        assert await run.cancel("enough") is S.RUNNING
        assert await run.wait(30) is S.CANCELLED
        assert lines_of(folder / "work.stopped") == ["1 cancel"]
        assert await run.cancel() is S.CANCELLED
        after = [entry.after for entry in await run.history()]
        assert after[-2:] == [S.TERMINATING, S.CANCELLED]
        assert (await run.info()).attempt == 1


@pytest.mark.behaviour("RUN-11")
async def test_work_that_will_not_stop_is_killed_with_all_it_started(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("stubborn", {"folder": str(folder)})
        await until(lambda: lines_of(folder / "stubborn.started"), "it has started")
        own, started = map(int, lines_of(folder / "stubborn.started")[0].split())
        assert alive(own)
        assert alive(started)
        await run.cancel()
        await run.cancel()
        assert await run.wait(30) is S.CANCELLED
        assert lines_of(folder / "stubborn.asked") == ["asked"]
        assert lines_of(folder / "stubborn.term") == ["TERM"]
        await until(lambda: not alive(own) and not alive(started), "the whole group is gone")
        info = await run.info()
        assert "SIGKILL" in info.reason
        ends = [entry for entry in await run.history() if entry.after is S.CANCELLED]
        assert len(ends) == 1


@pytest.mark.behaviour("RUN-11", "EXE-1")
async def test_a_blocked_loop_is_killed_and_its_neighbour_is_not_lost(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        neighbour = await app.submit("hold.thread", {"folder": str(folder), "name": "neighbour"})
        blocker = await app.submit("block.loop", {"folder": str(folder), "name": "blocker"})
        for name in ("neighbour", "blocker"):
            await until(lambda name=name: lines_of(folder / f"{name}.started"), "both have started")  # type: ignore[misc] # the default binds the name
        await blocker.cancel()
        assert await blocker.wait(30) is S.CANCELLED
        tell_to_go(folder, "neighbour")
        assert await neighbour.result(30) in (1, 2)

"""Work that takes its process down again and again."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import interlock as il
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, until
from tests.helpers.processes import alive
from tests.helpers.server import Server


@pytest.mark.behaviour("RET-5", "EXE-1")
def test_three_crashes_make_an_orphan_and_a_dead_letter(server: Server, folder: Path) -> None:
    async def body() -> str:
        async with app.connected(str(server.socket)):
            run = await app.submit("segfault", {"folder": str(folder)})
            assert await run.wait(30) is il.State.ORPHANED
            info = await run.info()
            assert (info.attempt, info.crashes, info.failures, info.exit_code) == (3, 3, 0, -11)
            reasons = [entry.reason for entry in await run.history() if entry.after is il.State.RETRYING]
            assert [reason.partition(":")[0] for reason in reasons] == ["crash 1", "crash 2"]
            assert all("SIGSEGV" in reason for reason in reasons)
            return run.id

    run_id = run_async(body())
    processes = [line.split()[1] for line in lines_of(folder / "segfaults")]
    assert len(set(processes)) == 3
    with closing(sqlite3.connect(server.database)) as connection:
        letters = connection.execute(
            "SELECT state, CAST(value AS TEXT) ->> 'error' FROM records WHERE kind = 'letter' AND id = ?", (run_id,)
        ).fetchall()
    assert [code for code, _ in letters] == ["orphaned"]
    assert "SIGSEGV" in letters[0][1]


async def test_what_a_crashed_attempt_started_goes_with_it(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("stubborn", {"folder": str(folder)})
        await until(lambda: lines_of(folder / "stubborn.started"), "it has started")
        own, started = map(int, lines_of(folder / "stubborn.started")[0].split())
        os.kill(own, signal.SIGKILL)
        await until(lambda: len(lines_of(folder / "stubborn.started")) == 2, "it has started again")
        await until(lambda: not alive(started), "the process of the first attempt is gone")
        await run.cancel()
        assert await run.wait(30) is il.State.CANCELLED


@pytest.mark.behaviour("LAN-4")
async def test_however_a_run_ends_its_slot_is_free_once(folder: Path) -> None:
    """With one slot in the lane, each of these would keep all after it from ever starting, or let two in at once."""
    async with app.running(str(folder / "interlock.db"), lanes={"main": 1}):
        runs = await app.submit_many(
            [
                ("fail", None),
                ("segfault", {"folder": str(folder), "times": 1}),
                ("exit.hard", {"code": 1}),
                ("flaky", {"failures": 1}),
                ("hold", {"folder": str(folder), "name": "cancelled"}),
                ("hold", {"folder": str(folder), "name": "never"}),
                ("echo", {"value": "last"}),
            ]
        )
        await runs[5].cancel()
        while not lines_of(folder / "cancelled.started"):
            assert await runs[6].state() is il.State.SCHEDULED
        await runs[4].cancel()
        assert await runs[6].result(30) == "last"
        ends = [await run.wait(30) for run in runs]
        spans = []
        for run in runs:
            held = False
            for entry in await run.history():
                holds = entry.after in (il.State.DISPATCHED, il.State.RUNNING, il.State.TERMINATING)
                if holds is not held:
                    spans.append((entry.at, 1 if holds else -1))
                    held = holds
        active = 0
        # A slot that one run leaves and another takes at the same instant is left first.
        for _, change in sorted(spans):
            active += change
            assert active in (0, 1)
        states = il.State.FAILED, il.State.SUCCEEDED, il.State.ORPHANED, il.State.SUCCEEDED
        assert ends == [*states, il.State.CANCELLED, il.State.CANCELLED, il.State.SUCCEEDED]
        assert not lines_of(folder / "never.started")

"""`interlock up` as a person uses it: start, look, Ctrl-C."""

import logging
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

import interlock as il
from interlock.cli.log_lines import TextFormatter
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Command, Server, interlock


def hold_one(server: Server, job: str = "hold") -> str:
    """Submit a run that goes on until it is told, and wait for its start."""

    async def body() -> str:
        async with app.connected(str(server.socket)):
            run = await app.submit(job, {"folder": str(server.folder), "name": "work"})
            await until(lambda: lines_of(server.folder / "work.started"), "it has started")
            return run.id

    return run_async(body())


def result_of(server: Server, run_id: str) -> il.State:
    async def body() -> il.State:
        async with app.connected(str(server.socket)):
            return await (await app.handle(run_id)).wait(30)

    return run_async(body())


def stored(server: Server, run_id: str) -> tuple[str, int, int]:
    with closing(sqlite3.connect(server.database)) as connection:
        row = connection.execute("SELECT state, crashes, failures FROM runs WHERE id = ?", (run_id,)).fetchone()
    return (str(row[0]), int(row[1]), int(row[2]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_everything(folder: Path, number: signal.Signals) -> None:
    server = Server(folder, "--workers", "2")
    server.start()
    wait_until(lambda: len(server.own_workers()) == 2, "both workers are there")
    server.send(number)
    assert server.ended() == 0
    assert processes_of(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["interlock.db", "interlock.db.lock", "server.log"]
    assert server.said.splitlines()[-1] == "stopped: 0 submitted, none ended, 0 kept for the next start"


def test_ctrl_c_right_after_the_start(folder: Path) -> None:
    """While its worker is still being made: nothing waits, nothing is left."""
    server = Server(folder, "--drain", "300s")
    server.start()
    assert server.stop() == 0
    assert processes_of(folder) == []


@pytest.mark.behaviour("LAN-7")
def test_work_that_ends_in_time_is_let_go_on(folder: Path) -> None:
    server = Server(folder, "--drain", "300s")
    server.start()
    run_id = hold_one(server)
    server.send(signal.SIGINT)
    wait_until(lambda: "stopping" in server.said, "it says that it is stopping")

    async def refused() -> None:
        async with app.connected(str(server.socket)):
            with pytest.raises(il.Draining):
                await app.submit("echo")

    run_async(refused())
    tell_to_go(folder, "work")
    assert server.ended() == 0
    assert stored(server, run_id) == ("succeeded", 0, 0)


def test_work_in_memory_is_lost_and_said_to_be(folder: Path) -> None:
    server = Server(folder, "--drain", "0s", "--db", ":memory:", "--socket", str(folder / "interlock.db.sock"))
    server.start()
    hold_one(server)
    assert server.stop() == 0
    assert processes_of(folder) == []
    assert server.said.splitlines()[-1] == "stopped: 1 submitted, none ended, 1 lost with the database in memory"


@pytest.mark.behaviour("LAN-7")
@pytest.mark.parametrize("job", ["hold", "hold.thread", "hold.process"])
def test_work_that_takes_longer_is_kept_for_the_next_start(folder: Path, job: str) -> None:
    server = Server(folder, "--drain", "100ms")
    server.start()
    run_id = hold_one(server, job)
    assert server.stop() == 0
    assert processes_of(folder) == []
    assert lines_of(folder / "work.stopped") == ["1 shutdown"]
    assert server.said.splitlines()[-1] == "stopped: 1 submitted, none ended, 1 kept for the next start"
    tell_to_go(folder, "work")
    server.start()
    assert result_of(server, run_id) is il.State.SUCCEEDED
    assert server.stop() == 0
    # Given back is not failed, and not crashed.
    assert stored(server, run_id) == ("succeeded", 0, 0)


def test_a_second_ctrl_c_waits_for_nobody(folder: Path) -> None:
    server = Server(folder, "--drain", "300s")
    server.start()
    run_id = hold_one(server)
    server.send(signal.SIGINT)
    wait_until(lambda: "stopping" in server.said, "it says that it is stopping")
    server.send(signal.SIGINT)
    assert server.ended() == 0
    wait_until(lambda: not processes_of(folder), "everything has ended")
    tell_to_go(folder, "work")
    server.start()
    assert result_of(server, run_id) is il.State.SUCCEEDED
    assert server.stop() == 0


def test_a_job_can_be_submitted_at_the_start(folder: Path) -> None:
    with Server(folder, "--submit", "echo", "--submit", "fail") as server:
        wait_until(lambda: server_ended(server) == {"succeeded": 1, "failed": 1}, "both have ended")


def server_ended(server: Server) -> dict[str, int]:
    with closing(sqlite3.connect(server.database)) as connection:
        return dict(connection.execute("SELECT state, count(*) FROM runs WHERE ended_at IS NOT NULL GROUP BY state"))


def test_a_run_left_from_before_is_not_submitted_again(folder: Path) -> None:
    server = Server(folder, "--submit", "linger", target="lingering:app")
    (folder / "lingering.py").write_text(
        "import asyncio\nimport interlock as il\napp = il.App()\n"
        "@app.job('linger')\nasync def linger(): await asyncio.sleep(600)\n"
    )
    server.arguments = (*server.arguments, "--drain", "0s")
    for _ in range(2):
        server.start()
        wait_until(lambda: count_running(server) == 1, "it runs")
        assert server.stop() == 0
    with closing(sqlite3.connect(server.database)) as connection:
        assert connection.execute("SELECT count(*), max(crashes) FROM runs").fetchone() == (1, 0)


def count_running(server: Server) -> int:
    with closing(sqlite3.connect(server.database)) as connection:
        return int(connection.execute("SELECT count(*) FROM runs WHERE state = 'running'").fetchone()[0])


def test_the_live_table_shows_what_happens(folder: Path) -> None:
    server = Server(folder, "--table")
    # Redraws only in a terminal, which this makes it believe it has.
    server.extra = {"FORCE_COLOR": "1", "TERM": "xterm"}
    with server:

        async def body() -> None:
            async with app.connected(str(server.socket)):
                await (await app.submit("flaky", {"failures": 1})).result(30)
                await (await app.submit("fail")).wait(30)
                held = await app.submit("hold", {"folder": str(folder), "name": "work"})
                await until(lambda: "hold" in server.said, "the running job is shown")
                tell_to_go(folder, "work")
                await held.result(30)
                await until(lambda: server.said.count(held.id) > 0, "the ended run is shown")

        run_async(body())
    for word in ("interlock up", "lanes and workers", "ended last", "flaky", "lane main", "worker w1-", "succeeded"):
        assert word in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", server.said)
    assert "Traceback" not in server.said


def test_what_others_write_steers_neither_the_table_nor_the_log(folder: Path) -> None:
    evil = "\x1b]0;title\x07\x9b2J\nforged line"
    server = Server(folder, "--table", "--log-level", "info")
    server.extra = {"FORCE_COLOR": "1", "TERM": "xterm"}
    with server:

        async def body() -> None:
            async with app.connected(str(server.socket)):
                run = await app.submit("echo", delay="1d")
                await run.cancel(evil)
                await (await app.submit("fail", {"text": evil})).wait(30)
                # As the log has it, and as the table does, where a line has no break.
                shown = (r"\x1b]0;title\x07\x9b2J\nforged line", r"\x1b]0;title\x07\x9b2J forged")
                await until(lambda: all(words in server.said for words in shown), "both are shown")

        run_async(body())
    assert [mark for mark in ("\x1b]", "\x07", "\x9b", "\nforged") if mark in server.said] == []


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    try:
        raise ValueError("first\n\x1b[2J12:00:00.000 error   forged")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "it broke", (), sys.exc_info())
    first, *others = TextFormatter().format(record).splitlines()
    assert first.endswith("error   it broke")
    assert all(line.startswith("  ") for line in others)
    assert others[-1] == "  \\x1b[2J12:00:00.000 error   forged"


def test_a_worker_beside_the_scheduler(folder: Path) -> None:
    with Server(folder, "--workers", "0") as server:
        worker = Command(
            folder, "interlock.cli", "worker", "-A", "tests.helpers.jobs:app", "--socket", str(server.socket),
            name="worker",
        )  # fmt: skip
        worker.begin()

        async def body() -> None:
            async with app.connected(str(server.socket)):
                run = await app.submit("echo", {"value": 5})
                assert await run.result(30) == 5
                assert ((await run.info()).worker_id or "").startswith(f"worker-{worker.pid}-")

        run_async(body())
        assert worker.stop() == 0
        assert worker.said == ""


@pytest.mark.parametrize("command", [[], ["up"], ["worker"], ["bench"]])
def test_help(folder: Path, command: list[str]) -> None:
    ended = interlock(folder, *command, "--help")
    assert ended.returncode == 0
    assert "Usage" in ended.stdout
    assert ended.stderr == ""

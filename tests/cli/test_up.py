"""`interlock up` as a person uses it: start, look, Ctrl-C."""

import asyncio
import logging
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import interlock as il
from interlock.buses.socket import SocketBus
from interlock.client.connection import Connection
from interlock.client.submission import submit
from interlock.interface.run_builder import new_run
from interlock.log_lines import TextFormatter
from tests.cli.terminal import Terminal
from tests.helpers.http import accepts
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Server, interlock


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


@pytest.mark.behaviour("LAN-7", "RUN-28")
def test_work_that_ends_in_time_is_let_go_on_and_a_submit_waits_for_the_next_start(folder: Path) -> None:
    server = Server(folder, "--drain", "300s")
    server.start()
    run_id = hold_one(server)
    server.send(signal.SIGINT)
    wait_until(lambda: "stopping" in server.said, "it says that it is stopping")

    async def submit_meanwhile() -> None:
        impatient = Connection(SocketBus(server.socket))
        async with app.connected(str(server.socket)) as connected:
            submitting = asyncio.create_task(connected.submit("echo", {"value": 7}))
            with pytest.raises(il.Draining):
                await submit(impatient, [new_run("echo", {"value": 1})])
            await impatient.close()
            assert not submitting.done()
            tell_to_go(folder, "work")
            assert await asyncio.to_thread(server.ended) == 0
            assert stored(server, run_id) == ("succeeded", 0, 0)
            await asyncio.to_thread(server.start)
            assert await (await submitting).result() == 7

    run_async(submit_meanwhile())
    assert server.stop() == 0


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
        "@app.job('linger')\nasync def linger(): await asyncio.Event().wait()\n"
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


TABLED = """\
kind: Service
id: web
run: {process: [sleep, "600"]}
---
kind: Service
id: broken
run: {process: ["false"]}
""" + "".join(
    f'---\nkind: Job\nid: yearly-{number}\nschedule: {{cron: "0 0 {number} 2 *"}}\nrun: {{process: [cat]}}\n'
    for number in range(1, 29)
)
"""two services, and more schedules than a terminal of 24 lines has room for"""


@contextmanager
def table(folder: Path, *options: str, size: tuple[int, int]) -> Iterator[Terminal]:
    arguments = ("-A", "tests.helpers.jobs:app", "--http", "local", "--drain", "0s", *options)
    with Terminal(folder, "up", *arguments, size=size) as terminal:
        yield terminal
        terminal.enter("\x03")
        assert terminal.ended() == 0


def jobs_in(screen: list[str]) -> int:
    """Count the jobs that the table shows, and those that it says it has no room for."""
    first = [place for place, line in enumerate(screen) if line.startswith("job ")]
    rest = [place for place, line in enumerate(screen) if line.startswith("… and ")]
    return rest[0] - first[0] - 1 + int(screen[rest[0]].split()[2]) if first and rest else 0


def running_of(job: str, screen: list[str]) -> str:
    header = next((line for line in screen if line.startswith("job ")), "")
    row = next((line for line in screen if line.startswith(f"{job} ")), "")
    return row[header.find("running") :][:7].strip()


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_the_live_table_shows_runs_services_and_schedules(folder: Path, size: tuple[int, int]) -> None:
    (folder / "tabled.yaml").write_text(TABLED)
    with table(folder, "tabled.yaml", size=size) as terminal:
        terminal.wait_for_screen("web      process  running", "yearly-1", "lane or worker", "worker w1-")
        assert interlock(folder, "submit", "fail", "--wait").returncode == 5
        assert interlock(folder, "submit", "echo", "--wait").returncode == 0
        interlock(folder, "submit", "hold", "-p", f"folder={folder}", "-p", "name=work")
        screen = terminal.wait_for_screen(
            "ended last", "hold", "succeeded", "failed", "… and ", "services/broken ended"
        )
        assert screen[0].startswith("interlock up ")
        wait_until(lambda: running_of("hold", terminal.screen) == "1", "the job is shown to run")
        # Three jobs that ran and 28 that are scheduled: those that are not shown are counted. Looked at again while
        # a frame is being drawn: its upper part is new then, and its lower part is still the one before.
        wait_until(lambda: jobs_in(terminal.screen) == 31, "the table shows or counts every job")
    said = terminal.text.rpartition("lane or worker")[2]
    assert "services/broken ended" in said.partition("stopping: ")[0]  # held back until the table had gone
    assert said.splitlines()[-1].startswith("stopped: 3 submitted, 1 failed, 1 succeeded, ")


def test_the_live_table_leaves_nothing_behind(folder: Path) -> None:
    (folder / "tabled.yaml").write_text(TABLED)
    with table(folder, "tabled.yaml", size=(80, 24)) as terminal:
        terminal.wait_for_screen("web      process  running", "services/broken ended")
        terminal.resize_everywhere()
        screen = terminal.wait_for_screen("lane or worker")
        for once in ("interlock up", "service ", "job ", "log"):
            assert sum(line.startswith(once) for line in screen) == 1, once


def test_an_empty_server_takes_jobs_over_http(folder: Path) -> None:
    with Server(folder, "--http", "local", target=None) as server:
        wait_until(lambda: accepts(server.http_socket), "HTTP is served")
        with il.Client(f"unix:{server.http_socket}") as client:
            assert list(client.jobs()) == []
            client.put_job("late", {"run": {"process": ["true"]}})
            assert client.trigger("late").wait(30) is il.State.SUCCEEDED


def test_what_others_write_steers_neither_the_table_nor_the_log(folder: Path) -> None:
    evil = "\x1b]0;title\x07\x9b2J\nforged line"
    with table(folder, "--log-level", "info", size=(200, 50)) as terminal:
        terminal.wait_for_screen("worker w1-")
        with il.Client(f"unix:{folder / 'interlock.db.http'}") as client:
            client.submit("echo", delay="1d").cancel(evil)
            client.submit("fail", {"text": evil}).wait(30)
        # As the log has it, and as the table does, where a line has no break.
        terminal.wait_for_screen(r"\x1b]0;title\x07\x9b2J\nforged line", r"\x1b]0;title\x07\x9b2J forged")
        assert [line for line in terminal.screen if line.startswith("forged")] == []
    assert [mark for mark in ("\x1b]", "\x07", "\x9b") if mark in terminal.raw] == []


def test_no_line_of_a_traceback_looks_like_one_of_the_log() -> None:
    try:
        raise ValueError("first\n\x1b[2J12:00:00.000 error   forged")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "it broke", (), sys.exc_info())
    first, *others = TextFormatter().format(record).splitlines()
    assert first.endswith("error   it broke")
    assert all(line.startswith("  ") for line in others)
    assert others[-1] == "  \\x1b[2J12:00:00.000 error   forged"

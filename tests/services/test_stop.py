"""How `interlock up` ends: in order, at once when it is told twice, and never later because of what is under way."""

import os
import pty
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from interlock.model.state import State
from tests.helpers.http import accepts
from tests.helpers.invariants import check_database
from tests.helpers.places import tell_to_go
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import environment
from tests.services.keeper import Keeper, group, service, state_of

APP = """
import asyncio, os, time
from pathlib import Path
import interlock as il

app = il.App()


def note(folder, text):
    with open(Path(folder) / "notes", "a") as file:
        file.write(f"{text}\\n")


@app.service("ticker", env={"FOLDER": os.getcwd()})
async def ticker():
    folder = os.environ["FOLDER"]
    note(folder, f"ticker start {os.getpid()} {os.environ['INTERLOCK_RESUME_ID']} {os.environ['INTERLOCK_PREV_EXIT']}")
    try:
        await asyncio.Event().wait()
    finally:
        note(folder, "ticker term")


@app.job("use")
async def use(folder, pid):
    note(folder, "job start")
    while not (Path(folder) / "job.go").exists():
        await asyncio.sleep(0.01)
    os.kill(pid, 0)
    note(folder, "job end")


@app.job("never", grace="10m")
def never(folder):
    note(folder, "never start")
    while True:
        time.sleep(600)
"""
LONG = "ready: {log: is ready, timeout: 1h}"


def keeping(folder: Path, *options: str) -> Keeper:
    """With services of its app and of files, and a job that uses one."""
    (folder / "jobs.py").write_text(APP)
    return Keeper(folder, *options, target="jobs:app")


@pytest.fixture
def keeper(folder: Path) -> Iterator[Keeper]:
    keeper = keeping(folder, "--drain", "10m")
    yield keeper
    keeper.kill()


def test_work_is_finished_while_services_are_there_and_people_can_look(keeper: Keeper) -> None:
    keeper.declare("all", group("shop"), service("db", "group: shop"), service("web"))
    keeper.start()
    pids = keeper.pids("db", "web", "ticker")
    run_id = keeper.local.submit("use", {"folder": str(keeper.folder), "pid": pids["db"]})
    wait_until(lambda: keeper.notes("job") == ["job start"], "it runs")
    keeper.send(signal.SIGINT)
    wait_until(lambda: keeper.local.get("/readyz").status == 503, "it is not ready any more")
    assert keeper.local.get("/readyz").json["checks"]["scheduler"]["detail"].startswith("it is stopping; 1 live runs")
    refused = keeper.local.post("/api/v1/runs", {"job": "use", "payload": {"folder": "", "pid": 0}})
    assert (refused.status, refused.code) == (503, "draining")
    answer = keeper.local.post("/api/v1/reload")
    assert (answer.status, answer.code) == (409, "wrong_status")
    assert keeper.metric("interlock_service_up") == {"db": 1, "web": 1, "ticker": 1, "workers/w1": 0}
    assert keeper.pids(*pids) == pids
    tell_to_go(keeper.folder, "job")
    assert keeper.ended() == 0
    # In reverse: the work, then services from the last to the first; those of the app were declared before the files.
    assert [note for note in keeper.notes() if note.split()[1] in ("end", "term")] == [
        "job end", "web term", "db term", "ticker term",
    ]  # fmt: skip
    assert processes_of(keeper.folder) == []
    assert check_database(keeper.database, [run_id]) == {run_id: State.SUCCEEDED}
    with closing(sqlite3.connect(keeper.database)) as connection:
        # What happened to the last is stored.
        rows = connection.execute("SELECT text FROM service_log WHERE service = 'ticker' ORDER BY position").fetchall()
    assert rows[-2:] == [("stopping",), ("ended with exit 0; stopped",)]


@pytest.mark.behaviour("SUP-10")
def test_a_second_signal_waits_for_nobody(keeper: Keeper) -> None:
    """Not for work that would take minutes, nor for a service that does not end for being asked, nor for one that is
    suspended."""
    keeper.make_deaf("deaf")
    keeper.declare("all", service("deaf", "stop_timeout: 10m"), service("still", "stop_timeout: 10m"))
    keeper.start()
    pid = keeper.pid_of("still")
    keeper.pid_of("deaf")
    keeper.act("suspend", "still")
    wait_until(lambda: state_of(pid) == "T", "it stands still")
    keeper.local.submit("never", {"folder": str(keeper.folder)})
    wait_until(lambda: "never start" in keeper.notes(), "it runs")
    keeper.send(signal.SIGTERM)
    wait_until(lambda: keeper.local.get("/readyz").status == 503, "it is stopping")
    keeper.send(signal.SIGTERM)
    assert keeper.ended() == 0
    assert processes_of(keeper.folder) == []
    assert "stopped: 1 submitted, none ended, 1 kept for the next start\n" in keeper.said
    with closing(sqlite3.connect(keeper.database)) as connection:
        # That its worker is dead is known, so that the next start does not wait for it.
        assert connection.execute("SELECT state, crashes FROM runs").fetchall() == [(State.SCHEDULED, 1)]


def test_two_signals_while_it_starts(keeper: Keeper) -> None:
    keeper.hold_up("slow")
    keeper.declare("all", service("slow", LONG))
    keeper.start()
    keeper.send(signal.SIGINT)
    wait_until(lambda: "stopping" in keeper.said, "it says so")
    keeper.send(signal.SIGINT)
    assert keeper.ended() == 0
    assert "error" not in keeper.said
    assert processes_of(keeper.folder) == []


@pytest.mark.behaviour("SUP-1", "SUP-11")
def test_what_is_still_starting_or_being_reloaded_holds_nothing_up(keeper: Keeper) -> None:
    keeper.hold_up("slow")
    keeper.declare("all", service("first"), service("slow", LONG), service("next"))
    keeper.start()
    with ThreadPoolExecutor() as threads:
        keeper.until("slow", "starting")
        keeper.declare("all", service("first"), service("slow", LONG), service("next"), service("more"))
        reload = threads.submit(keeper.local.post, "/api/v1/reload")
        wait_until(lambda: keeper.status("more") != "absent", "it is being reloaded")
        start = threads.submit(keeper.local.post, "/api/v1/services/slow/start")
        assert keeper.stop() == 0
        answer = reload.result()
        assert (answer.status, answer.code) == (409, "wrong_status")
        assert start.result().status in (200, 503)
    assert [note for note in keeper.notes("first", "slow", "next", "more") if not note.endswith("ready")] == [
        "first start", "slow start", "slow term", "first term",
    ]  # fmt: skip
    assert "Traceback" not in keeper.said


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_is_closed_is_a_reason_to_stop_unless_that_is_ignored(folder: Path, ignored: bool) -> None:
    keeper = keeping(folder)
    keeper.declare("all", service("one"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*(("nohup",) if ignored else ()), sys.executable, "-m", *keeper.arguments, "--no-table"],
        cwd=folder, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # makes it the session's terminal
    )  # fmt: skip
    os.close(theirs)
    try:
        wait_until(lambda: accepts(keeper.http_socket), "it is there")
        one = keeper.pid_of("one")
        os.close(ours)
        if ignored:
            said = folder / "nohup.out"
            wait_until(lambda: "reloaded: nothing has changed" in said.read_text(), "it was only read again")
            assert keeper.pid_of("one") == one
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert keeper.notes("one") == ["one start", "one ready", "one term"]

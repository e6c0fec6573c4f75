"""Real processes under a supervisor: up when they are ready, restarted when they are not well, and nothing is left."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.error import CannotStart
from interlock.model.child_info import Change, Exit, Status
from interlock.supervision import Alive, Backoff, Process, Ready, Restart, ServiceAction, Supervisor, guard_client
from tests.helpers.places import folder, until
from tests.helpers.processes import alive
from tests.supervision.conftest import Run, each_loop
from tests.supervision.programs import SLEEP

__all__ = ["folder"]

AT_ONCE = Backoff(initial=0)


def shell(name: str, script: str, **options: Any) -> Process:
    given: dict[str, Any] = {"backoff": AT_ONCE} | options
    return Process(name=name, command=["sh", "-c", script], **given)


def pid_of(tree: Supervisor, path: str) -> int:
    pid = tree.child(path).pid
    assert pid is not None
    return pid


@pytest.mark.behaviour("SUP-1", "SUP-10")
@each_loop
async def test_each_starts_when_the_one_before_has_said_that_it_is_ready(folder: Path) -> None:
    order = folder / "order"
    first = shell(
        "first", f"echo waking; sleep 0.2; echo first >> {order}; echo up; exec sleep 1000", ready=Ready(log="up")
    )
    second = shell("second", f"echo second >> {order}; exec sleep 1000")
    changes: list[Change] = []
    async with Supervisor(children=[first, second], on_change=changes.append) as tree:
        await until(lambda: order.exists() and len(order.read_text().split()) == 2, "both have begun")
        assert order.read_text().split() == ["first", "second"]
        pids = [pid_of(tree, name) for name in ("first", "second")]
        # Its number is known before it is ready.
        starting = [one.after for one in changes if one.after is not None and one.after.status is Status.STARTING]
        assert [one.name for one in starting if one.pid is not None] == ["first"]
    assert not any(alive(pid) for pid in pids)


@pytest.mark.behaviour("SUP-11")
@pytest.mark.parametrize(
    ("script", "timeout", "why"),
    [
        ("exec sleep 1000", 0.2, "not ready within 0.2s (no complete line with 'never')"),
        ("printf never; exec sleep 1000", 0.2, "not ready within 0.2s (no complete line with 'never')"),
        ("exit 0", 30, "exit 0, ended before it was ready"),
        ("exit 3", 30, "exit 3"),
    ],
)
@each_loop
async def test_one_that_does_not_become_ready_could_not_be_started(script: str, timeout: float, why: str) -> None:
    pids: set[int] = set()

    def on_change(change: Change) -> None:
        if change.after is not None and change.after.pid is not None:
            pids.add(change.after.pid)

    child = shell("a", script, ready=Ready(log="never", timeout=timeout))
    tree = Supervisor(children=[shell("other", "exec sleep 1000"), child], on_change=on_change)
    with pytest.raises(CannotStart) as raised:
        await tree.start()
    # One that was asked to end because of it says by which signal it did.
    assert raised.value.path == "a"
    assert raised.value.why.endswith(why)
    assert tree.child("a").status is Status.FAILED
    assert pids
    assert not any(alive(pid) for pid in pids)


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_one_that_is_not_well_any_more_is_ended_and_started_again(folder: Path) -> None:
    program = (
        "import os, socket, sys, time\n"
        "door = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "door.settimeout(0.01)\n"
        "while not os.path.exists(sys.argv[2]):\n"
        "    try: door.accept()\n"
        "    except TimeoutError: pass\n"
        "os.remove(sys.argv[2])\n"
        "door.close()\n"
        "time.sleep(1000)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ill = folder / "ill"
    place = f"127.0.0.1:{port}"
    child = Process(
        name="a",
        command=[sys.executable, "-I", "-S", "-c", program, str(port), str(ill)],
        ready=Ready(tcp=place),
        alive=Alive(tcp=place, every=0.05, timeout=10, failures=2),
        restart=Restart.ON_FAILURE,
        backoff=AT_ONCE,
    )
    async with Supervisor(children=[child]) as tree:
        first = pid_of(tree, "a")
        ill.touch()
        await until(
            lambda: tree.child("a").restarts == 1 and tree.child("a").status is Status.RUNNING, "it is replaced"
        )
        info = tree.child("a")
        assert not alive(first)
        assert info.last_exit is not None
        assert info.last_exit.signal == signal.SIGTERM
        assert info.last_exit.error == "not well: 2 looks in a row failed (last: connection refused)"


@pytest.mark.behaviour("SUP-8")
@each_loop
async def test_one_that_comes_back_suspended_is_ready_after_it_was_resumed() -> None:
    # It says that it is ready some time after it was started, for which it must be allowed to run.
    child = shell("a", "sleep 0.1; echo up; exec sleep 1000", ready=Ready(log="up", timeout=2))
    changes: list[Change] = []
    async with Supervisor(children=[child], on_change=changes.append) as tree:
        await tree.act("a", ServiceAction.SUSPEND)
        first = pid_of(tree, "a")
        os.kill(first, signal.SIGKILL)
        await until(lambda: tree.child("a").restarts == 1, "its end was seen")
        await until(lambda: tree.child("a").status is Status.SUSPENDED, "it is back")
        assert pid_of(tree, "a") != first
        over = asyncio.get_running_loop().time() + 2.1
        await until(lambda: asyncio.get_running_loop().time() > over, "it would have had to be ready by now")
        changes.clear()
        await tree.act("a", ServiceAction.RESUME)
        await until(lambda: tree.child("a").status is Status.RUNNING, "it is up")
        statuses = [change.after.status for change in changes if change.after is not None]
        assert statuses == [Status.STARTING, Status.RUNNING]
        assert tree.child("a").restarts == 1


@pytest.mark.behaviour("SUP-7", "SUP-10")
@each_loop
async def test_the_next_life_is_told_how_the_last_one_ended(folder: Path) -> None:
    told = folder / "told"
    script = f'echo "$INTERLOCK_RESUME_ID $INTERLOCK_PREV_EXIT ${{INTERLOCK_PREV_SIGNAL:-none}}" >> {told}; '
    script += f"case $(wc -l < {told}) in 1) exit 7;; 2) kill -9 $$;; esac; exec sleep 1000"
    async with Supervisor(children=[shell("a", script)]) as tree:
        await until(lambda: tree.child("a").restarts == 2, "it has ended twice")
        await until(lambda: told.exists() and len(told.read_text().splitlines()) == 3, "it has begun three times")
        lines = [line.split() for line in told.read_text().splitlines()]
        assert [line[1:] for line in lines] == [["-1", "none"], ["7", "none"], ["-1", "9"]]
        assert len({line[0] for line in lines}) == 1
        last = tree.child("a").last_exit
        assert last is not None
        assert last == Exit(at=last.at, signal=9)


@pytest.mark.behaviour("SUP-11")
@each_loop
async def test_a_command_that_is_not_found_could_not_be_started() -> None:
    tree = Supervisor(children=[shell("a", "exec sleep 1000"), Process(name="b", command=["no-such-program-here"])])
    with pytest.raises(CannotStart, match="no-such-program-here") as raised:
        await tree.start()
    assert raised.value.path == "b"
    assert tree.child("a").status is Status.STOPPED


@pytest.mark.behaviour("SUP-11")
@each_loop
async def test_whoever_raises_at_a_line_does_not_keep_its_child_from_being_restarted() -> None:
    def refuse(path: str, stream: str, line: str, at: float) -> None:
        raise ValueError(line)

    says = Process(name="says", command=["/bin/sh", "-c", "printf last; exit 3"], backoff=Backoff(initial=0.01))
    tree = Supervisor("t", [says], on_line=refuse)
    await tree.start()
    await until(lambda: tree.child("says").restarts > 2, "it was restarted again and again")
    await tree.stop()
    info = tree.child("says").last_exit
    assert info is not None
    assert info.code in (3, None)


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_a_guard_that_does_not_answer_is_killed_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_client, "PATIENCE", 0.5)
    tree = Supervisor("t", [Process(name="a", command=SLEEP, stop_timeout=0.1)])
    await tree.start()
    pid = tree.child("a").pid
    guard = tree.around.guard.pid
    assert pid is not None
    assert guard is not None
    os.kill(guard, signal.SIGSTOP)
    await tree.stop()
    await until(lambda: not alive(pid) and not alive(guard), "both are gone")


@pytest.mark.behaviour("SUP-2")
def test_a_supervisor_that_runs_again_on_another_loop_restarts_groups_there(run: Run) -> None:
    tree = Supervisor(
        "t",
        [Process(name=name, command=SLEEP, backoff=AT_ONCE) for name in "ab"],
        strategy="one_for_all",
    )

    async def body() -> None:
        await tree.start()
        before = {one.name: one.pid for one in tree.children()}
        assert before["a"] is not None
        os.kill(before["a"], signal.SIGKILL)
        await until(
            lambda: all(one.status is Status.RUNNING and one.pid != before[one.name] for one in tree.children()),
            "both are others",
        )
        await tree.stop()

    run(body())
    run(body())

"""Starts through the guard: what a process gets, why one fails, and that one given up leaves nothing."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from interlock.supervision.guard_client import Ended, Program
from interlock.supervision.lineage import MARKER, NOT_YET, marked
from tests.helpers.places import folder
from tests.helpers.processes import alive, look, wait_until
from tests.supervision.conftest import each_loop
from tests.supervision.programs import (
    descent,
    guarded,
    spawn,
    with_parent,
)

__all__ = ["folder"]
MOST_FILES = int(Path("/proc/sys/fs/nr_open").read_text())

# ── starts that fail, and starts that are given up ──────────────────────────────────────────────────────────────────


@each_loop
async def test_a_start_that_is_cancelled_leaves_nothing(folder: Path) -> None:
    async with guarded() as guard:
        guard.open()
        for turns in range(6):
            # So that the start is not over before it is cancelled.
            os.kill(guard.pid or 0, signal.SIGSTOP)
            task = asyncio.ensure_future(spawn(guard, *descent(folder)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            os.kill(guard.pid or 0, signal.SIGCONT)
            await asyncio.wait([task], timeout=20)
            assert task.cancelled()
            assert with_parent(guard.pid) == []
            assert [pid for pid in map(int, _numbers(folder)) if alive(pid)] == []


def _numbers(folder: Path) -> list[str]:
    return [path.read_text() or "0" for path in folder.iterdir()]


@each_loop
async def test_starts_that_are_cancelled_before_they_are_sent_leave_nothing() -> None:
    async with guarded() as guard:
        guard.open()
        os.kill(guard.pid or 0, signal.SIGSTOP)
        # More than the link holds while nobody reads it.
        arguments = ("true", *["x" * 100_000] * 5)
        tasks = [asyncio.ensure_future(spawn(guard, *arguments)) for _ in range(4)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        os.kill(guard.pid or 0, signal.SIGCONT)
        await asyncio.wait([tasks[3]], timeout=20)
        assert tasks[3].cancelled()
        for task in tasks[:3]:
            assert await (await task).exit == Ended(code=0)


# ── what a process gets ─────────────────────────────────────────────────────────────────────────────────────────────


async def said(*command: str, environment: dict[str, str] | None = None) -> str:
    """What a program prints."""
    with TemporaryFile() as file:
        async with guarded() as guard:
            given = {**os.environ, **(environment or {})}
            program = Program(command=command, environment=given, descriptors={1: file.fileno()})
            process = await guard.spawn(program)
            assert await process.exit == Ended(code=0)
        file.seek(0)
        return file.read().decode()


@each_loop
async def test_a_process_starts_with_a_clean_slate() -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        status = dict(line.split(":\t") for line in (await said("cat", "/proc/self/status")).splitlines())
        assert int(status["SigBlk"], 16) == 0
        # 32 and 33 are the C library's own: nobody can set what is done with them.
        assert int(status["SigIgn"], 16) & ~(0b11 << 31) == 0
        assert int(status["SigCgt"], 16) == 0
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        signal.signal(signal.SIGUSR2, before)
    fields = (await said("cat", "/proc/self/stat")).rpartition(")")[2].split()
    group, session = int(fields[2]), int(fields[3])
    assert group == session != os.getsid(0)
    assert await said("cat", "/proc/self/oom_score_adj") == "500\n"


@each_loop
async def test_a_process_gets_no_descriptors_but_those_it_is_given(folder: Path) -> None:
    program = "import os; print([n for n in range(99) if os.path.exists(f'/proc/self/fd/{n}')])"
    assert await said(sys.executable, "-I", "-S", "-c", program) == "[0, 1, 2]\n"
    assert await said("readlink", "/proc/self/fd/0") == "/dev/null\n"
    with (folder / "seven").open("w") as one, (folder / "three").open("w") as other:
        async with guarded() as guard:
            mapping = {7: one.fileno(), 3: other.fileno(), 4: other.fileno(), 5: one.fileno(), 6: one.fileno()}
            process = await spawn(guard, "sh", "-c", "echo 7 >&7; echo 3 >&3; echo 4 >&4", descriptors=mapping)
            assert await process.exit == Ended(code=0)
    assert (folder / "seven").read_text() == "7\n"
    assert (folder / "three").read_text() == "3\n4\n"


@each_loop
async def test_large_environment_and_arguments_arrive() -> None:
    environment = {f"NAME_{n}": "v" * 100_000 for n in range(5)}
    program = "import os, sys; print(len(os.environ['NAME_4']), [len(one) for one in sys.argv[1:]])"
    command = (sys.executable, "-I", "-S", "-c", program, *["a" * 100_000] * 3)
    assert await said(*command, environment=environment) == "100000 [100000, 100000, 100000]\n"


def test_whose_a_process_is_can_be_told_or_cannot_yet() -> None:
    def mark_of(environment: dict[str, str], command: str) -> int | None:
        with subprocess.Popen(["sh", "-c", command], env=environment, stdin=subprocess.PIPE) as process:
            wait_until(lambda: _waits_or_has_ended(process.pid), "it waits, or has ended")
            return marked(process.pid, b"me.")

    path = {"PATH": os.environ["PATH"]}
    assert mark_of({**path, MARKER: "other.3/me.12/inner.5"}, "exec cat") == 12
    assert mark_of({**path, MARKER: "other.3/me.x/inner.5"}, "exec cat") is None
    assert mark_of(path, "exec cat") is None
    assert mark_of(path, "exec env -i cat") is None
    # One that is about to go has lost it already.
    assert mark_of({**path, MARKER: "me.12"}, "exit") == NOT_YET
    assert marked(2**22 + 1, b"me.") is None


def _waits_or_has_ended(pid: int) -> bool:
    found = look(pid)
    return found is not None and (found.state == "Z" or (found.state == "S" and found.command == "cat"))


@each_loop
async def test_marks_tell_of_every_guard_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARKER, "outer.12")
    marks = (await said("printenv", MARKER)).strip().split("/")
    assert marks[0] == "outer.12"
    assert len(marks) == 2

"""Processes that have left their session, their environment or their parent still end with their child."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.supervision import lineage
from interlock.supervision.guard_client import Ended, Guard, Spawned
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, children_of, look
from tests.supervision.programs import SLEEP, descent, gone, guarded, is_asleep, kin_of, spawn

__all__ = ["folder"]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
LEFT = "env -i PATH=$PATH setsid sleep 1000 &"
"""in a shell: a process that has left session and environment"""


def run(main: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))  # type: ignore[arg-type]


def below(pid: int) -> list[int]:
    """What descends from a process, the nearest first."""
    found = children_of(pid)
    return found + [one for child in found for one in below(child)]


async def sleeper(pid: int) -> int:
    """The one process below this one that sleeps, in another session."""
    await until(lambda: any(map(is_asleep, below(pid))), "it sleeps")
    (found,) = (one for one in below(pid) if is_asleep(one))
    assert os.getsid(found) != pid
    return found


def kill(guard: Guard, process: Spawned) -> None:
    os.kill(process.pid, signal.SIGKILL)


def terminate(guard: Guard, process: Spawned) -> None:
    guard.signal(process, signal.SIGTERM)


def have_killed(guard: Guard, process: Spawned) -> None:
    guard.signal(process, signal.SIGKILL)


def in_shell(line: str) -> tuple[str, ...]:
    return ("sh", "-c", f"{line} wait")


OTHER_USER = ("su", "-", "nobody", "-s", "/bin/sh", "-c", "sleep 1000; true")
NESTED = in_shell(f"exec env -i PATH=$PATH setsid sh -c '{LEFT} wait' &")


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize(
    ("command", "end"),
    [
        pytest.param(OTHER_USER, kill, marks=as_root),
        pytest.param(OTHER_USER, have_killed, marks=as_root),
        (in_shell(LEFT), kill),
        (in_shell(LEFT), terminate),
        (NESTED, kill),
    ],
)
async def test_a_process_of_another_user_or_without_environment_ends_with_its_leader(
    command: tuple[str, ...], end: Callable[[Guard, Spawned], None]
) -> None:
    async with guarded() as guard:
        other = await spawn(guard, *SLEEP)
        process = await spawn(guard, *command)
        stranger = await sleeper(process.pid)
        end(guard, process)
        await process.exit
        assert gone(stranger)
        assert children_of(guard.pid or 0) == [other.pid]


async def test_one_that_only_one_child_can_have_left_is_that_childs(folder: Path) -> None:
    async with guarded() as guard:
        process = await spawn(guard, *descent(folder, "nameless"))
        nameless = await kin_of(folder, "nameless", "nameless-child")
        assert await (await spawn(guard, "true")).exit == Ended(code=0)
        assert all(map(alive, nameless))
        guard.signal(process, signal.SIGKILL)
        await process.exit
        assert gone(*nameless)


async def test_one_that_was_there_before_is_not_taken_for_what_another_child_left(folder: Path) -> None:
    async with guarded() as guard:
        await spawn(guard, *SLEEP)
        await spawn(guard, *descent(folder, "nameless"))
        nameless = await kin_of(folder, "nameless", "nameless-child")
        another = await spawn(guard, *SLEEP)
        os.kill(another.pid, signal.SIGKILL)
        await another.exit
        assert all(map(alive, nameless))
    assert gone(*nameless)


HEADLESS = """
import ctypes, os, signal, sys, threading
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=signal.pause, daemon=True).start()
    open(sys.argv[1], "w").close()
    ctypes.CDLL(None).pthread_exit(None)
signal.pause()
"""
"""one that lives on in a thread when its first thread is gone, and its environment with it"""


def has_lost_its_environment(pid: int) -> bool:
    return lineage.marked(pid, b"nobody's.") == lineage.NOT_YET and len(os.listdir(f"/proc/{pid}/task")) == 2


async def headless(guard: Guard, folder: Path, outlives: bool = False) -> tuple[Spawned, int]:
    command = (sys.executable, "-S", "-c", HEADLESS, str(folder / "ready"))
    process = await spawn(guard, *command, outlives=outlives)
    await until((folder / "ready").exists, "it is there")
    (pid,) = (one for one in lineage.processes() if lineage.parent(lineage.facts(one)) == process.pid)
    await until(lambda: has_lost_its_environment(pid), "it has lost its environment")
    return process, pid


@pytest.mark.behaviour("SUP-10")
async def test_one_whose_environment_can_never_be_read_is_taken_for_one_that_has_none(folder: Path) -> None:
    async with guarded() as guard:
        await spawn(guard, *SLEEP)
        process, stranger = await headless(guard, folder)
        os.kill(process.pid, signal.SIGKILL)
        assert await process.exit == Ended(signal=signal.SIGKILL)
        assert look(stranger) is None


async def test_when_the_guard_is_killed_one_that_lives_on_in_a_thread_is_not_taken_for_dead(folder: Path) -> None:
    async with guarded() as guard:
        process, stranger = await headless(guard, folder, outlives=True)
        os.kill(guard.pid or 0, signal.SIGKILL)
        assert (await process.exit).error
        assert lineage.is_dead(lineage.facts(stranger))


@pytest.mark.behaviour("SUP-10")
async def test_when_the_guard_is_killed_what_descends_from_a_child_that_lives_is_found() -> None:
    async with guarded() as guard:
        process = await spawn(guard, "sh", "-c", f"{LEFT} wait", outlives=True)
        stranger = await sleeper(process.pid)
        os.kill(guard.pid or 0, signal.SIGKILL)
        assert (await process.exit).error
        assert gone(process.pid, stranger)


# ── lineage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_number_that_another_process_has_by_now_is_not_killed() -> None:
    with subprocess.Popen(SLEEP) as process:
        started = lineage.start(lineage.facts(process.pid))
        lineage.kill(process.pid, started - 1)
        assert alive(process.pid)
        lineage.kill(process.pid, started)
        assert process.wait() == -signal.SIGKILL
    lineage.kill(process.pid, started)

"""What the tests of processes run: programs that fork, and one that owns a guard, to be killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from interlock.supervision.guard_client import Guard, Program, Spawned
from tests.helpers.processes import alive, children_of, descriptors, look, wait_until, zombies

ROOT = Path(__file__).parents[2]
SLEEP = ("sleep", "1000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done")
DESCENT = """
import os, signal, sys
folder, then = sys.argv[1:]

def live(name, environment=os.environ):
    # Under another name first: whoever waits for the file finds the number in it.
    with open(f"{folder}/.{name}", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{folder}/.{name}", f"{folder}/{name}")
    os.execvpe("sleep", ["sleep", "1000"], environment)

def daemon(name, environment=os.environ):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                live(name + "-child", environment)
            live(name, environment)
        os._exit(0)

if os.fork() == 0:
    live("group")
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        os.setpgid(0, 0)
        live("other-group-child")
    live("other-group")
daemon("daemon")
if then == "nameless":
    daemon("nameless", {"PATH": os.environ["PATH"]})
while sum(name[0] != "." for name in os.listdir(folder)) < (7 if then == "nameless" else 5):
    os.sched_yield()
if then.isdigit():
    os._exit(int(then))
live("leader")
"""
KIN = ("group", "other-group", "other-group-child", "daemon", "daemon-child")


def descent(folder: Path, then: str = "") -> tuple[str, ...]:
    """A program that starts processes in its group, in others and in other sessions, each of which leaves its number in
    the folder; `then` is what it exits with. With "nameless" there are two more, whose environment is not that of their
    parents."""
    return (sys.executable, "-I", "-S", "-c", DESCENT, str(folder), then)


def kin(folder: Path, *names: str) -> list[int]:
    """Their numbers, once all are there, and each has become what it is to be, or is gone."""
    paths = [folder / name for name in names or (*KIN, "leader")]
    wait_until(lambda: all(path.exists() for path in paths), "every process has started")
    pids = [int(path.read_text()) for path in paths]
    wait_until(lambda: all(not alive(pid) or is_asleep(pid) for pid in pids), "every process sleeps")
    return pids


def is_asleep(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.command == "sleep 1000" and found.state in "ST"


async def kin_of(folder: Path, *names: str) -> list[int]:
    return await asyncio.to_thread(kin, folder, *names)


def gone(*pids: int) -> bool:
    return not any(alive(pid) for pid in pids)


def all_gone(pids: list[int]) -> None:
    wait_until(lambda: gone(*pids), f"{pids} are gone")


async def spawn(guard: Guard, *command: str, **options: object) -> Spawned:
    return await guard.spawn(Program(command=command, environment=dict(os.environ), **options))  # type: ignore[arg-type]


def with_parent(pid: int | None) -> list[int]:
    found = [look(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    return [one.pid for one in found if one is not None and one.parent == pid]


@asynccontextmanager
async def guarded() -> AsyncIterator[Guard]:
    """A guard; at the end there is nothing left of it, and nothing open that was not before."""
    # Whatever a loop opens when it first watches something is not of interest.
    warm, there = os.pipe()
    asyncio.get_running_loop().add_reader(warm, lambda: None)
    asyncio.get_running_loop().remove_reader(warm)
    os.close(warm)
    os.close(there)
    before, others = descriptors(), children_of(os.getpid())
    guard = Guard()
    try:
        yield guard
    finally:
        await guard.close()
    assert not (left := descriptors() - before), left
    assert children_of(os.getpid()) == others
    assert zombies() == []


async def own(folder: Path, outliving: bool, forks: bool, stops: bool, closes: bool) -> None:
    """Be the owner of a guard with some children, and say so. With `stops` the guard has no time to listen, and with
    `closes` none for what it is told last."""
    guard = Guard()
    (folder / "kin").mkdir()
    leader = await spawn(guard, *descent(folder / "kin"))
    pids = [leader.pid, *await kin_of(folder / "kin", *KIN)]
    if stops:
        assert guard.pid is not None
        os.kill(guard.pid, signal.SIGSTOP)
    guard.remember("one", str(folder / "engine"), b"DELETE /one HTTP/1.1\r\n\r\n")
    guard.remember("other", str(folder / "engine"), b"DELETE /other HTTP/1.1\r\n\r\n")
    guard.disregard("other")
    survivors = []
    if outliving:
        (folder / "outliving").mkdir()
        survivor = await spawn(guard, *descent(folder / "outliving"), outlives=True)
        survivors = [survivor.pid, *await kin_of(folder / "outliving", *KIN)]
    closing = None
    if closes:
        assert guard.pid is not None
        os.kill(guard.pid, signal.SIGSTOP)
        closing = asyncio.ensure_future(guard.close())
        await asyncio.sleep(0)
    copy = os.fork() if forks else 0
    if forks and copy == 0:
        signal.pause()
    told = {"guard": guard.pid, "pids": pids, "survivors": survivors, "copy": copy}
    (folder / ".told").write_text(json.dumps(told))
    (folder / ".told").rename(folder / "told")
    await (closing or asyncio.Event().wait())


if __name__ == "__main__":
    asyncio.run(own(Path(sys.argv[1]), *(one in sys.argv for one in ("outliving", "forks", "stops", "closes"))))

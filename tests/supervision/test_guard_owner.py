"""A program that owns a guard: what lives on without it, and what it passes on to its processes."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.model.child_info import Exit
from interlock.supervision.guard_client import Guard, NotSpawned
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.process import ProcessInstance
from interlock.supervision.spec import Process
from tests.helpers.places import folder
from tests.helpers.processes import alive, look, wait_until
from tests.helpers.server import environment
from tests.supervision.programs import ROOT, all_gone, guarded, is_asleep, spawn

__all__ = ["folder"]

# ── programs that own a guard ───────────────────────────────────────────────────────────────────────────────────────

IMPORTS = """
import asyncio, os, pathlib, signal, sys
from interlock.supervision import Process, Supervisor
from interlock.supervision.guard_client import Ended, Guard, NotSpawned
from tests.helpers.places import until
from tests.helpers.processes import alive, children_of, zombies
from tests.supervision.programs import SLEEP, spawn
folder = pathlib.Path(sys.argv[1])
"""


def owner(folder: Path, program: str, before: str = "", after: str = "") -> "subprocess.Popen[bytes]":
    """A program with a shell's words before and after it. Its last line calls `main`."""
    path = folder / "program.py"
    path.write_text(f"{IMPORTS}{program}\nasyncio.run(asyncio.wait_for(main(), 60))\n")
    command = f'{before} exec "$@" {after}'
    return subprocess.Popen(
        ["sh", "-c", command, "sh", sys.executable, str(path), str(folder)], cwd=ROOT, env=environment()
    )


def owned(folder: Path, program: str, before: str = "", after: str = "") -> str:
    """What it has written to the file `said`, once it has ended well."""
    assert owner(folder, program, before, after).wait(60) == 0
    return (folder / "said").read_text()


OUTLIVING = """
async def main():
    guard = Guard()
    left = "(env -i PATH=$PATH setsid sleep 1000 &) ; env -i PATH=$PATH setsid sleep 1000 & exec sleep 1000"
    one = await spawn(guard, "sh", "-c", left, outlives=True)
    await until(lambda: len(children_of(guard.pid)) == 2, "it has left an orphan")
    other = await spawn(guard, "sh", "-c", "env -i PATH=$PATH setsid sleep 1000 & exec sleep 1000")
    await until(lambda: len(children_of(other.pid)) == len(children_of(one.pid)) == 1, "each has a child")
    orphan, = set(children_of(guard.pid)) - {one.pid, other.pid}
    pids = [orphan, one.pid, *children_of(one.pid), other.pid, *children_of(other.pid)]
    (folder / ".said").write_text(" ".join(map(str, pids)))
    (folder / ".said").rename(folder / "said")
    await asyncio.Event().wait()
"""


@pytest.mark.behaviour("SUP-10")
def test_what_a_child_that_outlives_its_supervisor_may_have_left_lives_on(folder: Path) -> None:
    process = owner(folder, OUTLIVING)
    survivors: Sequence[int] = ()
    try:
        wait_until((folder / "said").exists, "it has its children")
        *survivors, leader, child = map(int, (folder / "said").read_text().split())
        found = look(leader)
        assert found is not None
        wait_until(lambda: all(map(is_asleep, [*survivors, leader, child])), "all are what they are to be")
        process.kill()
        all_gone([leader, child, found.parent])
        assert all(map(alive, survivors))
    finally:
        for pid in survivors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


TAKING_IN = """
import ctypes
async def main():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    guard = Guard()
    for outlives in (False, True):
        process = await spawn(guard, "sh", "-c", "sleep 1000 & setsid sleep 1000 & sleep 1000; :", outlives=outlives)
        await until(lambda: len(children_of(process.pid)) == 3, "it has children")
        os.kill(guard.pid, signal.SIGKILL)
        assert (await process.exit).error
    (folder / "said").write_text(repr((zombies(), children_of(os.getpid()))))
    await guard.close()
"""


def test_a_supervisor_that_takes_in_orphans_reaps_what_a_guard_has_left(folder: Path) -> None:
    assert owned(folder, TAKING_IN) == "([], [])"


WITHOUT_STREAMS = """
LOOK = '''
import os, sys, time
with open(sys.argv[1] + "/.said", "w") as file:
    print(*(os.readlink(f"/proc/self/fd/{number}") for number in range(3)), file=file)
os.rename(sys.argv[1] + "/.said", sys.argv[1] + "/said")
time.sleep(1000)
'''
async def main():
    command = [sys.executable, "-I", "-S", "-c", LOOK, str(folder)]
    async with Supervisor("s", [Process(name="p", command=command, capture=False)]):
        await until((folder / "said").exists, "it has looked at its streams")
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_without_streams_to_hand_down_a_process_gets_none_of_the_supervisors_own(folder: Path, closed: str) -> None:
    streams = owned(folder, WITHOUT_STREAMS, after=f">{folder}/out 2>{folder}/err {closed}").split()
    out = "/dev/null" if closed.count(">&-") == 2 or closed == ">&-" else str(folder / "out")
    error = "/dev/null" if "2>&-" in closed else str(folder / "err")
    assert streams == ["/dev/null", out, error]


MORE_LIKELY = """
async def main():
    guard = Guard()
    with open(folder / "said", "wb") as file:
        process = await spawn(guard, "cat", "/proc/self/oom_score_adj", descriptors={1: file.fileno()})
        assert await process.exit == Ended(code=0)
    await guard.close()
"""


@pytest.mark.parametrize("score", [700, 300])
def test_a_process_is_at_least_as_likely_to_go_as_its_supervisor_when_memory_runs_out(folder: Path, score: int) -> None:
    said = owned(folder, MORE_LIKELY, before=f"echo {score} > /proc/self/oom_score_adj;")
    assert int(said) == max(score, 500)


def test_a_scheduler_that_is_started_without_streams_has_some(folder: Path) -> None:
    (folder / "web.yaml").write_text("kind: Service\nid: web\nrun: {process: [sh, -c, ': > up; sleep 1000']}\n")
    command = f"exec {sys.executable} -m interlock.cli up web.yaml --http off <&- >&- 2>&-"
    process = subprocess.Popen(["sh", "-c", command], cwd=folder, env=environment())
    try:
        wait_until((folder / "up").exists, "the service runs")
        assert [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)] == ["/dev/null"] * 3
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def run(main: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))  # type: ignore[arg-type]


# ── what a process is started with ──────────────────────────────────────────────────────────────────────────────────


async def printed(guard: Guard, *command: str, **options: object) -> list[str]:
    lines: list[str] = []
    spec = Process(name="child", command=command, **options)  # type: ignore[arg-type]
    birth = Birth(path="child", name="child", resume_id="the-id", previous=None)
    around = Surroundings(on_line=lambda path, stream, line, at: lines.append(line), now=lambda: 0.0, guard=guard)
    instance = ProcessInstance(spec, birth, around)
    await instance.start()
    assert await instance.ended == Exit(at=0.0, code=0)
    return lines


async def test_it_gets_the_folder_that_the_supervisor_has_by_then(folder: Path) -> None:
    here = Path.cwd()
    try:
        async with guarded() as guard:
            assert await printed(guard, "pwd") == [str(here)]
            (folder / "inner").mkdir()
            os.chdir(folder)
            assert await printed(guard, "pwd") == [str(folder)]
            assert await printed(guard, "pwd", cwd="inner") == [str(folder / "inner")]
            os.chdir("inner")
            (folder / "inner").rmdir()
            with pytest.raises(NotSpawned) as caught:
                await spawn(guard, "true")
            assert (caught.value.stage, caught.value.number) == ("guard", errno.ENOENT)
            assert await printed(guard, "pwd", cwd="/") == ["/"]
    finally:
        os.chdir(here)


async def test_it_is_told_nothing_that_systemd_has_told_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"]
    for name in names:
        monkeypatch.setenv(name, "1")
    async with guarded() as guard:
        told = await printed(guard, "env", env={"LISTEN_FDS": "2"})
        assert [line for line in told if line.partition("=")[0] in names] == ["LISTEN_FDS=2"]


async def test_a_folder_of_the_path_that_cannot_be_searched_is_passed_by(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    async with guarded() as guard:
        path = f"/{'x' * 300}:{folder}/loop:/nosuch:{os.environ['PATH']}"
        assert await printed(guard, "echo", "found", env={"PATH": path}) == ["found"]

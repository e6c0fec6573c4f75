"""The guard and what tries to get away from it, or takes its own surroundings away."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.model.child_info import Exit
from interlock.supervision import lineage
from interlock.supervision.guard_client import Ended, Guard, NotSpawned, Spawned
from interlock.supervision.instance import Birth
from interlock.supervision.process import ProcessInstance
from interlock.supervision.spec import Process
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, children_of, look, wait_until
from tests.helpers.server import environment
from tests.supervision.programs import ROOT, SLEEP, all_gone, descent, gone, guarded, is_asleep, kin_of, spawn

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


# ── what has left its session and its environment ───────────────────────────────────────────────────────────────────


def kill(guard: Guard, process: Spawned) -> None:
    os.kill(process.pid, signal.SIGKILL)


def terminate(guard: Guard, process: Spawned) -> None:
    guard.signal(process, signal.SIGTERM)


def have_killed(guard: Guard, process: Spawned) -> None:
    guard.signal(process, signal.SIGKILL)


@as_root
@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("end", [kill, have_killed])
def test_a_process_of_another_user_ends_with_its_leader(end: Callable[[Guard, Spawned], None]) -> None:
    async def main() -> None:
        async with guarded() as guard:
            other = await spawn(guard, *SLEEP)
            process = await spawn(guard, "su", "-", "nobody", "-s", "/bin/sh", "-c", "sleep 1000; true")
            stranger = await sleeper(process.pid)
            end(guard, process)
            await process.exit
            assert gone(stranger)
            assert children_of(guard.pid or 0) == [other.pid]

    run(main)


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("end", [kill, terminate])
def test_a_process_without_environment_ends_with_its_leader(end: Callable[[Guard, Spawned], None]) -> None:
    async def main() -> None:
        async with guarded() as guard:
            other = await spawn(guard, *SLEEP)
            process = await spawn(guard, "sh", "-c", f"{LEFT} wait")
            stranger = await sleeper(process.pid)
            end(guard, process)
            await process.exit
            assert gone(stranger)
            assert children_of(guard.pid or 0) == [other.pid]

    run(main)


def test_so_does_what_such_a_process_has_started_in_the_same_way() -> None:
    async def main() -> None:
        async with guarded() as guard:
            other = await spawn(guard, *SLEEP)
            nested = f"exec env -i PATH=$PATH setsid sh -c '{LEFT} wait' &"
            process = await spawn(guard, "sh", "-c", f"{nested} wait")
            stranger = await sleeper(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            await process.exit
            assert gone(stranger)
            assert children_of(guard.pid or 0) == [other.pid]

    run(main)


def test_one_that_is_orphaned_after_its_leader_was_asked_to_end_is_its_leaders(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            await spawn(guard, *SLEEP)
            middle = f"sh -c '{LEFT} wait' & trap 'kill -9 $!; wait $!; : > {folder}/asked' TERM"
            process = await spawn(guard, "sh", "-c", f"{middle}; while :; do wait; done")
            stranger = await sleeper(process.pid)
            guard.signal(process, signal.SIGTERM)
            # Asked as a group, the one between may be gone first.
            await until((folder / "asked").exists, "it was asked")
            # The guard looks at what it has.
            assert await (await spawn(guard, "true")).exit == Ended(code=0)
            assert alive(stranger)
            os.kill(process.pid, signal.SIGKILL)
            await process.exit
            assert gone(stranger)

    run(main)


def test_one_that_only_one_child_can_have_left_is_that_childs(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            process = await spawn(guard, *descent(folder, "nameless"))
            nameless = await kin_of(folder, "nameless", "nameless-child")
            assert await (await spawn(guard, "true")).exit == Ended(code=0)
            assert all(map(alive, nameless))
            guard.signal(process, signal.SIGKILL)
            await process.exit
            assert gone(*nameless)

    run(main)


def test_one_that_was_there_before_is_not_taken_for_what_another_child_left(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            await spawn(guard, *SLEEP)
            await spawn(guard, *descent(folder, "nameless"))
            nameless = await kin_of(folder, "nameless", "nameless-child")
            another = await spawn(guard, *SLEEP)
            os.kill(another.pid, signal.SIGKILL)
            await another.exit
            assert all(map(alive, nameless))
        assert gone(*nameless)

    run(main)


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
    (pid,) = lineage.descendants(process.pid, lineage.children_of_all())
    await until(lambda: has_lost_its_environment(pid), "it has lost its environment")
    return process, pid


@pytest.mark.behaviour("SUP-10")
def test_one_whose_environment_can_never_be_read_is_taken_for_one_that_has_none(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            await spawn(guard, *SLEEP)
            process, stranger = await headless(guard, folder)
            os.kill(process.pid, signal.SIGKILL)
            assert await process.exit == Ended(signal=signal.SIGKILL)
            assert look(stranger) is None

    run(main)


def test_when_the_guard_is_killed_one_that_lives_on_in_a_thread_is_not_taken_for_dead(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            process, stranger = await headless(guard, folder, outlives=True)
            os.kill(guard.pid or 0, signal.SIGKILL)
            assert (await process.exit).error
            assert lineage.is_dead(lineage.facts(stranger))

    run(main)


@pytest.mark.behaviour("SUP-10")
def test_when_the_guard_is_killed_what_descends_from_a_child_that_lives_is_found() -> None:
    async def main() -> None:
        async with guarded() as guard:
            process = await spawn(guard, "sh", "-c", f"{LEFT} wait", outlives=True)
            stranger = await sleeper(process.pid)
            os.kill(guard.pid or 0, signal.SIGKILL)
            assert (await process.exit).error
            assert gone(process.pid, stranger)

    run(main)


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


CHANGING_USER = """
async def main():
    guard = Guard()
    process = await spawn(guard, *SLEEP)
    before = guard.pid
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    try:
        await spawn(guard, *SLEEP)
    except NotSpawned as error:
        os.write(said, str(error).encode())
    process.link.kill()
    ended = await process.exit
    assert ended.error or ended.signal == signal.SIGKILL, ended
    assert not alive(process.pid)
    await guard.close()
    assert not alive(before)
said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
"""


@as_root
def test_a_supervisor_that_has_changed_its_user_starts_nothing_with_the_rights_of_the_old_one(folder: Path) -> None:
    assert owned(folder, CHANGING_USER).startswith("the supervisor has changed its user since it started its guard")


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


# ── what a process is started with ──────────────────────────────────────────────────────────────────────────────────


async def printed(guard: Guard, *command: str, **options: object) -> list[str]:
    lines: list[str] = []
    spec = Process(name="child", command=command, **options)  # type: ignore[arg-type]
    birth = Birth(path="child", name="child", resume_id="the-id", previous=None)
    instance = ProcessInstance(spec, birth, guard, lambda path, stream, line, at: lines.append(line), lambda: 0.0)
    await instance.start()
    assert await instance.ended == Exit(at=0.0, code=0)
    return lines


def test_it_gets_the_folder_and_the_umask_that_the_supervisor_has_by_then(folder: Path) -> None:
    async def main() -> None:
        here, before = Path.cwd(), os.umask(0o022)
        try:
            async with guarded() as guard:
                assert await printed(guard, "sh", "-c", "pwd; umask") == [str(here), "0022"]
                (folder / "inner").mkdir()
                os.chdir(folder)
                os.umask(0o027)
                assert await printed(guard, "sh", "-c", "pwd; umask") == [str(folder), "0027"]
                assert await printed(guard, "pwd", cwd="inner") == [str(folder / "inner")]
                os.chdir("inner")
                (folder / "inner").rmdir()
                with pytest.raises(NotSpawned, match="the supervisor's own folder is gone"):
                    await spawn(guard, "true")
                assert await printed(guard, "pwd", cwd="/") == ["/"]
        finally:
            os.chdir(here)
            os.umask(before)

    run(main)


def test_it_is_told_nothing_that_systemd_has_told_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"]
    for name in names:
        monkeypatch.setenv(name, "1")

    async def main() -> None:
        async with guarded() as guard:
            told = await printed(guard, "env", env={"LISTEN_FDS": "2"})
            assert [line for line in told if line.partition("=")[0] in names] == ["LISTEN_FDS=2"]

    run(main)


def test_a_folder_of_the_path_that_cannot_be_searched_is_passed_by(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")

    async def main() -> None:
        async with guarded() as guard:
            path = f"/{'x' * 300}:{folder}/loop:/nosuch:{os.environ['PATH']}"
            assert await printed(guard, "echo", "found", env={"PATH": path}) == ["found"]

    run(main)


def test_a_guard_that_cannot_be_watched_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(24, "Too many open files")

    async def main() -> None:
        others = children_of(os.getpid())
        async with guarded() as guard:
            with monkeypatch.context() as patch:
                patch.setattr(os, "pidfd_open", refuse)
                with pytest.raises(NotSpawned, match="the guard cannot be started"):
                    await spawn(guard, "true")
            assert children_of(os.getpid()) == others
            assert await (await spawn(guard, "true")).exit == Ended(code=0)

    run(main)


# ── lineage ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_number_that_another_process_has_by_now_is_not_killed() -> None:
    with subprocess.Popen(SLEEP) as process:
        started = lineage.start(lineage.facts(process.pid))
        lineage.kill(process.pid, started - 1)
        assert alive(process.pid)
        lineage.kill(process.pid, started)
        assert process.wait() == -signal.SIGKILL
    lineage.kill(process.pid, started)


def test_descendants_are_found() -> None:
    with subprocess.Popen(["sh", "-c", "sh -c 'setsid sleep 1000 & wait' & wait"], process_group=0) as process:
        wait_until(lambda: any(map(is_asleep, below(process.pid))), "all are there")
        expected = below(process.pid)
        found = lineage.descendants(process.pid, lineage.children_of_all())
        assert sorted(found) == sorted(expected)
        for pid, started in found.items():
            lineage.kill(pid, started)
        process.kill()


def test_children_are_read_where_the_system_lists_them(folder: Path) -> None:
    for task, content in (("7", "12 13 "), ("8", ""), ("9", "14 ")):
        (folder / task).mkdir()
        (folder / task / "children").write_text(content)
    assert sorted(lineage.listed_children(str(folder))) == [12, 13, 14]
    assert lineage.listed_children(str(folder / "gone")) == []

"""The guard: nothing of a child outlives it, and nothing of the children outlives the supervisor."""

import asyncio
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
import uvloop

from interlock.model.work import Limits
from interlock.supervision.guard_client import Ended, NotSpawned, Program, Spawned
from interlock.supervision.lineage import MARKER, NOT_YET, marked
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, children_of, look, processes_of, wait_until
from tests.supervision.programs import (
    KIN,
    ROOT,
    SLEEP,
    all_gone,
    descent,
    gone,
    guarded,
    kin_of,
    open_descriptors,
    spawn,
)

__all__ = ["folder"]

Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(main, 60))

    return run_it


# ── how a process ends ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10")
def test_exit_codes_and_signals_are_reported(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            for code in (0, 3, 255):
                process = await spawn(guard, "sh", "-c", f"exit {code}")
                assert await process.exit == Ended(code=code)
            for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN):
                process = await spawn(guard, *SLEEP)
                guard.signal(process, number)
                assert await process.exit == Ended(signal=number)
                guard.signal(process, number)

    run(main())


@pytest.mark.behaviour("SUP-10")
def test_everything_that_a_child_started_is_gone_when_its_end_is_reported(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            for how in ("0", "7", "killed", "terminated"):
                (folder / how).mkdir()
                process = await spawn(guard, *descent(folder / how, how if how.isdigit() else ""))
                pids = await kin_of(folder / how, *KIN)
                if how == "killed":
                    os.kill(process.pid, signal.SIGKILL)
                elif how == "terminated":
                    guard.signal(process, signal.SIGTERM)
                ended = await process.exit
                assert gone(*pids)
                assert children_of(guard.pid or 0) == []
                assert ended.code == (int(how) if how.isdigit() else None)

    run(main())


def test_what_two_children_left_is_told_apart(run: Run, folder: Path) -> None:
    async def main() -> None:
        for name in ("one", "other"):
            (folder / name).mkdir()
        async with guarded() as guard:
            one = await spawn(guard, *descent(folder / "one"))
            other = await spawn(guard, *descent(folder / "other"))
            first, second = await kin_of(folder / "one", *KIN), await kin_of(folder / "other", *KIN)
            guard.signal(one, signal.SIGKILL)
            await one.exit
            assert gone(*first)
            assert all(map(alive, second))
            assert alive(other.pid)

    run(main())


def test_orphans_that_die_by_themselves_are_reaped(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            process = await spawn(guard, "sh", "-c", "for n in 1 2 3 4 5; do (sleep 0.01 &) ; done; exec sleep 1000")
            await until(lambda: _with_parent(guard.pid) == [process.pid], "there is no zombie")
            assert not process.exit.done()

    run(main())


def _with_parent(pid: int | None) -> list[int]:
    found = [look(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    return [one.pid for one in found if one is not None and one.parent == pid]


def test_what_cannot_be_told_whose_it_is_ends_with_the_guard(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            # Without another one it could be told.
            await spawn(guard, *SLEEP)
            process = await spawn(guard, *descent(folder, "nameless"))
            nameless = await kin_of(folder, "nameless", "nameless-child")
            pids = await kin_of(folder)
            guard.signal(process, signal.SIGKILL)
            await process.exit
            assert gone(*pids)
            assert all(map(alive, nameless))
        assert gone(*nameless)

    run(main())


# ── how the supervisor ends ─────────────────────────────────────────────────────────────────────────────────────────


def test_closing_ends_everything(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            process = await spawn(guard, *descent(folder), outlives=True)
            pids = await kin_of(folder)
        assert gone(*pids)
        assert process.exit.result() == Ended(signal=signal.SIGKILL)
        await guard.close()
        with pytest.raises(NotSpawned) as caught:
            await spawn(guard, "true")
        assert caught.value.stage == "guard"

    run(main())


def test_a_guard_that_is_closed_has_no_last_words(run: Run, folder: Path) -> None:
    async def main() -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.bind(str(folder / "engine"))
            engine.listen()
            engine.setblocking(False)
            async with guarded() as guard:
                guard.remember("one", str(folder / "engine"), b"DELETE /one HTTP/1.1\r\n\r\n")
            with pytest.raises(BlockingIOError):
                engine.accept()
        (folder / "engine").unlink()

    run(main())


class Owner:
    """A process with a guard and children, in a group of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.engine = socket.socket(socket.AF_UNIX)
        self.engine.bind(str(folder / "engine"))
        self.engine.listen()
        self.engine.settimeout(20)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.supervision.programs", str(folder), *options], cwd=ROOT, process_group=0
        )
        wait_until((folder / "told").exists, "the owner has its children")
        told = json.loads((folder / "told").read_text())
        self.guard: int = told["guard"]
        self.pids: list[int] = told["pids"]
        self.survivors: list[int] = told["survivors"]
        self.copy: int = told["copy"]
        assert all(map(alive, [self.guard, *self.pids, *self.survivors]))

    def asked(self) -> bytes:
        """What a container engine would have been asked."""
        connection, _ = self.engine.accept()
        with connection:
            return connection.recv(1024)

    def close(self, folder: Path) -> None:
        self.engine.close()
        (folder / "engine").unlink()
        for pid in self.survivors:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.copy:
            os.kill(self.copy, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("whole_group", [False, True], ids=["owner", "group"])
def test_nothing_survives_when_the_supervisor_is_killed(folder: Path, whole_group: bool) -> None:
    owner = Owner(folder)
    try:
        os.killpg(owner.process.pid, signal.SIGKILL) if whole_group else owner.process.kill()
        assert owner.process.wait() == -signal.SIGKILL
        all_gone(owner.pids)
        assert owner.asked() == b"DELETE /one HTTP/1.1\r\n\r\n"
        all_gone([owner.guard])
        owner.engine.settimeout(0)
        with pytest.raises(BlockingIOError):
            owner.asked()
    finally:
        owner.close(folder)


def test_a_copy_of_the_supervisor_keeps_nothing_alive(folder: Path) -> None:
    owner = Owner(folder, "forks")
    try:
        owner.process.kill()
        owner.process.wait()
        owner.asked()
        all_gone([*owner.pids, owner.guard])
        assert alive(owner.copy)
    finally:
        owner.close(folder)


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("options", [("stops",), ("stops", "forks")])
def test_what_it_was_asked_last_is_remembered_though_it_had_not_listened(folder: Path, options: list[str]) -> None:
    owner = Owner(folder, *options)
    try:
        owner.process.kill()
        owner.process.wait()
        os.kill(owner.guard, signal.SIGCONT)
        assert owner.asked() == b"DELETE /one HTTP/1.1\r\n\r\n"
        all_gone([*owner.pids, owner.guard])
    finally:
        owner.close(folder)


@pytest.mark.behaviour("SUP-10")
def test_it_closes_in_order_though_it_had_not_listened_while_its_supervisor_lived(folder: Path) -> None:
    owner = Owner(folder, "outliving", "closes")
    try:
        owner.process.kill()
        owner.process.wait()
        os.kill(owner.guard, signal.SIGCONT)
        all_gone([*owner.pids, *owner.survivors, owner.guard])
        owner.engine.settimeout(0)
        with pytest.raises(BlockingIOError):
            owner.asked()
    finally:
        owner.close(folder)


def test_a_child_that_outlives_its_supervisor_does_with_all_it_has_started(folder: Path) -> None:
    owner = Owner(folder, "outliving")
    try:
        owner.process.kill()
        owner.process.wait()
        owner.asked()
        all_gone([*owner.pids, owner.guard])
        assert all(map(alive, owner.survivors))
    finally:
        owner.close(folder)


def test_the_guard_and_other_children_hold_no_end_of_a_pipe(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            for inheritable in (True, False):
                reader, writer = os.pipe()
                os.set_inheritable(writer, inheritable)
                process = await spawn(guard, "true", descriptors={1: writer})
                await spawn(guard, *SLEEP)
                os.close(writer)
                await process.exit
                assert os.read(reader, 1) == b""
                os.close(reader)

    run(main())


@pytest.mark.behaviour("SUP-10")
def test_a_supervisor_below_another_one_leaves_nothing_either(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            command = (sys.executable, "-m", "tests.supervision.programs", str(folder), "outliving")
            owner = await spawn(guard, *command, cwd=str(ROOT))
            await until((folder / "told").exists, "the owner has its children")
            told = json.loads((folder / "told").read_text())
            os.kill(owner.pid, signal.SIGKILL)
            await owner.exit
            assert gone(told["guard"], *told["pids"], *told["survivors"])

    run(main())


@pytest.mark.behaviour("SUP-10")
def test_children_die_with_the_guard_though_nobody_is_there_to_kill_them(folder: Path) -> None:
    owner = Owner(folder)
    try:
        leader, *owner.survivors = owner.pids
        owner.process.send_signal(signal.SIGSTOP)
        os.kill(owner.guard, signal.SIGKILL)
        all_gone([leader])
    finally:
        owner.close(folder)


# ── how the guard ends ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10", "SUP-12")
def test_when_the_guard_is_killed_nothing_is_left_and_a_new_one_starts(run: Run, folder: Path) -> None:
    async def main() -> None:
        for name in ("one", "other"):
            (folder / name).mkdir()
        async with guarded() as guard:
            one = await spawn(guard, *descent(folder / "one"))
            other = await spawn(guard, *descent(folder / "other"), outlives=True)
            pids = await kin_of(folder / "one") + await kin_of(folder / "other")
            before = guard.pid or 0
            os.kill(before, signal.SIGKILL)
            await until(lambda: guard.pid is None, "the loss is noticed")
            again = await spawn(guard, *SLEEP)
            for process in (one, other):
                assert await process.exit == Ended(error="the guard process was killed by signal 9")
            assert gone(before, *pids)
            assert guard.pid != before
            assert alive(again.pid)
            assert not again.exit.done()

    run(main())


@pytest.mark.behaviour("SUP-10")
def test_when_the_guard_is_killed_no_process_sees_the_end_of_one_it_had_started(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            # The pids of parents and their children come in no order.
            begin = f"while [ ! -e {folder}/go ]; do sleep 0.01; done; sleep 1000 & : > {folder}/$$.begun"
            command = ("sh", "-c", f"{begin}; wait; : > {folder}/$$.noticed")
            processes = [await spawn(guard, *command, outlives=True) for _ in range(40)]
            (folder / "go").touch()
            await until(lambda: len(list(folder.glob("*.begun"))) == len(processes), "all have begun")
            os.kill(guard.pid or 0, signal.SIGKILL)
            for process in processes:
                assert await process.exit == Ended(error="the guard process was killed by signal 9")

    run(main())
    assert list(folder.glob("*.noticed")) == []


def test_a_guard_that_is_killed_while_it_starts_children_leaves_none(run: Run, folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            guard.open()
            command = ("sh", "-c", "sleep 1000; :", str(folder))
            spawning = [asyncio.ensure_future(spawn(guard, *command, outlives=True)) for _ in range(20)]
            # Some are there, and others are not.
            await asyncio.wait(spawning, return_when=asyncio.FIRST_COMPLETED)
            os.kill(guard.pid or 0, signal.SIGKILL)
            born = await asyncio.gather(*spawning, return_exceptions=True)
            failures = [one for one in born if isinstance(one, NotSpawned)]
            processes = [one for one in born if isinstance(one, Spawned)]
            assert len(failures) + len(processes) == 20
            assert {one.stage for one in failures} <= {"guard"}
            for process in processes:
                assert await process.exit == Ended(error="the guard process was killed by signal 9")
            assert not processes_of(folder)

    run(main())


def test_only_the_supervisor_can_end_the_guard(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            process = await spawn(guard, *SLEEP)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                os.kill(guard.pid or 0, number)
            assert os.getsid(guard.pid or 0) == guard.pid
            second = await spawn(guard, "true")
            assert await second.exit == Ended(code=0)
            assert not process.exit.done()

    run(main())


@pytest.mark.behaviour("SUP-12")
def test_a_report_of_a_process_that_nobody_has_any_more_is_ignored(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            old = await spawn(guard, "true")
            assert await old.exit == Ended(code=0)
            process = await spawn(guard, *SLEEP)
            for report in (("exited", old.number, 1, None), ("spawned", 999, 1), ("failed", 999, "command", 2)):
                guard.heard(report)
            assert old.exit.result() == Ended(code=0)
            assert not process.exit.done()

    run(main())


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10")
def test_two_hundred_children_leave_nothing(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            guard.open()
            first = await spawn(guard, "true")
            await first.exit
            here, there = open_descriptors(), open_descriptors(guard.pid or 0)
            processes = await asyncio.gather(*(spawn(guard, *SLEEP) for _ in range(200)))
            assert len({process.pid for process in processes}) == 200
            assert len(children_of(guard.pid or 0)) == 200
            assert (open_descriptors(), open_descriptors(guard.pid or 0)) == (here, there)
            for process in processes[:100]:
                guard.signal(process, signal.SIGTERM)
            for process in processes[100:]:
                os.kill(process.pid, signal.SIGKILL)
            ends = await asyncio.gather(*(process.exit for process in processes))
            assert ends == [Ended(signal=signal.SIGTERM)] * 100 + [Ended(signal=signal.SIGKILL)] * 100
            assert _with_parent(guard.pid) == []
            assert (open_descriptors(), open_descriptors(guard.pid or 0)) == (here, there)

    run(main())


def test_more_are_started_at_once_than_there_are_descriptors(run: Run) -> None:
    async def main() -> None:
        async with guarded() as guard:
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, limits[1]))
            try:
                with TemporaryFile() as file:
                    options: dict[str, Any] = {"descriptors": {1: file.fileno(), 2: file.fileno()}}
                    processes = await asyncio.gather(*(spawn(guard, "true", **options) for _ in range(150)))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert await asyncio.gather(*(process.exit for process in processes)) == [Ended(code=0)] * 150

    run(main())


def test_a_thousand_starts_leave_no_descriptor_in_the_guard(folder: Path) -> None:
    async def main() -> None:
        async with guarded() as guard:
            first = await spawn(guard, "true")
            await first.exit
            before = open_descriptors(guard.pid or 0)
            with (folder / "output").open("wb") as output:
                options: dict[str, Any] = {"descriptors": dict.fromkeys((1, 2, 9), output.fileno())}
                for _ in range(20):
                    some = await asyncio.gather(*(spawn(guard, "echo", **options) for _ in range(45)))
                    wrong = [spawn(guard, "nosuch", **options) for _ in range(5)]
                    failures = await asyncio.gather(*wrong, return_exceptions=True)
                    assert all(isinstance(one, NotSpawned) for one in failures)
                    assert await asyncio.gather(*(one.exit for one in some)) == [Ended(code=0)] * 45
            assert open_descriptors(guard.pid or 0) == before
            assert (folder / "output").read_bytes() == b"\n" * 900

    uvloop.run(asyncio.wait_for(main(), 60))


# ── starts that fail, and starts that are given up ──────────────────────────────────────────────────────────────────


def test_what_cannot_be_started_says_why(run: Run, folder: Path) -> None:
    script = folder / "script"
    script.write_text("#!/nosuch/interpreter\n")
    script.chmod(0o755)
    plain = folder / "plain"
    plain.write_text("echo\n")
    plain.chmod(0o755)
    wrong: list[tuple[str, int, tuple[str, ...], dict[str, Any]]] = [
        ("command", errno.ENOENT, ("nosuch",), {}),
        ("command", errno.ENOENT, (str(folder / "nosuch"),), {}),
        ("command", errno.EACCES, (str(folder),), {}),
        ("command", errno.ENOEXEC, (str(plain),), {}),
        ("interpreter", errno.ENOENT, (str(script),), {}),
        ("command", errno.E2BIG, ("true", "x" * 200_000), {}),
        ("command", errno.E2BIG, ("true", "x" * 9_000_000), {}),
        ("cwd", errno.ENOENT, ("true",), {"cwd": str(folder / "nosuch")}),
        ("cwd", errno.ENOTDIR, ("true",), {"cwd": str(plain)}),
        ("descriptors", errno.EBADF, ("true",), {"descriptors": {1: 999_999}}),
    ]
    if int(Path("/proc/sys/fs/nr_open").read_text()) < 10**9:
        wrong.append(("limits.files", errno.EPERM, ("true",), {"limits": Limits(files=10**9)}))

    async def main() -> None:
        async with guarded() as guard:
            for stage, number, command, options in wrong:
                with pytest.raises(NotSpawned) as caught:
                    await spawn(guard, *command, **options)
                assert (caught.value.stage, caught.value.number) == (stage, number)
            assert _with_parent(guard.pid) == []
            good = await spawn(guard, "true")
            assert await good.exit == Ended(code=0)

    run(main())


def test_a_start_that_is_cancelled_leaves_nothing(run: Run, folder: Path) -> None:
    async def main() -> None:
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
                assert _with_parent(guard.pid) == []
                assert [pid for pid in map(int, _numbers(folder)) if alive(pid)] == []

    run(main())


def _numbers(folder: Path) -> list[str]:
    return [path.read_text() or "0" for path in folder.iterdir()]


def test_starts_that_are_cancelled_before_they_are_sent_leave_nothing(run: Run) -> None:
    async def main() -> None:
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

    run(main())


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


def test_a_process_starts_with_a_clean_slate(run: Run) -> None:
    async def main() -> None:
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

    run(main())


def test_a_process_gets_no_descriptors_but_those_it_is_given(run: Run, folder: Path) -> None:
    async def main() -> None:
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

    run(main())


def test_large_environment_and_arguments_arrive(run: Run) -> None:
    async def main() -> None:
        environment = {f"NAME_{n}": "v" * 100_000 for n in range(5)}
        program = "import os, sys; print(len(os.environ['NAME_4']), [len(one) for one in sys.argv[1:]])"
        command = (sys.executable, "-I", "-S", "-c", program, *["a" * 100_000] * 3)
        assert await said(*command, environment=environment) == "100000 [100000, 100000, 100000]\n"

    run(main())


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


def test_marks_tell_of_every_guard_above(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setenv(MARKER, "outer.12")
        marks = (await said("printenv", MARKER)).strip().split("/")
        assert marks[0] == "outer.12"
        assert len(marks) == 2

    run(main())

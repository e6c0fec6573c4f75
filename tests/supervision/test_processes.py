"""A child that is a process: what it is started with, what it prints, how it ends, and that nothing is left of it."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import uvloop

from interlock.error import BadValue, CannotStart
from interlock.model.child_info import Exit
from interlock.model.work import Limits
from interlock.supervision import output
from interlock.supervision.guard_client import Guard
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.process import ProcessInstance
from interlock.supervision.spec import Process
from tests.helpers.places import folder, until
from tests.helpers.processes import alive, descriptors, look
from tests.supervision.conftest import Run, each_loop
from tests.supervision.programs import SLEEP, STUBBORN, descent, gone, guarded, kin_of

__all__ = ["folder"]

NOW = 1_700_000_000.0


class Child:
    """A process and what it has printed."""

    def __init__(self, guard: Guard, *command: str, previous: Exit | None = None, **options: Any) -> None:
        self.lines: list[tuple[str, str]] = []
        spec = Process(name="child", command=options.pop("make", command), **options)
        birth = Birth(path="shop/child", name="child", resume_id="the-id", previous=previous)
        self.instance = ProcessInstance(spec, birth, Surroundings(on_line=self._print, now=lambda: NOW, guard=guard))

    def _print(self, path: str, stream: str, line: str, at: float) -> None:
        assert (path, at) == ("shop/child", NOW)
        self.lines.append((stream, line))

    @property
    def said(self) -> list[str]:
        return [line for stream, line in self.lines if stream == "stdout"]

    async def prints(self, line: str) -> None:
        await until(lambda: line in self.said, f"it has printed {line!r}")


async def ran(*command: str, **options: Any) -> list[str]:
    """What a process prints that ends well."""
    async with guarded() as guard:
        child = Child(guard, *command, **options)
        await child.instance.start()
        assert await child.instance.ended == Exit(at=NOW, code=0)
        return child.said


# ── its end ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_its_real_end_is_known() -> None:
    ends = {
        "exit 0": Exit(at=NOW, code=0),
        "exit 3": Exit(at=NOW, code=3),
        "exit 255": Exit(at=NOW, code=255),
        "kill -SEGV $$": Exit(at=NOW, signal=signal.SIGSEGV),
    }
    async with guarded() as guard:
        for script, expected in ends.items():
            child = Child(guard, "sh", "-c", script)
            await child.instance.start()
            assert await child.instance.ended == expected
            assert not child.instance.forced


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_it_is_asked_to_end_first() -> None:
    async with guarded() as guard:
        script = "trap 'echo stopping; exit 4' TERM; echo ready; while :; do sleep 0.01; done"
        child = Child(guard, "sh", "-c", script)
        await child.instance.start()
        await child.prints("ready")
        await child.instance.stop(30)
        assert child.instance.ended.result() == Exit(at=NOW, code=4)
        assert child.said == ["ready", "stopping"]
        assert not child.instance.forced
        await child.instance.stop(30)


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_one_that_does_not_end_in_time_is_killed() -> None:
    async with guarded() as guard:
        child = Child(guard, *STUBBORN)
        await child.instance.start()
        await child.prints("ready")
        await child.instance.stop(0.05)
        assert child.instance.ended.result() == Exit(at=NOW, signal=signal.SIGKILL)
        assert child.instance.forced


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_stopping_can_be_cut_short() -> None:
    async with guarded() as guard:
        child = Child(guard, *STUBBORN)
        await child.instance.start()
        await child.prints("ready")
        stopping = asyncio.ensure_future(child.instance.stop(1000))
        await asyncio.sleep(0)
        child.instance.kill()
        await stopping
        assert child.instance.ended.result() == Exit(at=NOW, signal=signal.SIGKILL)
        assert child.instance.forced


@each_loop
async def test_one_that_is_killed_without_having_been_asked_was_not_forced() -> None:
    async with guarded() as guard:
        child = Child(guard, *SLEEP)
        starting = asyncio.ensure_future(child.instance.start())
        await asyncio.sleep(0)
        child.instance.kill()
        await starting
        assert await child.instance.ended == Exit(at=NOW, signal=signal.SIGKILL)
        child.instance.kill()
        assert not child.instance.forced


@pytest.mark.behaviour("SUP-10")
@pytest.mark.parametrize("stubborn", [False, True])
@each_loop
async def test_everything_it_has_started_is_gone_when_it_was_stopped(folder: Path, stubborn: bool) -> None:
    async with guarded() as guard:
        command = descent(folder)
        if stubborn:
            # Ignored signals stay so in what is executed, and in all that starts.
            command = ("sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *command)
        child = Child(guard, *command)
        await child.instance.start()
        pids = await kin_of(folder)
        await child.instance.stop(0.05 if stubborn else 30)
        assert gone(*pids)
        assert child.instance.forced == stubborn


@each_loop
async def test_what_has_got_away_with_its_output_delays_nobody(folder: Path) -> None:
    async with guarded() as guard:
        guard.open()
        # Without another one it could be told whose they are.
        other = Child(guard, *SLEEP, capture=False)
        await other.instance.start()
        before = descriptors()
        child = Child(guard, *descent(folder, "nameless"))
        await child.instance.start()
        nameless = await kin_of(folder, "nameless", "nameless-child")
        await kin_of(folder)
        await child.instance.stop(30)
        assert all(map(alive, nameless))
        assert descriptors() <= before
    assert gone(*nameless)


@each_loop
async def test_when_the_guard_is_killed_it_has_failed(folder: Path) -> None:
    async with guarded() as guard:
        child = Child(guard, *descent(folder))
        await child.instance.start()
        pids = await kin_of(folder)
        os.kill(guard.pid or 0, signal.SIGKILL)
        ended = await child.instance.ended
        assert ended == Exit(at=NOW, error="the guard process was killed by signal 9")
        assert not ended.ok
        assert gone(*pids)
        again = Child(guard, "true")
        await again.instance.start()
        assert (await again.instance.ended).ok


# ── suspending ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _state(pid: int) -> str:
    found = look(pid)
    return "" if found is None else found.state


@pytest.mark.behaviour("SUP-8")
@each_loop
async def test_it_is_suspended_with_what_it_started_and_resumed(folder: Path) -> None:
    async with guarded() as guard:
        child = Child(guard, *descent(folder))
        await child.instance.start()
        leader, member = await kin_of(folder, "leader", "group")
        assert child.instance.can_suspend
        await child.instance.suspend()
        await until(lambda: _state(leader) == _state(member) == "T", "it is suspended")
        await child.instance.resume()
        await until(lambda: _state(leader) == _state(member) == "S", "it goes on")


@pytest.mark.behaviour("SUP-10")
@each_loop
async def test_one_that_is_suspended_can_be_stopped() -> None:
    async with guarded() as guard:
        program = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(6)); print('ready', flush=True)"
        child = Child(guard, sys.executable, "-I", "-S", "-c", f"{program}\nwhile True: signal.pause()")
        await child.instance.start()
        await child.prints("ready")
        await child.instance.suspend()
        await until(lambda: _state(child.instance.pid or 0) == "T", "it is suspended")
        await child.instance.stop(30)
        assert child.instance.ended.result() == Exit(at=NOW, code=6)
        assert not child.instance.forced


# ── its beginning ───────────────────────────────────────────────────────────────────────────────────────────────────


@each_loop
async def test_why_it_cannot_be_started_is_said(folder: Path) -> None:
    script, plain = folder / "script", folder / "plain"
    script.write_text("#!/nosuch/interpreter\n")
    plain.write_text("echo\n")
    for path in (script, plain):
        path.chmod(0o755)
    listing = folder / "listing"
    listing.write_text("")

    def fail(birth: Birth) -> list[str]:
        raise LookupError(f"no port is free\nfor {birth.name}")

    wrong: list[tuple[str, dict[str, Any]]] = [
        (
            "command: 'nosuch' is not found in PATH ('/usr/bin:/bin'); give its whole path, or set PATH in env",
            {"command": ("nosuch",), "env": {"PATH": "/usr/bin:/bin"}},
        ),
        (f"command: '{listing}' is not executable", {"command": (str(listing),)}),
        (f"command: '{folder}' is not executable", {"command": (str(folder),)}),
        (f"command: '{plain}' is not a program", {"command": (str(plain),)}),
        (f"command: '{script}' needs an interpreter that is not found", {"command": (str(script),)}),
        ("command: 'true' has arguments, or variables, that are too long", {"command": ("true", "x" * 200_000)}),
        ("command: 'true' has arguments, or variables, that are too long", {"command": ("true", "x" * 9_000_000)}),
        ("command: LookupError: no port is free for child", {"command": fail}),
        ("command: '' is not the name of a program", {"command": lambda _: [""]}),
        ("command[1]: 'a\\x00b' is not text without a NUL character", {"command": lambda _: ["true", "a\0b"]}),
        (f"cwd: '{folder}/nosuch' is not found", {"command": ("true",), "cwd": f"{folder}/nosuch"}),
        (f"cwd: '{plain}' is not a folder", {"command": ("true",), "cwd": str(plain)}),
        ("limits.files: 1000000000 is more than", {"command": ("true",), "limits": Limits(files=10**9)}),
        ("pass_fds: (99999,) cannot be handed on (Bad file", {"command": ("true",), "pass_fds": (99_999,)}),
        ("command: 'utf-8' codec can't encode", {"command": ("true", "\ud800")}),
        ("has arguments, or variables, that are too long", {"command": ("true",), "env": {"NAME": "x" * 200_000}}),
    ]
    async with guarded() as guard:
        for why, options in wrong:
            child = Child(guard, make=options.pop("command"), **options)
            with pytest.raises(CannotStart) as caught:
                await child.instance.start()
            assert why in caught.value.why
            assert "\n" not in caught.value.why


def test_a_value_that_no_process_can_have_is_refused() -> None:
    for wrong in (
        {"command": ("a\0b",)},
        {"command": "sleep 1"},
        {"command": ()},
        {"cwd": "a\0b"},
        {"env": {"A": "\0"}},
    ):
        with pytest.raises(BadValue):
            Process(**{"name": "child", "command": ("true",), **wrong})  # type: ignore[arg-type]


@pytest.mark.behaviour("SUP-7")
@each_loop
async def test_it_is_told_who_it_is_and_how_its_last_life_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "from above")
    monkeypatch.setenv("UNWANTED", "from above")
    monkeypatch.setenv("INTERLOCK_PREV_SIGNAL", "11")
    monkeypatch.setenv("INTERLOCK_PREV_EXIT", "12")
    names = ("RESUME_ID", "PREV_EXIT", "PREV_SIGNAL")
    script = " ".join([f"echo ${{INTERLOCK_{name}-none}};" for name in names])
    script += "echo $INHERITED; echo ${UNWANTED-none}; echo $OWN"
    env = {"UNWANTED": None, "OWN": "grüße", "INTERLOCK_RESUME_ID": "forged"}
    ends = {("-1", "none"): None, ("3", "none"): Exit(at=1.0, code=3), ("-1", "9"): Exit(at=1.0, signal=9)}
    for told, previous in ends.items():
        found = await ran("sh", "-c", script, env=env, previous=previous)
        assert found == ["the-id", *told, "from above", "none", "grüße"]


@each_loop
async def test_its_command_may_be_made_for_each_life(folder: Path) -> None:
    made = lambda birth: ["sh", "-c", 'echo "$0 in $(pwd)"', birth.resume_id]  # noqa: E731
    assert await ran(make=made, cwd=str(folder)) == [f"the-id in {folder}"]


@each_loop
async def test_limits_hold() -> None:
    limits = Limits(files=50, memory=512 * 2**20, processes=5_000, cpu="2m")
    script = "ulimit -n; ulimit -v; ulimit -t; grep 'Max processes' /proc/self/limits"
    files, memory, cpu, processes = await ran("sh", "-c", script, limits=limits)
    assert (files, memory, cpu) == ("50", str(512 * 2**10), "120")
    assert processes.split()[2:4] == ["5000", "5000"]
    program = "try: bytes(10**9)\nexcept MemoryError: print('refused')"
    assert await ran(sys.executable, "-I", "-S", "-c", program, limits=Limits(memory=2**29)) == ["refused"]


def test_one_that_has_used_up_its_processor_time_is_killed() -> None:
    async def main() -> None:
        async with guarded() as guard:
            child = Child(guard, "sh", "-c", "while :; do :; done", limits=Limits(cpu=1))
            await child.instance.start()
            assert await child.instance.ended == Exit(at=NOW, signal=signal.SIGXCPU)

    uvloop.run(asyncio.wait_for(main(), 60))


@each_loop
async def test_it_gets_the_descriptors_it_is_to_have(folder: Path) -> None:
    with (folder / "file").open("w") as file:
        number = file.fileno()
        script = f"echo written > /proc/self/fd/{number}; echo printed"
        assert await ran("sh", "-c", script, pass_fds=(number,)) == ["printed"]
    assert (folder / "file").read_text() == "written\n"


# ── its output ──────────────────────────────────────────────────────────────────────────────────────────────────────


@each_loop
async def test_its_output_is_read_to_the_end_line_by_line() -> None:
    async with guarded() as guard:
        script = "printf 'one\\n\\377two\\r\\n'; printf 'wrong\\n' >&2; printf 'no end'"
        child = Child(guard, "sh", "-c", script)
        seen = list[str]()
        child.instance.on_line = seen.append
        await child.instance.start()
        await child.instance.ended
        assert child.said == ["one", "\ufffdtwo", "no end"]
        assert [line for line in child.lines if line[0] == "stderr"] == [("stderr", "wrong")]
        assert sorted(seen) == sorted(line for _, line in child.lines)


@each_loop
async def test_what_it_prints_last_is_heard_before_its_end() -> None:
    async with guarded() as guard:
        for _ in range(10):
            child = Child(guard, "sh", "-c", "seq 900; kill -9 $$")
            await child.instance.start()
            await child.instance.ended
            assert child.said == [str(number) for number in range(1, 901)]


@each_loop
async def test_what_it_prints_while_it_is_not_read_is_heard_before_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "READ_A_SECOND", 1)
    monkeypatch.setattr(output, "PERIOD", 1_000.0)
    async with guarded() as guard:
        child = Child(guard, "sh", "-c", f"echo one; until test -e {folder}/go; do sleep 0.01; done; echo two")
        await child.instance.start()
        await child.prints("one")
        (folder / "go").touch()
        await child.instance.ended
        assert child.said == ["one", "two"]


@each_loop
async def test_a_process_that_closes_its_output_lives_on() -> None:
    async with guarded() as guard:
        child = Child(guard, "sh", "-c", "echo bye; exec sleep 1000 >&- 2>&-")
        guard.open()
        before = descriptors()
        await child.instance.start()
        await until(lambda: descriptors() <= before, "the pipes are closed")
        assert child.said == ["bye"]
        assert not child.instance.ended.done()
        await child.instance.stop(30)


def test_output_that_is_not_captured_goes_where_the_supervisors_goes(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        assert await ran("sh", "-c", "echo out; echo err >&2", capture=False) == []

    run(main())
    assert tuple(capfd.readouterr()) == ("out\n", "err\n")

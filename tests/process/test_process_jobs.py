"""Jobs that are programs: what they are given, how they end, and that nothing is left of them."""

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from interlock.model.work import Limits, shell
from interlock.wire import message as m
from interlock.worker.program_attempt import ProgramFolder
from tests.helpers.places import until
from tests.helpers.processes import alive, children_of, look
from tests.process.stage import executing, program
from tests.supervision.programs import KIN, all_gone, descent, kin_of

pytestmark = pytest.mark.behaviour("EXE-2")

PYTHON = (sys.executable, "-I", "-S", "-c")
WAITS = "sleep 1000 & wait"
READS = "import hashlib, sys; data = sys.stdin.buffer.read(); print(len(data), hashlib.sha1(data).hexdigest())"
COMPLAINS = "import sys\nfor n in range(99): print(n, 'x' * 999, file=sys.stderr)\n1 / 0"
STUBBORN = "trap 'echo no' TERM; echo yes; while :; do sleep 1000 & wait; done"
LARGE = b'{"a": "' + b"a" * 2**20 + b'"}'
NEWLINE = b"\n"


# ── what it is given ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_program_gets_its_arguments_as_they_are(folder: Path) -> None:
    async with executing() as stage:
        end, lines = await stage.run(program("echo", "$HOME", "; exit 3", "*", ""))
        assert lines == ["$HOME ; exit 3 * "]
        assert (end.outcome, end.result, end.error, end.exit_code) == ("succeeded", b"null", None, 0)
        _, lines = await stage.run(program(*shell('echo "$((1 + 1)) in $(pwd)"'), cwd=str(folder)))
        assert lines == [f"2 in {folder}"]


async def test_the_environment_is_the_workers_and_the_jobs_and_says_which_run_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("INTERLOCK_URL", "INTERLOCK_TOKEN", "INTERLOCK_RESUME_ID", "INTERLOCK_PREV_SIGNAL", "NOTIFY_SOCKET"):
        monkeypatch.setenv(name, "the worker's own")
    monkeypatch.setenv("INTERLOCK_SOCKET", "/run/the.sock")
    monkeypatch.delenv("INTERLOCK_TEST_CONTAINERS", raising=False)
    monkeypatch.setenv("KEPT", "kept")
    monkeypatch.setenv("TAKEN_AWAY", "there")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    async with executing() as stage:
        env = {"TAKEN_AWAY": None, "ADDED": "a b\nc", "INTERLOCK_RUN_ID": "another"}
        _, lines = await stage.run(program(*PYTHON, code, env=env))
        given = json.loads(lines[0])
        assert {name: given[name] for name in ("KEPT", "ADDED", "PATH")} == {
            "KEPT": "kept", "ADDED": "a b\nc", "PATH": os.environ["PATH"],
        }  # fmt: skip
        assert {name: value for name, value in given.items() if name.startswith("INTERLOCK_")} == {
            "INTERLOCK_RUN_ID": "run-1",
            "INTERLOCK_JOB_ID": "job",
            "INTERLOCK_ATTEMPT": "2",
            "INTERLOCK_TENANT": "default",
            "INTERLOCK_PARENT": "/1/default/run-1",
            "INTERLOCK_SCHEDULED_AT": "2023-11-14T22:13:20Z",
            "INTERLOCK_SOCKET": "/run/the.sock",
            **{name: given[name] for name in ("INTERLOCK_CHILD", "INTERLOCK_PAYLOAD", "INTERLOCK_RESULT")},
        }
        assert not {"TAKEN_AWAY", "NOTIFY_SOCKET"} & set(given)


async def test_the_payload_is_a_line_on_stdin_unless_it_is_not_wanted() -> None:
    async with executing() as stage:
        for given in (b"{}", b'{"text": "\\n \xc3\xa4", "n": 1.50}', LARGE):
            _, lines = await stage.run(program(*PYTHON, READS), given)
            assert lines == [f"{len(given) + 1} {hashlib.sha1(given + NEWLINE).hexdigest()}"]
        assert (await stage.run(program("cat"), b'{\n "a":\n 1}'))[1] == ['{  "a":  1}']
        assert (await stage.run(program("cat", stdin=False), {"a": 1}))[1] == []


async def test_a_payload_that_is_not_read_does_no_harm() -> None:
    async with executing() as stage:
        for work in (program("true"), program(*shell("exec <&-; echo done")), program("head", "-c", "1")):
            end, _ = await stage.run(work, LARGE)
            assert (end.outcome, end.exit_code) == ("succeeded", 0)


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_exit_code_decides_and_the_last_words_are_the_error() -> None:
    async with executing() as stage:
        for code in (1, 3, 255):
            end, _ = await stage.run(program(*shell(f"exit {code}")))
            assert (end.outcome, end.exit_code) == ("failed", code)
            assert end.error == f"ended with exit code {code}"
        end, lines = await stage.run(program(*shell("echo out; echo one >&2; echo two >&2; exit 4")))
        assert end.error == "one\nended with exit code 4: two"
        assert sorted(lines) == ["one", "out", "two"]
        # Of much that was written the end is shown, and whole lines only.
        error = await stage.failure(program(*PYTHON, COMPLAINS))
        first, *_, last = error.splitlines()
        assert first == f"96 {'x' * 999}"
        assert last == "ended with exit code 1: ZeroDivisionError: division by zero"


async def test_one_that_is_killed_from_outside() -> None:
    async with executing() as stage:
        run_id = stage.begin(program(*shell(f"echo $$; {WAITS}")))
        (pid,) = map(int, await stage.printed(run_id))
        below = children_of(pid)
        os.kill(pid, signal.SIGKILL)
        end = await stage.end(run_id)
        assert end == m.Finished(run_id, 1, "failed", None, "was killed by SIGKILL", -9)
        assert not any(map(alive, below))
        end, _ = await stage.run(program(*shell("kill -SEGV $$")))
        assert (end.error, end.exit_code) == ("was killed by SIGSEGV", -signal.SIGSEGV)


@pytest.mark.parametrize("code", ["0", "7"])
async def test_nothing_is_left_of_one_that_forks_and_has_daemons(folder: Path, code: str) -> None:
    async with executing() as stage:
        end, _ = await stage.run(program(*descent(folder, code)))
        assert end.exit_code == int(code)
        all_gone(await kin_of(folder, *KIN))


@pytest.mark.behaviour("RUN-11")
async def test_one_that_is_asked_to_stop_gets_term_and_is_cancelled_however_it_ends() -> None:
    async with executing() as stage:
        for script, code in (("", -15), ("trap 'exit 0' TERM;", 0)):
            run_id = stage.begin(program(*shell(f"{script} echo ready; {WAITS}")))
            assert await stage.printed(run_id) == ["ready"]
            stage.ask(run_id)
            assert await stage.end(run_id) == m.Finished(run_id, 1, "cancelled", None, None, code)


@pytest.mark.behaviour("RUN-11")
async def test_one_that_is_suspended_or_ignores_term() -> None:
    async with executing() as stage:
        suspended = stage.begin(program(*shell("echo $$; exec sleep 1000")))
        (pid,) = map(int, await stage.printed(suspended))
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: (found := look(pid)) is not None and found.state == "T", "it is suspended")
        stage.ask(suspended)
        assert await stage.end(suspended) == m.Finished(suspended, 1, "cancelled", None, None, -15)
        stubborn = stage.begin(program(*shell(STUBBORN)))
        await stage.printed(stubborn)
        assert not stage.ask(stubborn), "there is nothing between TERM and KILL"
        await until(lambda: stage.lines(stubborn) == ["yes", "no"], "it has refused")
        stage.ask(stubborn)
        await until(lambda: stage.lines(stubborn) == ["yes", "no", "no"], "it has refused again")
        stage.kill(stubborn)
        assert await stage.end(stubborn) == m.Finished(stubborn, 1, "cancelled", None, None, -9)


@pytest.mark.behaviour("RUN-10")
async def test_one_that_is_asked_to_stop_before_it_runs(folder: Path) -> None:
    async with executing() as stage:
        first = stage.begin(program("touch", str(folder / "first")))
        stage.ask(first)
        assert await stage.end(first) == m.Finished(first, 1, "cancelled")
        assert not (folder / "first").exists()
        second = stage.begin(program("sleep", "1000"))
        # Its start is under way now.
        await stage.run(program("true"))
        stage.ask(second)
        end = await stage.end(second)
        assert isinstance(end, m.Finished)
        assert end.outcome == "cancelled"
        for run_id in (second, "nobody"):
            stage.ask(run_id)
            stage.kill(run_id)


async def test_what_runs_when_all_is_closed_is_said_to_be_lost() -> None:
    async with executing() as stage:
        run_id = stage.begin(program("sleep", "1000"))
        await stage.started(run_id)
    end = await stage.end(run_id)
    assert end == m.Lost(run_id, 1, "its process was killed by SIGKILL", -9)


async def test_a_guard_that_is_killed_takes_its_processes_along_and_there_is_another() -> None:
    async with executing() as stage:
        run_id = stage.begin(program(*shell(f"echo $$; {WAITS}")))
        (pid,) = map(int, await stage.printed(run_id))
        guard = look(pid)
        assert guard is not None
        os.kill(guard.parent, signal.SIGKILL)
        end = await stage.end(run_id)
        assert end == m.Lost(run_id, 1, "the guard process was killed by signal 9")
        assert not alive(pid)
        assert (await stage.run(program("echo", "again")))[1] == ["again"]


# ── what cannot be started ──────────────────────────────────────────────────────────────────────────────────────────


async def test_what_cannot_be_started_says_why(folder: Path) -> None:
    cases = [
        (program("./none", cwd=str(folder)), f"command: './none' is not found in '{folder}'"),
        (program(), "command: () is not a list of program and arguments"),
        (program("true", "a\0b"), "command[1]: 'a\\x00b' is not"),
        (program("true", env={"a=b": "c"}), "env: 'a=…' is not the name of a variable"),
    ]
    async with executing() as stage:
        for work, why in cases:
            end, lines = await stage.run(work)
            assert (end.outcome, end.exit_code, lines) == ("failed", None, [])
            assert (end.error or "").startswith(why)
        assert (await stage.run(program("echo", "fine")))[1] == ["fine"]


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_memory_processor_time_and_files_are_limited() -> None:
    async with executing() as stage:
        burning = stage.begin(program(*PYTHON, "while True: pass", limits=Limits(cpu=1)))
        in_shell = stage.begin(program(*shell("(while :; do :; done); exit $?"), limits=Limits(cpu=1)))
        error = await stage.failure(program(*PYTHON, "bytes(10**9)", limits=Limits(memory=2**29)))
        assert error.splitlines()[-1] == "ended with exit code 1: MemoryError"
        limits = Limits(files=50, memory=2**29, processes=5_000, cpu=120)
        _, lines = await stage.run(program(*shell("ulimit -n; ulimit -v; ulimit -t"), limits=limits))
        assert lines == ["50", str(2**19), "120"]
        for run_id, code in ((burning, -24), (in_shell, 152)):
            why = "used up its 1s of processor time (limits.cpu)"
            end = await stage.end(run_id)
            assert isinstance(end, m.Finished)
            assert (end.outcome, end.exit_code) == ("failed", code)
            assert str(end.error).startswith(why)


@pytest.mark.behaviour("EXE-9")
def test_a_folder_of_programs_that_somebody_has_removed_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = ProgramFolder()
    folder.add(b"1")
    (made,) = tmp_path.iterdir()
    shutil.rmtree(made)
    assert Path(str(folder.add(b"2").variables["INTERLOCK_PAYLOAD"])).read_bytes() == b"2"
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.behaviour("EXE-9")
@pytest.mark.parametrize(
    ("script", "outcome", "result", "error"),
    [
        ("true", "succeeded", b"null", None),
        ('rm "$INTERLOCK_RESULT"', "succeeded", b"null", None),
        ('cat "$INTERLOCK_PAYLOAD" > "$INTERLOCK_RESULT"', "succeeded", b'{"a": [1, "x"]}', None),
        ('echo nonsense > "$INTERLOCK_RESULT"', "failed_fatal", None, "it has 9 bytes, of 1,048,576 that are allowed"),
        (
            'head -c 1048577 /dev/zero > "$INTERLOCK_RESULT"',
            "failed_fatal",
            None,
            "the result has 1,048,577 bytes; the limit is 1,048,576",
        ),
        ('rm "$INTERLOCK_RESULT"; ln -s /etc/passwd "$INTERLOCK_RESULT"', "failed_fatal", None, "cannot be read"),
        (
            'rm "$INTERLOCK_RESULT"; mkdir "$INTERLOCK_RESULT"',
            "failed_fatal",
            None,
            "cannot be read: not a regular file",
        ),
        ('echo 1 > "$INTERLOCK_RESULT"; exit 3', "failed", None, "exit code 3"),
    ],
)
async def test_a_program_writes_its_result_into_a_file(
    script: str, outcome: str, result: bytes | None, error: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "interlock-programs-killed" / "run"
    kept.mkdir(parents=True)
    async with executing() as stage:
        modes = 'stat -c %a "$INTERLOCK_PAYLOAD" "$INTERLOCK_RESULT"; '
        end, lines = await stage.run(program("sh", "-c", modes + script), {"a": [1, "x"]})
        assert (str(end.outcome), lines[:2]) == (outcome, ["600", "600"])
        assert (None if end.result is None else end.result.strip()) == result
        assert (error or "") in (end.error or "")
    assert os.listdir(tmp_path) == [], "nothing is left, not even of a worker that was killed"

"""What programs print, as the log of their runs."""

import sys
from pathlib import Path

import pytest

from interlock.fields.secret import MASK
from interlock.model.work import shell
from interlock.worker.context import MOST_LINES
from tests.helpers.places import tell_to_go, until
from tests.process.stage import executing, program

PYTHON = (sys.executable, "-I", "-S", "-u", "-c")
WRITES = r"""
import sys
sys.stdout.buffer.write(b"\xff\xfe ok \xc3\xa4\n\x1b[31mred\x1b[0m\n" + b"x" * 20_000 + b"\nno end \xe2\x82")
"""


@pytest.mark.behaviour("EXE-2", "RUN-20")
async def test_both_streams_are_the_log_and_it_is_there_while_it_runs(folder: Path) -> None:
    script = 'echo one; echo two >&2; while [ ! -e "$1" ]; do sleep 0.01; done; printf three'
    async with executing() as stage:
        run_id = stage.begin(program(*shell(script), "sh", str(folder / "a.go")))
        await until(lambda: sorted(stage.lines(run_id)) == ["one", "two"], "the first lines are there")
        tell_to_go(folder, "a")
        await stage.end(run_id)
        assert stage.lines(run_id, "stdout") == ["one", "three"]
        assert stage.lines(run_id, "stderr") == ["two"]


@pytest.mark.behaviour("EXE-2")
async def test_what_is_no_text_is_made_one() -> None:
    async with executing() as stage:
        end, lines = await stage.run(program(*PYTHON, WRITES))
        assert end.outcome == "succeeded"
        assert lines == ["\ufffd\ufffd ok ä", "red", "x" * 16_384 + "… (cut)", "no end \ufffd"]


@pytest.mark.behaviour("EXE-2")
async def test_a_log_that_is_too_long_is_cut_and_the_program_goes_on() -> None:
    """Every line up to the bound is sent in its order, then one that says that there are no more."""
    async with executing() as stage:
        end, lines = await stage.run(program("seq", str(MOST_LINES + 50_000)))
        assert (end.outcome, end.exit_code) == ("succeeded", 0)
        assert lines[:MOST_LINES] == [str(number + 1) for number in range(MOST_LINES)]
        cut, left_out = lines[MOST_LINES:]
        assert "100,000 lines or 16 MiB" in cut
        assert "50,000" in left_out


@pytest.mark.behaviour("EXE-2", "SEC-5")
async def test_secrets_of_the_payload_and_of_variables_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", "of-the-worker")
    monkeypatch.setenv("TOKENS_IN_USE", "true")
    payload = b'{"password": "from-name", "plain": {"$secret": "from-mark"}, "user": "somebody"}'
    script = 'read given; echo "$given"; env | grep -E "TOKEN|KEY"; echo "$given is wrong" >&2; exit 1'
    env = {"API_KEY": "of-the-job", "KEYS": "open"}
    async with executing() as stage:
        run_id = stage.begin(program(*shell(script), env=env), payload)
        end = await stage.end(run_id)
        line, *variables = stage.lines(run_id, "stdout")
        # The program itself gets them as they are, without their mark.
        assert line == f'{{"password":"{MASK}","plain":"{MASK}","user":"somebody"}}'
        expected = [f"API_KEY={MASK}", "KEYS=open", f"SITE_TOKEN={MASK}", "TOKENS_IN_USE=true"]
        assert sorted(variables) == expected
        assert stage.lines(run_id, "stderr") == [f"{line} is wrong"]
        assert getattr(end, "error", "") == f"ended with exit code 1: {line} is wrong"
        missing = await stage.failure(program("of-the-job", env=env))
        assert missing.startswith(f"command: '{MASK}' is not found in PATH (")

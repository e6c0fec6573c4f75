"""Jobs that name a function: it is loaded by the executor process when it is first needed, and harms nobody else."""

from pathlib import Path

import pytest

from interlock.fields.secret import MASK
from interlock.model.work import FunctionWork
from interlock.wire import message as m
from tests.helpers.places import lines_of, tell_to_go, until
from tests.process.stage import executing, program

JOBS = """
import os
from asyncio import sleep

import interlock as il

with open(os.path.dirname(__file__) + "/loaded", "a") as file:
    file.write(__name__ + "\\n")

class Jobs:
    @staticmethod
    def nested(): return "nested"

def add(left: int, right: int = 1): return [left + right, os.getpid()]

async def wait(ctx: il.Context, name: str):
    ctx.log(f"{name} begins")
    while not os.path.exists(f"{os.path.dirname(__file__)}/{name}.go"):
        await sleep(0.01)
    return [ctx.run_id, ctx.job_id, ctx.attempt]

def fail(password: il.Secret, word: il.Secret): raise ValueError(f"{password.reveal()} and {word.reveal()}")

def generator(): yield 1

number = 5
"""
HANGS = """
import os, time
open(os.path.dirname(__file__) + "/hanging", "w").close()
while not os.path.exists(os.path.dirname(__file__) + "/hang.go"): time.sleep(0.01)
def job(): return "at last"
async def other(): return "at last, too"
"""


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with functions, from which workers import."""
    (folder / "work.py").write_text(JOBS)
    (folder / "hangs.py").write_text(HANGS)
    (folder / "raises.py").write_text("1 / 0\n")
    (folder / "exits.py").write_text("raise SystemExit(3)\n")
    (folder / "odd.py").write_text("def __getattr__(name): raise RuntimeError('not today')\n")
    monkeypatch.chdir(folder)
    return folder


def function(name: str) -> FunctionWork:
    return FunctionWork(function=name)


async def test_functions_of_modules_and_of_files_are_run_like_handlers(place: Path) -> None:
    async with executing() as stage:
        end, _ = await stage.run(function("work:add"), {"left": 2})
        assert (end.outcome, (end.result or b"")[:3]) == ("succeeded", b"[3,")
        for name in ("work.py:add", f"{place}/work.py:add", "./work.py:add"):
            again, _ = await stage.run(function(name), {"left": 2})
            assert again.result == end.result, "in the same process"
        nested, _ = await stage.run(function("work.py:Jobs.nested"))
        assert nested.result == b'"nested"'
        first, second = (stage.begin(function("work:wait"), {"name": name}) for name in ("a", "b"))
        for name, run_id in (("b", second), ("a", first)):
            assert await stage.printed(run_id) == [f"{name} begins"]
            tell_to_go(place, name)
            ended = await stage.end(run_id)
            assert isinstance(ended, m.Finished)
            assert ended.result == f'["{run_id}","job",2]'.encode()
        # As a module, and as a file: each once.
        assert lines_of(place / "loaded") == ["work", "__interlock_main__"]
        assert await stage.failure(function("work:add"), {"left": "x"}) != ""


@pytest.mark.behaviour("TIM-17")
async def test_what_cannot_be_loaded_fails_and_says_why(place: Path) -> None:
    cases = {
        "nowhere:job": "ModuleNotFoundError: No module named 'nowhere'",
        "nowhere.py:job": "nowhere.py",
        "work:nobody": "'nobody'",
        "raises:job": "ZeroDivisionError: division by zero",
        "raises.py:job": "ZeroDivisionError: division by zero",
        "exits:job": "SystemExit: 3",
        "work:number": "5",
        "work:generator": "work.generator",
    }
    async with executing() as stage:
        for name, why in cases.items():
            failure = await stage.failure(function(name))
            assert name in failure
            assert why in failure.partition(name)[2]
        assert (await stage.failure(function("odd:job"))).splitlines()[-1] == "RuntimeError: not today"
        (place / "nowhere.py").write_text("def job(): return 1\n")
        for name in ("nowhere:job", "nowhere.py:job"):
            end, _ = await stage.run(function(name))
            assert end.result == b"1", "it is tried anew"


@pytest.mark.behaviour("TIM-17")
async def test_an_import_that_hangs_delays_nobody_else(place: Path) -> None:
    async with executing() as stage:
        hanging = [stage.begin(function(name)) for name in ("hangs:job", "hangs:other", "hangs.py:job")]
        stopped = stage.begin(function("hangs:other"))
        for run_id in (*hanging, stopped):
            await stage.started(run_id)
        await until(lambda: (place / "hanging").exists(), "it hangs")
        end, _ = await stage.run(function("work:add"), {"left": 2})
        assert end.outcome == "succeeded"
        for other in (function("work.py:Jobs.nested"), program("true")):
            assert (await stage.run(other))[0].outcome == "succeeded"
        stage.ask(stopped)
        assert not any(isinstance(one, m.Finished) for run_id in hanging for one in stage.of(run_id))
        tell_to_go(place, "hang")
        results = [getattr(await stage.end(run_id), "result", None) for run_id in hanging]
        assert results == [b'"at last"', b'"at last, too"', b'"at last"']
        assert await stage.end(stopped) == m.Finished(stopped, 1, "cancelled")


@pytest.mark.behaviour("TIM-17", "RUN-11")
async def test_an_import_that_hangs_is_ended_by_force_and_others_are_given_back(place: Path) -> None:
    async with executing() as stage:
        hanging = stage.begin(function("hangs:job"))
        await stage.started(hanging)
        other = stage.begin(function("work:wait"), {"name": "a"})
        await stage.printed(other)
        stage.kill(hanging)
        end = await stage.end(hanging)
        assert end == m.Lost(hanging, 1, "its process was killed by SIGKILL", -9)
        assert isinstance(await stage.end(other), m.Returned)
        assert (await stage.run(function("work:add"), {"left": 2}))[0].outcome == "succeeded"


async def test_what_it_takes_as_a_secret_is_left_out_of_its_error(place: Path) -> None:
    async with executing() as stage:
        for _ in range(2):  # loaded, and known already
            error = await stage.failure(function("work:fail"), {"password": "my-first", "word": "my-second"})
            assert error.splitlines()[-1] == f"ValueError: {MASK} and {MASK}"

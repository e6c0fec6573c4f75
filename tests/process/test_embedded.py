"""A scheduler that is part of a program."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until, until_running
from tests.helpers.processes import processes_of
from tests.helpers.server import environment


async def test_a_program_that_blocks_does_not_stop_the_scheduler(folder: Path) -> None:
    async with app.running(str(folder / "interlock.db")):
        runs = await app.submit_many([("count", {"folder": str(folder)})] * 10)
        while len(lines_of(folder / "executions")) < 10:
            os.sched_yield()
        assert [await run.result(30) for run in runs] == [1] * 10


async def test_nothing_is_kept_in_memory(folder: Path) -> None:
    async with app.running(":memory:", socket=str(folder / "s")):
        run = await app.submit("flaky", {"failures": 1})
        assert await run.result(30) == 2
        assert len(await run.history()) == 12
    assert os.listdir(folder) == []


def test_an_explicit_socket_wins_over_the_environment(folder: Path) -> None:
    """A program that embeds its own scheduler must reach that one, whatever it was told by its surroundings."""
    script = folder / "program.py"
    script.write_text(
        "import asyncio\n"
        "from tests.helpers.jobs import app\n"
        "async def main():\n"
        "    async with app.running('own.db'):\n"
        "        print(await (await app.submit('add', {'left': 1})).result(30))\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment(INTERLOCK_SOCKET=str(folder / "elsewhere.sock")),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("2\n", "", 0)


def test_a_script_can_define_and_run_its_jobs_in_one_file(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        "import asyncio\n"
        "import interlock as il\n"
        "app = il.App()\n"
        "@app.job('double')\n"
        "def double(number: int) -> int:\n"
        "    return 2 * number\n"
        "async def main():\n"
        "    async with app.running('own.db'):\n"
        "        print(await (await app.submit('double', {'number': 21})).result(30))\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment(), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr, ended.returncode) == ("42\n", "", 0)


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize("limit", [1, 3])
async def test_a_lane_bounds_what_executes_at_once(folder: Path, limit: int) -> None:
    async with app.running(str(folder / "interlock.db"), lanes={"main": limit, "other": 1}):
        names = [f"run-{number}" for number in range(5)]
        runs = await app.submit_many([("hold", {"folder": str(folder), "name": name}) for name in names])
        for place, name in enumerate(names):
            await until(lambda name=name: lines_of(folder / f"{name}.started"), f"{name} has started")  # type: ignore[misc] # the default binds the name
            await until(
                lambda place=place: (
                    sum(1 for one in names if lines_of(folder / f"{one}.started"))  # type: ignore[misc] # as above
                    == min(place + limit, 5)
                ),
                "as many as the lane allows have started",
            )
            beside = await app.submit("echo", {"value": place}, lane="other")
            assert await beside.result(30) == place
            for run in runs[place : place + limit]:
                await until_running(run)
            states = [await run.state() for run in runs]
            assert states.count(il.State.RUNNING) == min(limit, 5 - place)
            tell_to_go(folder, name)
            await runs[place].result(30)


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"colour": "blue"}, "bad_value", "colour"),
        ({"workers": -1}, "bad_value", "workers: -1"),
        ({"workers": 1.5}, "bad_value", "workers: 1.5"),
        ({"slots": 0}, "bad_value", "slots: 0"),
        ({"heartbeat": 0}, "bad_value", "heartbeat: 0"),
        ({"heartbeat": "often"}, "bad_duration", "heartbeat: 'often'"),
        ({"drain": "later"}, "bad_duration", "drain: 'later'"),
        ({"lanes": {"main": 0}}, "bad_value", "main"),
        ({"memory_limit": -5}, "bad_value", "memory_limit: -5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(folder: Path, settings: dict[str, Any], code: str, says: str) -> None:
    async def body() -> il.InterlockError:
        with pytest.raises(il.InterlockError) as caught:
            async with app.running(str(folder / "interlock.db"), **settings):
                pass
        return caught.value

    error = run_async(body())
    assert error.code == code
    assert says in str(error)
    assert os.listdir(folder) == []


def test_an_error_in_the_block_stops_everything_and_comes_out(folder: Path) -> None:
    async def body() -> None:
        async with app.running(str(folder / "interlock.db")):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_async(body())
    assert processes_of(folder) == []

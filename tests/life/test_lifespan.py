"""The lifespan of an app: entered in each executor process before its first attempt, left at its orderly end, and tried
again when it cannot start."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from interlock import App
from interlock.error import BadHandler, BadUse
from interlock.model.state import State
from tests.helpers.processes import wait_until
from tests.life.place import Place

pytestmark = pytest.mark.behaviour("EXE-8")

APP = """
import asyncio, os, pathlib, time
import interlock as il

app = il.App()
HERE = pathlib.Path(__file__).parent

def note(what):
    with open(HERE / "notes", "a") as file:
        file.write(f"{what} {os.getpid()}\\n")

class Pool:
    def __init__(self):
        self.pid, self.uses, self.loop = os.getpid(), 0, asyncio.get_running_loop()

@app.lifespan
async def life(own):
    assert own is app
    if (HERE / "die").exists():
        os._exit(9)
    if (HERE / "raise").exists():
        raise RuntimeError("no database")
    if (HERE / "hang").exists():
        await asyncio.sleep(3600)
    if (HERE / "block").exists():
        time.sleep(3600)
    note("enter")
    yield Pool()
    note("leave")
    if (HERE / "fail-at-end").exists():
        raise RuntimeError("cannot close")

@app.job("use")
async def use(ctx: il.Context) -> list[int]:
    assert ctx.state.loop is asyncio.get_running_loop()
    ctx.state.uses += 1
    return [ctx.state.pid, os.getpid(), ctx.state.uses]

@app.job("blocking")
def blocking(ctx: il.Context) -> list[int]:
    return [ctx.state.pid, os.getpid()]

@app.job("apart", processes=True)
def apart(ctx: il.Context) -> list[int]:
    return [ctx.state.pid, os.getpid()]

@app.job("die", max_crashes=0)
async def die() -> None:
    os.kill(os.getpid(), 9)
"""

TALKATIVE = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
import interlock as il

app = il.App()
pool = ThreadPoolExecutor(1)

@app.lifespan
async def life():
    print("of the start")
    state = SimpleNamespace(asked=asyncio.Event(), answered=asyncio.Event())
    async def answer():
        await state.asked.wait()
        await asyncio.wrap_future(pool.submit(print, "of the life"))
        state.answered.set()
    task = asyncio.create_task(answer())
    yield state

@app.job("talk")
async def talk(ctx: il.Context) -> None:
    await asyncio.wrap_future(pool.submit(print, "of the attempt"))
    ctx.state.asked.set()
    await ctx.state.answered.wait()

@app.job("apart", processes=True)
def apart() -> None:
    print("of its own process")
"""


def place_in(folder: Path, *options: str) -> Place:
    return Place(folder, {"jobs.py": APP}, *options)


def notes(place: Place, what: str) -> list[int]:
    file = place.folder / "notes"
    lines = file.read_text().splitlines() if file.exists() else []
    return [int(line.split()[1]) for line in lines if line.startswith(what)]


def test_every_process_has_a_life_of_its_own(folder: Path) -> None:
    place = place_in(folder, "--processes", "1")
    with place:
        first, second = place.run("use"), place.run("use")
        assert first[0] == first[1] == second[0] == second[1]
        assert second[2] == 2, "it is the same value for every attempt"
        assert place.run("blocking") == first[:2]
        own, same = place.run("apart")
        assert own == same != first[0]
        assert notes(place, "enter") == [first[0], own]
        assert notes(place, "leave") == []
    # The worker has left in order, and so has every process of it.
    assert Counter(notes(place, "leave")) == Counter(notes(place, "enter"))


@pytest.mark.behaviour("EXE-7")
def test_the_output_of_a_lifespan_belongs_to_no_attempt(folder: Path) -> None:
    """Even in a thread that an attempt started, which has not ended yet."""
    place = Place(folder, {"jobs.py": TALKATIVE})
    with place:
        for job, text in (("talk", "of the attempt"), ("apart", "of its own process")):
            run = place.client.submit(job)
            run.result(timeout=30)
            assert [(line.logger, line.text) for line in run.logs()] == [("stdout", text)]
    assert place.server.said.count("of the start") == 2
    assert place.server.said.count("of the life") == 1


def test_a_process_that_dies_is_replaced_by_one_with_a_new_life(folder: Path) -> None:
    place = place_in(folder)
    with place:
        before = place.run("use")[0]
        assert place.client.submit("die").wait(timeout=30) is State.ORPHANED
        after = place.run("use")
        assert after[0] == after[1] != before
        assert after[2] == 1
    assert notes(place, "leave") == [after[0]]


@pytest.mark.parametrize(
    ("how", "told", "where"),
    [
        ("raise", "RuntimeError: no database", "raise RuntimeError"),
        ("hang", "lifespan_timeout", "await asyncio.sleep(3600)"),
        ("block", "lifespan_timeout", "time.sleep(3600)"),
    ],
)
def test_a_failing_start_is_shown_and_tried_again(folder: Path, how: str, told: str, where: str) -> None:
    place = place_in(folder, "--lifespan-timeout", "300ms")
    (folder / how).touch()
    with place:
        run = place.client.submit("use")
        wait_until(lambda: told in place.worker()["reason"], "the tree says why")
        wait_until(lambda: place.worker()["restarts"] >= 2, "it is tried again")
        worker = place.worker()
        assert where in worker["traceback"]
        assert where in place.server.said
        shown = place.ask("show", run.id)
        assert shown["run"]["state"] == "scheduled"
        assert told in shown["waits_for"]
        checks = place.ask("doctor")["checks"]
        assert [told in one["detail"] for one in checks if one["name"] == "workers"] == [True]
        (folder / how).unlink()
        assert run.result(timeout=60)[2] == 1
        assert (place.worker()["reason"], place.worker()["traceback"]) == ("", "")


@pytest.mark.parametrize(("how", "told"), [("raise", "no database"), ("die", "exit code 9")])
def test_a_later_process_that_cannot_start_returns_its_attempt_uncounted(folder: Path, how: str, told: str) -> None:
    place = place_in(folder)
    with place:
        place.run("use")
        (folder / how).touch()
        run, stopped = place.client.submit("apart"), place.client.submit("apart")
        wait_until(lambda: told in place.worker()["reason"], "the tree says why")
        wait_until(lambda: run.info().attempt >= 2, "it is tried again")
        assert stopped.cancel() is not None
        assert stopped.wait(timeout=30) is State.CANCELLED
        assert place.run("use")[2] >= 2, "the shared process is not affected"
        (folder / how).unlink()
        own, same = run.result(timeout=60)
        assert own == same
        ended = run.info()
        assert (ended.failures, ended.crashes) == (0, 0)
        wait_until(lambda: place.worker()["reason"] == "", "the fault is gone from the tree")


def test_a_bad_end_is_logged_and_harms_nothing(folder: Path) -> None:
    place = place_in(folder)
    with place:
        place.run("use")
        (folder / "fail-at-end").touch()
        assert place.server.stop() == 0
    assert "RuntimeError: cannot close" in place.server.said
    assert len(notes(place, "leave")) == 1


def test_a_worker_that_is_ended_while_its_lifespan_hangs_leaves_nothing(folder: Path) -> None:
    place = place_in(folder)
    (folder / "block").touch()
    with place:
        wait_until(place.server.own_workers, "there is a worker")
        place.server.send(signal.SIGINT)
        assert place.server.ended() == 0


async def _coroutine() -> None: ...


def _generator() -> object:
    yield


async def _two(one: object, two: object) -> object:
    yield


@pytest.mark.parametrize("function", [_coroutine, _generator, _two, 7])
def test_a_function_that_cannot_be_a_lifespan_is_refused(function: object) -> None:
    with pytest.raises(BadHandler) as refused:
        App().lifespan(function)  # type: ignore[type-var] # that is the point
    assert str(refused.value).startswith("lifespan: ")


def test_an_app_has_one_lifespan() -> None:
    app = App()

    @app.lifespan
    async def first():  # type: ignore[no-untyped-def] # as users write it
        yield 1

    with pytest.raises(BadUse):
        app.lifespan(first)

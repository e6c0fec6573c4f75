"""Changed sources: `interlock up --dev`, `reload`, and workers with other code than the scheduler."""

import os
import signal
from pathlib import Path

import pytest

from interlock.error import UnknownJob
from tests.helpers.processes import wait_until
from tests.helpers.server import interlock
from tests.life.place import Place

APP = """
import asyncio
import interlock as il
import helper

app = il.App()

@app.job("answer")
async def answer() -> int:
    return 1 + helper.MORE

@app.job("long")
async def long() -> int:
    await asyncio.sleep(600)
"""


def place_in(folder: Path, *options: str) -> Place:
    return Place(folder, {"jobs.py": APP, "helper.py": "MORE = 0\n"}, *options)


def other_code(place: Place, job: str) -> list[str]:
    found: list[str] = {one["id"]: one for one in place.ask("jobs")["jobs"]}[job]["other_code"]
    return found


def test_workers_restart_whenever_a_source_changes(folder: Path) -> None:
    place = place_in(folder, "--dev")
    with place:
        assert place.run("answer") == 1
        place.write("helper.py", "MORE = 1\n")
        wait_until(lambda: place.run("answer") == 2, "a change of another module is seen")
        place.write("jobs.py", APP.replace("1 + helper", "10 + helper"))
        wait_until(lambda: place.run("answer") == 11, "a change of a job is seen")
        place.write("jobs.py", APP + "\n@app.job('new')\ndef new() -> str: print('echoed'); return 'it works'\n")
        wait_until(lambda: "new" in [one.id for one in place.client.jobs()], "a new job is seen")
        assert place.client.submit("new").result(timeout=30) == "it works"
        assert other_code(place, "new") == []
    assert "echoed" in place.server.said


def test_a_syntax_error_changes_nothing_until_the_next_save(folder: Path) -> None:
    place = place_in(folder, "--dev")
    with place:
        assert place.run("answer") == 1
        place.write("jobs.py", APP + "\ndef broken(:\n")
        wait_until(lambda: "SyntaxError" in place.server.said, "it is reported")
        assert place.run("answer") == 1
        said = place.server.said.count("SyntaxError")
        place.write("jobs.py", APP.replace("1 + helper", "5 + helper"))
        wait_until(lambda: place.run("answer") == 5, "the next save repairs it")
        assert place.server.said.count("SyntaxError") == said


def test_a_running_attempt_is_given_back_uncounted(folder: Path) -> None:
    place = place_in(folder, "--dev")
    with place:
        run = place.client.submit("long")
        wait_until(lambda: run.info().started_at is not None, "it runs")
        place.write("jobs.py", APP.replace("await asyncio.sleep(600)", "return 7"))
        assert run.result(timeout=60) == 7
        assert (run.info().failures, run.info().crashes) == (0, 0)


@pytest.mark.behaviour("TIM-14")
def test_reload_reports_changed_code_and_restarts_the_workers(folder: Path) -> None:
    place = place_in(folder)
    with place:
        assert place.run("answer") == 1
        assert sorted(place.ask("reload")["jobs"]["unchanged"]) == ["answer", "long"]
        place.write("jobs.py", APP.replace("1 + helper.MORE", "1 + helper.MORE + 100"))
        reloaded = place.ask("reload")["jobs"]
        assert (reloaded["changed"], reloaded["unchanged"]) == (["answer"], ["long"])
        wait_until(lambda: place.run("answer") == 101, "the workers have the new code")
        place.write("jobs.py", "import no_such_module\n")
        assert interlock(folder, "reload").returncode == 2
        assert place.run("answer") == 101
        with pytest.raises(UnknownJob):
            place.client.submit("other")


def test_a_worker_with_other_code_is_shown(folder: Path) -> None:
    place = place_in(folder)
    with place:
        assert place.run("answer") == 1
        place.write("jobs.py", APP.replace("1 + helper.MORE", "1 + helper.MORE + 100"))
        [before] = place.server.own_workers()
        os.kill(before, signal.SIGTERM)
        wait_until(lambda: other_code(place, "answer"), "the worker that came back has other code")
        [worker] = other_code(place, "answer")
        assert worker.startswith("w1-")
        assert str(before) not in worker
        assert other_code(place, "long") == []
        assert worker in interlock(folder, "jobs", "answer").stdout
        place.ask("reload")
        wait_until(lambda: other_code(place, "answer") == [], "both have the same code again")

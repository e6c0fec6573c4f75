"""What is kept and told of a run: history, figures, log lines, the scheduler's own log."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.helpers.jobs import app
from tests.helpers.places import lines_of, run_async, tell_to_go, until, until_true
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

S = il.State
NOISE = Path(__file__).parents[1] / "helpers" / "noisy_policy.yaml"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")  # RFC 3339


LAST_WORDS = """
import sys, threading, warnings
from interlock.error_lines import say_error
from interlock.log_lines import log_to_stderr
log_to_stderr("info", "json")
print("printed", file=sys.stderr)
print("unfinished", end="", file=sys.stderr, flush=True)
warnings.warn("warned")
def fail():
    raise ValueError("in a thread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Dying:
    def __del__(self):
        raise KeyError("in a finalizer")
Dying()
say_error("refused", "bad_config")
raise RuntimeError("at last")
"""


@pytest.mark.behaviour("RUN-18")
async def test_the_figures_of_a_run_add_up(server: Server, folder: Path) -> None:
    async with app.connected(str(server.socket)):
        run = await app.submit("flaky", {"failures": 2}, delay="100ms")
        assert await run.result(30) == 3
        stats, info, history = await run.stats(), await run.info(), await run.history()
        assert (stats.attempts, stats.failures, stats.crashes) == (3, 2, 0)
        assert stats.transitions == len(history)
        assert (stats.outcome, stats.exit_code) == ("succeeded", None)
        checked = (stats.constraints_checked, stats.constraints_violated, stats.actions_run, stats.actions_failed)
        assert checked == (0, 0, 0, 0)
        assert stats.seconds_in[S.PRERUN] >= 0.08
        assert stats.seconds_in[S.RETRYING] >= 0.06
        assert info.ended_at is not None
        assert sum(stats.seconds_in.values()) == pytest.approx(info.ended_at - info.created_at)
        assert info.started_at is not None
        assert stats.start_latency == pytest.approx(info.started_at - info.scheduled_at)

        left = await app.submit("exit", {"code": 4})
        await left.wait(30)
        figures = await left.stats()
        assert (figures.exit_code, figures.outcome) == (4, "failed")

        held = await app.submit("hold", {"folder": str(folder), "name": "work"})
        await until(lambda: lines_of(folder / "work.started"), "it has started")

        async def running() -> bool:
            return S.RUNNING in (await held.stats()).seconds_in

        await until_true(running, "time counts on in the state it is in")
        earlier = (await held.stats()).seconds_in[S.RUNNING]
        assert (await held.stats()).seconds_in[S.RUNNING] > earlier
        tell_to_go(folder, "work")
        await held.result(30)


def entries_of(server: Server) -> list[dict[str, Any]]:
    """What its log says, but for a line that is not complete yet."""
    return [json.loads(line) for line in server.said.rpartition("\n")[0].splitlines()]


def beats_of(run_id: str, server: Server) -> list[dict[str, Any]]:
    return [one for one in entries_of(server) if one["level"] == "DEBUG" and one.get("run_id") == run_id]


@pytest.mark.behaviour("RUN-19")
def test_the_log_has_every_transition_with_its_fields(folder: Path) -> None:
    options = (
        "--log-level",
        "debug",
        "--log-format",
        "json",
        "--heartbeat",
        "500ms",
    )  # a worker may be silent thrice as long
    with Server(folder, *options) as server:

        async def body() -> list[il.RunHandle[Any]]:
            async with app.connected(str(server.socket)):
                good = await app.submit("flaky", {"failures": 1})
                bad = await app.submit("fail", {"text": "a reason"})
                held = await app.submit("hold", {"folder": str(folder), "name": "work"})

                def beaten() -> bool:
                    return any(one["state"] == "running" for one in beats_of(held.id, server))

                await until(beaten, "a heartbeat while it runs")
                tell_to_go(folder, "work")
                for run in (good, bad, held):
                    await run.wait(30)
                histories[good.id] = [str(entry.after) for entry in await good.history()]
                return [good, bad, held]

        histories: dict[str, list[str]] = {}
        good, bad, held = run_async(body())
    entries = entries_of(server)
    of_good = [one for one in entries if one.get("run_id") == good.id and one["level"] == "INFO"]
    assert [one["state"] for one in of_good] == histories[good.id]
    assert all(one["job_id"] == "flaky" and TIME.fullmatch(one["scheduled_at"]) for one in of_good)
    assert [one["attempt"] for one in of_good] == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert all(TIME.fullmatch(one["at"]) for one in entries)
    errors = [one for one in entries if one["level"] == "ERROR"]
    assert [(one["run_id"], one["state"]) for one in errors] == [(bad.id, "failed")]
    assert errors[0]["message"].endswith("a reason")
    beats = beats_of(held.id, server)
    assert all("heartbeat" in one["message"] and one["attempt"] == 1 for one in beats)
    assert {one["state"] for one in beats} <= {"dispatched", "running"}, "a worker names a run before it begins it"


@pytest.mark.behaviour("RUN-19")
def test_every_line_of_every_process_is_json_if_asked_for(folder: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--log-level", "info", "--log-format", "json", "--echo", str(NOISE))
    with Server(folder, *options, target="tests.helpers.noisy_jobs:app") as server:
        run_id = server.http.submit("noise")
        assert server.http.ended(run_id)["state"] == "succeeded"
        wait_until(lambda: "a scanner prints" in server.said, "its result is scanned")
        crashed = server.http.submit("crash")
        assert server.http.ended(crashed)["state"] == "orphaned"
        server.send(signal.SIGHUP)
        wait_until(lambda: "reloaded" in server.said, "it has reloaded")
    entries = [json.loads(line) for line in server.said.splitlines()]
    assert all(isinstance(one, dict) and TIME.fullmatch(one["at"]) for one in entries)
    said = "\n".join(one["message"] for one in entries)
    for text in ("import prints", "import warns", "import logs", "lifespan prints", "interlock: ", "stopped: "):
        assert text in said
    (echoed,) = [one for one in entries if one["message"] == "a line of the run"]
    assert (echoed["run_id"], echoed["level"], echoed["logger"]) == (run_id, "WARNING", "noise")


@pytest.mark.behaviour("RUN-19")
def test_the_last_words_of_a_process_are_json_too() -> None:
    done = subprocess.run([sys.executable, "-c", LAST_WORDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert [one["message"].splitlines()[0] for one in entries] == [
        "printed", "unfinished", "<string>:8: UserWarning: warned", "an error ends the process or thread",
        "an error ends the process or thread", "refused [bad_config]", "an error ends the process or thread",
    ]  # fmt: skip
    assert [one["exception"].splitlines()[-1] for one in entries if "exception" in one] == [
        "ValueError: in a thread", "KeyError: 'in a finalizer'", "RuntimeError: at last",
    ]  # fmt: skip
    assert [one["level"] for one in entries[-2:]] == ["ERROR", "CRITICAL"]


def test_by_default_the_log_is_quiet(folder: Path) -> None:
    with Server(folder) as server:

        async def body() -> None:
            async with app.connected(str(server.socket)):
                await (await app.submit("flaky", {"failures": 1})).result(30)

        run_async(body())
    lines = server.said.splitlines()
    assert [line.split(":")[0] for line in lines] == ["interlock", "policy", "stopping", "stopped"]
    assert lines[-1] == "stopped: 1 submitted, 1 succeeded, 0 kept for the next start"

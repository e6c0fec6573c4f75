"""A real worker without an app that runs programs, and a scheduler that the test plays."""

import os
import signal
from pathlib import Path

import pytest

from interlock.model.work import shell
from interlock.wire import message as m
from tests.helpers.places import until
from tests.helpers.played import ends, lines, untimed, worker_of
from tests.helpers.processes import alive, children_of
from tests.process.stage import dispatch, program
from tests.supervision.programs import KIN, all_gone, descent, kin_of

pytestmark = pytest.mark.behaviour("EXE-2")

STUBBORN = program(*shell("trap '' TERM; echo $$; while :; do sleep 1000; done"))


@pytest.mark.behaviour("RUN-11")
async def test_one_that_ignores_term_is_killed_after_its_grace(folder: Path) -> None:
    async with worker_of(folder) as (script, worker, _):
        hello = script.heard[0]
        assert isinstance(hello, m.Hello)
        assert hello.jobs == {}
        assert children_of(worker.pid) == [], "there is nothing that nobody needs"
        script.say(dispatch("run", STUBBORN))
        await until(lambda: lines(script, "run"), "it has started")
        pid = int(lines(script, "run")[0].text)
        script.say(m.Stop("run", 1, "cancel"))
        await until(lambda: ends(script, "run"), "it has ended")
        assert untimed(ends(script, "run")[0]) == m.Finished("run", 1, "cancelled", None, None, -9)
        assert not alive(pid)
        assert len(children_of(worker.pid)) == 1, "its guard"


async def test_one_that_prints_a_hundred_megabytes(folder: Path) -> None:
    text = "0123456789" * 100
    flood = program(*shell(f"echo {text} >&2; yes {text} | head -c 100000000"))
    async with worker_of(folder) as (script, worker, _):
        script.say(dispatch("small", program("true")))
        await until(lambda: ends(script, "small"), "it is warm")
        before = peak(worker.pid)
        script.say(dispatch("run", flood))
        await until(lambda: ends(script, "run"), "it has ended")
        assert untimed(ends(script, "run")[0]) == m.Finished("run", 1, "succeeded", b"null", None, 0)
        said = lines(script, "run")
        assert sum(len(one.text) for one in said) < 17 * 2**20
        (mark,) = [one.text for one in said if not one.logger]
        assert "100,000 lines or 16 MiB" in mark
        sent = sum(one.text == text for one in said)
        # A line has a byte more than its text, and the last one is not whole.
        left_out = 100_000_000 // 1001 + 2 - sent
        assert said[-1].text == f"… {left_out:,} lines left out"
        assert peak(worker.pid) - before < 32 * 2**20
        assert set(script.of("small")) - {"Started"} == {"Finished"}


def peak(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


@pytest.mark.behaviour("LIV-4")
async def test_it_runs_on_without_a_scheduler_and_the_next_one_hears_of_it(folder: Path) -> None:
    async with worker_of(folder) as (script, _, _):
        work = program(*shell('echo $$; while [ ! -e "$1" ]; do sleep 0.01; done; echo more'), "sh", str(folder / "go"))
        script.say(dispatch("run", work))
        await until(lambda: lines(script, "run"), "it has started")
        assert script.peer is not None
        script.peer.close()
        await until(lambda: sum(isinstance(one, m.Hello) for one in script.heard) == 2, "the worker is back")
        hello = [one for one in script.heard if isinstance(one, m.Hello)][-1]
        assert hello.held == [m.Held("run", 1, True)]
        (folder / "go").touch()
        await until(lambda: ends(script, "run"), "it has ended")
        # A line that was under way when the link broke is said again, with its number.
        assert [text for _, text in sorted({(one.number, one.text) for one in lines(script, "run")})][1:] == ["more"]


async def test_nothing_outlives_a_worker_that_is_killed(folder: Path) -> None:
    (folder / "kin").mkdir()
    async with worker_of(folder) as (script, worker, _):
        script.say(dispatch("run", program(*descent(folder / "kin"))), dispatch("other", STUBBORN))
        await until(lambda: lines(script, "other"), "it has started")
        pids = [*await kin_of(folder / "kin", *KIN, "leader"), int(lines(script, "other")[0].text)]
        assert all(map(alive, pids))
        os.kill(worker.pid, signal.SIGKILL)
        all_gone(pids)


async def test_a_worker_that_is_stopped_gives_back_what_it_runs(folder: Path) -> None:
    async with worker_of(folder, "--drain", "50ms") as (script, worker, _):
        polite = program(*shell("trap 'exit 0' TERM; echo $$; sleep 1000 & wait"))
        script.say(dispatch("polite", polite), dispatch("stubborn", STUBBORN))
        await until(lambda: lines(script, "polite") and lines(script, "stubborn"), "they have started")
        worker.send(signal.SIGTERM)
        await until(
            lambda: "Returned" in script.of("polite") and "Returned" in script.of("stubborn"), "they are given back"
        )
        script.say(m.Settled("polite", 1), m.Settled("stubborn", 1))
        await until(lambda: worker.process is not None and worker.process.poll() is not None, "it has left")
        assert (worker.ended(), worker.said) == (0, "")

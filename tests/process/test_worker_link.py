"""A real worker, and a scheduler that the test plays: what exactly the worker says, and when."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.ports.bus import Peer
from interlock.wire import message as m
from tests.helpers.places import lines_of, tell_to_go, until
from tests.helpers.played import OF_JOBS, dispatch, without_beats, worker_of
from tests.helpers.script import Script


@pytest.mark.behaviour("LIV-1")
async def test_a_worker_beats_while_it_holds_a_run_and_not_after(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        assert script.beats() == []
        script.say(dispatch("first", "busy", folder))
        await until(lambda: len(script.beats()) >= 3, "it beats while the work is busy")
        assert all(beat == ["first"] for beat in script.beats())
        tell_to_go(folder, "first")
        await until(lambda: "Finished" in script.of("first"), "it has ended")
        script.say(m.Settled("first", 1), dispatch("second", "hold", folder))
        before = len(script.heard)
        await until(lambda: "Started" in script.of("second"), "the second has started")
        await until(lambda: len(script.beats(before)) > 2, "it beats for the second")
        assert all(beat == ["second"] for beat in script.beats(before))
        tell_to_go(folder, "second")
        await until(lambda: "Finished" in script.of("second"), "it has ended")


@pytest.mark.behaviour("RUN-8")
async def test_an_outcome_is_said_again_until_it_is_settled(folder: Path) -> None:
    """Over beats and over a new link; a dispatch that comes twice is executed once."""
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(dispatch("run", "count", folder), dispatch("run", "count", folder))
        await until(lambda: script.of("run").count("Finished") >= 3, "it is said again with each beat")
        assert script.peer is not None
        script.peer.close()
        await until(lambda: sum(isinstance(one, m.Hello) for one in script.heard) == 2, "it is back")
        hello = [one for one in script.heard if isinstance(one, m.Hello)][-1]
        assert hello.held == [m.Held("run", 1, False)]
        assert "Returned" not in script.of("run")
        script.say(m.Settled("run", 1), dispatch("run", "count", folder))
        script.say(dispatch("last", "count", folder))
        await until(lambda: "Finished" in script.of("last"), "the last has ended")
        assert (folder / "run").read_text() == "run 1\n"
        assert "Returned" in script.of("run"), "another run may have its name: it is not kept waiting"


@pytest.mark.behaviour("RUN-20")
async def test_what_an_attempt_reports_while_no_scheduler_is_there_is_told_to_the_next(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, scheduler):
        script.say(dispatch("run", "records", folder))
        await until(lambda: "Started" in script.of("run"), "it has started")
        await scheduler.end()
        tell_to_go(folder, "run")
        await until(lambda: lines_of(folder / "run.recorded"), "it has reported")
        script = await scheduler.begin()
        await until(lambda: "Progress" in script.of("run"), "it is told")
        told = without_beats(script)
        assert isinstance(told[0], m.Hello)
        assert [one.text for one in told if isinstance(one, m.LogMessage)] == ["line 0", "line 1", "line 2"]
        assert [one.value for one in told if isinstance(one, m.Checkpoint)] == [b"2"]
        assert [one.percent for one in told if isinstance(one, m.Progress)] == [2.0]
        tell_to_go(folder, "run-more")
        await until(lambda: "Finished" in script.of("run"), "it has ended")


@pytest.mark.behaviour("RUN-20")
async def test_what_a_scheduler_heard_and_did_not_live_to_store_is_told_to_the_next(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, scheduler):
        script.say(dispatch("run", "records", folder))
        tell_to_go(folder, "run")
        await until(lambda: script.of("run").count("Progress") == 3, "it is told")
        await scheduler.end()
        script = await scheduler.begin()
        await until(lambda: "Progress" in script.of("run"), "it is told again")
        told = without_beats(script)
        assert [one.number for one in told if isinstance(one, m.LogMessage)] == [1, 2, 3]
        assert [one.value for one in told if isinstance(one, m.Checkpoint)] == [b"2"]
        assert [one.percent for one in told if isinstance(one, m.Progress)] == [2.0]


async def test_a_worker_of_another_version_is_refused_with_one_line(folder: Path) -> None:
    class Refusing(Script):
        def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
            peer.send([m.Problem(0, "refused", "link: protocol 1 is not spoken here")])

    async with worker_of(folder, *OF_JOBS, script=Refusing()) as (_, worker, _):
        assert worker.process is not None
        await until(lambda: worker.process is not None and worker.process.poll() is not None, "it has left")
        assert worker.ended() == 1
        assert worker.said == "error: link: protocol 1 is not spoken here [refused]\n"


async def test_a_worker_stopped_with_work_gives_it_back(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS, "--drain", "100ms") as (script, worker, _):
        script.say(dispatch("run", "hold", folder))
        await until(lambda: "Started" in script.of("run"), "it has started")
        assert worker.process is not None
        worker.process.terminate()
        await until(lambda: "Returned" in script.of("run"), "it is given back")
        script.say(m.Settled("run", 1))
        await until(lambda: worker.process is not None and worker.process.poll() is not None, "it has left")
        assert worker.ended() == 0
        assert worker.said == ""

"""A real worker that gets an old offer, from a scheduler that the test plays."""

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from interlock.model.work import ProcessWork
from interlock.ports.clock import elapsed
from interlock.wire import message as m
from interlock.worker.offers import Offers
from interlock.worker.router import Programs
from tests.helpers.places import lines_of, until
from tests.helpers.played import OF_JOBS, dispatch, told, worker_of
from tests.helpers.processes import processes_of
from tests.helpers.script import Script

OLD = -1.0
"""an instant before the played scheduler's first word"""


def asks(script: Script) -> list[m.Heartbeat]:
    return [one for one in script.heard if isinstance(one, m.Heartbeat)]


@pytest.mark.behaviour("RUN-7", "LIV-3")
async def test_an_old_offer_is_begun_only_after_the_scheduler_has_said_so(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        old = replace(dispatch("old", "count", folder), begin_by=OLD)
        stopped = replace(dispatch("stopped", "count", folder), begin_by=OLD)
        script.say(old, stopped)
        await until(lambda: asks(script), "it asks")
        assert {held.run_id for held in asks(script)[0].held} == {"old", "stopped"}
        script.say(dispatch("new", "count", folder))
        await until(lambda: len(asks(script)) > 2, "it asks again with its next heartbeats")
        assert not script.of("old")
        assert not script.of("new"), "nothing is begun before the answer, which comes behind every stop"
        script.say(m.Stop("stopped", 1, "stale"), m.Heard(asks(script)[-1].at, 0.0))
        await told(script, "Finished", "old", "new")
        await told(script, "Returned", "stopped")
        assert sorted(line.split()[0] for name in ("old", "new", "stopped") for line in lines_of(folder / name)) == [
            "new",
            "old",
        ]


@pytest.mark.behaviour("RUN-7", "LIV-3")
def test_the_answer_to_a_heartbeat_confirms_no_offer_that_only_the_next_one_names(folder: Path) -> None:
    """A worker that was paused sends a heartbeat and, at the same instant, asks about the old offers in its link."""
    offers = Offers()
    offers.begin(m.Welcome(10.0, 100.0, 30.0), 100.0)
    earlier = offers.heartbeat([], 150.0)
    old = offers.take(replace(dispatch("old", "count", folder), begin_by=130.0))
    assert not offers.ready(150.0)
    asked = offers.heartbeat([old], 150.0)
    offers.asked = asked.at
    offers.confirm(m.Heard(earlier.at, 151.0), [old])
    assert not offers.ready(150.0)
    offers.confirm(m.Heard(asked.at, 151.0), [old])
    assert offers.ready(150.0) == [old]


@pytest.mark.behaviour("RUN-7")
async def test_a_stop_that_arrives_with_its_dispatch_keeps_it_from_beginning(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(dispatch("first", "count", folder), m.Stop("first", 1, "cancel"), dispatch("last", "count", folder))
        await told(script, "Finished", "last")
        await told(script, "Returned", "first")
        assert not lines_of(folder / "first")


@pytest.mark.behaviour("RUN-7")
async def test_what_an_executor_process_did_not_come_to_begin_in_time_is_asked_about(folder: Path) -> None:
    """The process has it, and stands still until the offer has passed."""
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        (executor,) = [one.pid for one in processes_of(folder) if "interlock.worker.executor_process" in one.command]
        os.kill(executor, signal.SIGSTOP)
        try:
            # From now on the played scheduler has the machine's elapsed time, and its offers stand for 300 ms.
            script.say(m.Welcome(0.1, elapsed(), 0.3), m.Heard(elapsed(), elapsed()))
            late = replace(dispatch("late", "count", folder), begin_by=elapsed() + 0.3)
            script.say(late, dispatch("behind", "count", folder))
            await until(lambda: asks(script) and asks(script)[-1].at > late.begin_by, "the offer has passed")
        finally:
            os.kill(executor, signal.SIGCONT)
        await told(script, "Finished", "behind")
        assert not lines_of(folder / "late")
        before = len(asks(script))
        await until(lambda: len(asks(script)) > before, "it asks")
        script.say(m.Heard(asks(script)[-1].at, elapsed()))
        await told(script, "Finished", "late")
        assert len(lines_of(folder / "late")) == 1


@pytest.mark.behaviour("RUN-7")
async def test_a_program_whose_offer_has_passed_is_not_started(folder: Path) -> None:
    told: list[m.Message] = []
    runner = Programs(())
    await runner.open(told.append)
    late = replace(dispatch("late", "work", folder), work=ProcessWork(command=("touch", str(folder / "late"))))
    try:
        runner.start(replace(late, begin_by=elapsed() - 1.0))
        await until(lambda: told, "it is told")
        assert told == [m.Expired("late", 1)]
        runner.start(late)
        await until(lambda: any(isinstance(one, m.Finished) for one in told), "it has ended")
        assert (folder / "late").exists(), "it may be begun later"
    finally:
        await runner.close()


@pytest.mark.behaviour("RET-5")
async def test_of_a_process_that_dies_only_what_had_begun_is_suspected(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(dispatch("begun", "hold", folder), dispatch("thread", "hold.thread", folder))
        await told(script, "Started", "begun", "thread")
        (executor,) = [one.pid for one in processes_of(folder) if "interlock.worker.executor_process" in one.command]
        os.kill(executor, signal.SIGSTOP)
        script.say(dispatch("waiting", "hold", folder))
        await until(lambda: any("waiting" in beat for beat in script.beats()), "the process has it")
        os.kill(executor, signal.SIGKILL)
        await told(script, "Lost", "begun", "thread", "waiting")
        codes = {one.run_id: one.exit_code for one in script.heard if isinstance(one, m.Lost)}
        assert codes == {"begun": -9, "thread": -9, "waiting": None}


@pytest.mark.behaviour("RET-5")
async def test_what_kills_its_process_with_its_first_step_is_suspected(folder: Path) -> None:
    """It is over before a start is told."""
    async with worker_of(folder, *OF_JOBS) as (script, _, _):
        script.say(replace(dispatch("run", "exit.hard", folder), payload=b'{"code": 7}'))
        await told(script, "Lost", "run")
        assert next(one.exit_code for one in script.heard if isinstance(one, m.Lost)) == 7

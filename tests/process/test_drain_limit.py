"""The drain has a limit: it also stops work that somebody has asked to stop earlier."""

import asyncio
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from interlock.model.work import ProcessWork
from interlock.wire import message as m
from interlock.worker.host import Host, HostSettings
from soak.simulation.loop import VirtualLoop
from tests.helpers.places import lines_of, until
from tests.helpers.played import OF_JOBS, dispatch, told, worker_of
from tests.process.test_kept_lines import Links, Silent

PROGRAM = ProcessWork(command=("true",))
DRAIN = 2.0


class Deaf(Silent):
    """Records each step against the attempt, which ignores them all. A program knows no step but the first."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []

    def _note(self, step: str) -> None:
        self.steps.append((asyncio.get_running_loop().time(), step))

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        self._note("TERM" if self.steps else "ask")
        return len(self.steps) == 1 and attempt.work is None

    def kill(self, attempt: m.Dispatch) -> None:
        self._note("KILL")


@pytest.mark.behaviour("LAN-7", "RUN-11")
@pytest.mark.parametrize(
    ("work", "grace", "cancelled", "expected"),
    [
        (None, 10.0, None, [(2, "ask"), (7, "TERM"), (12, "KILL")]),
        (None, 10.0, 1, [(1, "ask"), (2, "TERM"), (7, "KILL")]),
        (None, 10.0, 3, [(2, "ask"), (7, "TERM"), (12, "KILL")]),
        (None, 1.5, 0, [(0, "ask"), (1.5, "TERM"), (3, "KILL")]),
        (None, 0.5, 0, [(0, "ask"), (0.5, "TERM"), (1, "KILL")]),
        (PROGRAM, 10.0, None, [(2, "ask"), (7, "KILL")]),
        (PROGRAM, 10.0, 1, [(1, "ask"), (7, "KILL")]),
        (PROGRAM, 10.0, 3, [(2, "ask"), (7, "KILL")]),
        (PROGRAM, 3.0, 1, [(1, "ask"), (4, "KILL")]),
    ],
)
def test_the_limit_wins_over_the_grace_of_a_cancelled_attempt(
    work: ProcessWork | None, grace: float, cancelled: float | None, expected: list[tuple[float, str]]
) -> None:
    executor, links = Deaf(), Links()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        host = Host(links, executor, {}, HostSettings(worker_id="w", stop_grace=5.0))
        task = loop.create_task(host.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (link,) = links.links
        host.received(link, [m.Welcome(1000.0), m.Dispatch("run", 1, "job", 1, b"{}", None, False, grace, None, work)])
        if cancelled is not None:
            loop.call_at(cancelled, host.received, link, [m.Stop("run", 1, "cancel")])
        for moment in (DRAIN, DRAIN + 2):
            # A second signal, or the end of the drain after one, restarts no grace.
            loop.call_at(moment, host.interrupt)
        loop.call_at(100.0, host.abandon)
        await task

    loop = VirtualLoop()
    try:
        loop.run_until_complete(body())
        assert loop.errors == []
    finally:
        loop.close()
    assert executor.steps == expected


@pytest.mark.behaviour("LAN-7", "RUN-11")
async def test_a_deaf_function_that_was_cancelled_does_not_hold_up_its_worker(folder: Path) -> None:
    async with worker_of(folder, *OF_JOBS, "--drain", "50ms") as (script, worker, _):
        for name, job in (("a", "hold.thread"), ("b", "deaf")):
            script.say(replace(dispatch(name, job, folder), grace=1000.0))
        await told(script, "Started", "a", "b")
        script.say(m.Stop("b", 1, "cancel"))
        before = len(script.heard)
        await until(lambda: len(script.beats(before)) >= 2, "it does not listen")
        worker.send(signal.SIGTERM)
        await told(script, "Lost", "b")
        await told(script, "Returned", "a")
        assert lines_of(folder / "a.stopped") == ["1 shutdown"], "its neighbour was asked, and had its time"
        script.say(m.Settled("a", 1), m.Settled("b", 1))
        await until(lambda: worker.process is not None and worker.process.poll() is not None, "it has left")
        assert (worker.ended(), worker.said) == (0, "")

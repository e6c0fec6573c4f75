"""Turns of workflows on a worker: one at a time in a process of their own, and many ends in one message."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from interlock.wire import message as m
from interlock.worker.host import Host, HostSettings
from interlock.worker.pool import ExecutorOptions, ProcessPool
from soak.simulation.loop import VirtualLoop
from tests.helpers.places import lines_of, until
from tests.process.test_kept_lines import Links, Silent

APP = """\
import os
import signal
import time
from pathlib import Path

import interlock as il

app = il.App()
trace = Path(__file__).parent / "trace"


@app.workflow("flow")
async def flow(ctx: il.WorkflowContext, way: str = "") -> str:
    with open(trace, "a") as file:
        file.write("in\\n")
        if way == "exit":
            file.flush()
            os._exit(3)
        if way == "timer":
            signal.setitimer(signal.ITIMER_REAL, 0.2)
        end = time.monotonic() + 0.5 * (way == "long")
        while time.monotonic() < end:
            pass
        file.write("out\\n")
    return way
"""


def turn(run_id: str, way: str = "") -> m.Dispatch:
    payload = msgspec.json.encode({"way": way})
    record = {"workflow": "flow", "run_id": run_id, "payload": msgspec.Raw(payload), "began_at": 1.0}
    return m.Dispatch(run_id, 1, "flow", 1, payload, None, True, 0.5, record=msgspec.json.encode(record))


async def taken(folder: Path, *turns: m.Dispatch) -> list[m.Message]:
    """Return what a real process for turns reports of these, which it gets at once."""
    (folder / "flows.py").write_text(APP)
    heard: list[m.Message] = []
    pool = ProcessPool(ExecutorOptions(app=f"{folder / 'flows.py'}:app"), 1)
    await pool.open(heard.append)
    try:
        for one in turns:
            pool.start(one)
        ends = (m.Finished, m.Lost)
        await until(lambda: sum(isinstance(one, ends) for one in heard) == len(turns), "all turns have ended")
    finally:
        await pool.close()
    return heard


def of(heard: Sequence[m.Message]) -> list[tuple[str, str]]:
    return [(type(one).__name__, one.run_id) for one in heard if isinstance(one, m.OfAttempt)]


@pytest.mark.behaviour("WFL-9")
async def test_turns_that_come_together_are_taken_one_after_the_other(folder: Path) -> None:
    names = [str(number) for number in range(40)]
    heard = await taken(folder, *map(turn, names))
    assert of(heard) == [(kind, name) for name in names for kind in ("Started", "Finished")]
    assert lines_of(folder / "trace") == ["in", "out"] * 40
    assert {one.result for one in heard if isinstance(one, m.Finished)} == {
        b'{"orders":[{"order":"Finish","result":""}]}'
    }


@pytest.mark.behaviour("WFL-9")
async def test_a_turn_that_ends_the_process_is_known_and_those_behind_it_have_not_begun(folder: Path) -> None:
    heard = await taken(folder, turn("a"), turn("deadly", "exit"), turn("b"), turn("c"))
    assert of(heard) == [
        ("Started", "a"), ("Finished", "a"), ("Started", "deadly"), ("Lost", "deadly"), ("Lost", "b"), ("Lost", "c"),
    ]  # fmt: skip
    assert [one.exit_code for one in heard if isinstance(one, m.Lost)] == [3, None, None]


@pytest.mark.behaviour("WFL-9")
async def test_a_timer_that_a_turn_sets_does_not_end_the_next_one(folder: Path) -> None:
    heard = await taken(folder, turn("a", "timer"), turn("b", "long"))
    assert of(heard) == [("Started", "a"), ("Finished", "a"), ("Started", "b"), ("Finished", "b")]


async def test_many_short_turns_in_a_row_block_no_process(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Together they take longer than one may, so the last ones wait longer than that in their process."""
    names = list("abcdefgh")
    heard = await taken(folder, *(turn(name, "long") for name in names))
    assert of(heard) == [(kind, name) for name in names for kind in ("Started", "Finished")]
    assert "blocks process" not in caplog.text


class Timed(Links):
    """Notes when something is sent, and how many turns have ended in it."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[float, int]] = []

    async def connect(self, endpoint: object) -> object:  # type: ignore[override] # it adds to a link of the test
        link = await super().connect(endpoint)  # type: ignore[arg-type] # as above
        send = link.send

        def note(messages: Sequence[m.Message]) -> None:
            send(messages)
            if count := sum(isinstance(one, m.Finished) for one in messages):
                self.ends.append((round(asyncio.get_running_loop().time(), 3), count))

        link.send = note  # type: ignore[method-assign] # as above
        return link


def test_the_ends_of_turns_are_reported_together_while_others_wait() -> None:
    links = Timed()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        host = Host(links, Silent(), {}, HostSettings(worker_id="w"))
        task = loop.create_task(host.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (link,) = links.links
        names = [str(number) for number in range(20)]
        host.received(link, [m.Welcome(1000.0), *map(turn, names)])

        def end(*names: str) -> None:
            for name in names:
                host.report(m.Started(name, 1))
                host.report(m.Finished(name, 1, "succeeded", b"{}"))

        loop.call_at(1.0, end, *names[:15])
        loop.call_at(1.002, end, names[15])
        loop.call_at(2.0, end, *names[16:19])
        loop.call_at(3.0, end, names[19])
        loop.call_at(4.0, end, "unknown")
        loop.call_at(5.0, host.abandon)
        await task

    loop = VirtualLoop()
    try:
        loop.run_until_complete(body())
        assert loop.errors == []
    finally:
        loop.close()
    assert links.ends == [(1.002, 16), (2.005, 3), (3.0, 1)]

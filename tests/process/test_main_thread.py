"""Attempts on the main thread of their process, one after another: signals, streams and descriptors."""

import signal
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest

from interlock.model.work import FunctionWork
from interlock.wire import frames
from interlock.wire import message as m
from interlock.worker.outbox import Outbox
from tests.process.stage import executing

JOBS = r"""
import multiprocessing, os, resource, signal, sys
from concurrent.futures.process import ProcessPoolExecutor

pool = ProcessPoolExecutor(2, multiprocessing.get_context("fork"))
held = []

def in_pool(tag: str): list(pool.map(print, [tag] * 5))

def set_alarm():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 3600)

def read_alarm(): return [os.getpid(), signal.getsignal(signal.SIGALRM) == 0, signal.getitimer(signal.ITIMER_REAL)[0]]

def close_streams():
    for stream in (sys.stdout.buffer, sys.stdout, sys.stderr): stream.close()
    print("still there")

def crowd():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(1100))

def speak(): os.write(1, b"spoken\n")
"""


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "apart.py").write_text(JOBS)
    monkeypatch.chdir(folder)
    return folder


def work(name: str) -> FunctionWork:
    return FunctionWork(function=f"apart:{name}")


class Interrupted(Exception):
    pass


def test_a_signal_handler_that_raises_breaks_no_message() -> None:
    """The link is full, so the exception comes in the middle of a message."""
    here, there = socket.socketpair()
    outbox = Outbox(here, is_isolated=True)
    lines = [m.LogMessage("run", 1, number, 0.0, "info", "x" * 8000, "") for number in range(200)]
    found: list[m.Message] = []

    def read() -> None:
        reader = frames.FrameReader()
        while len(found) <= len(lines):
            for messages in reader.feed(there.recv(2**18)):
                found.extend(messages)

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            outbox.send(*lines)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with here, there:
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        outbox.send(m.Expired("run", 1))
        thread.join(10)
    assert found == [*lines, m.Expired("run", 1)]


async def test_the_signals_of_one_attempt_do_not_reach_the_next(place: Path) -> None:
    async with executing() as stage:
        first, _ = await stage.run(work("read_alarm"), isolated=True)
        await stage.run(work("set_alarm"), isolated=True)
        second, _ = await stage.run(work("read_alarm"), isolated=True)
        assert second.result == first.result


@pytest.mark.behaviour("EXE-7")
@pytest.mark.parametrize("isolated", [False, True])
async def test_a_handler_that_closes_its_streams_closes_nothing(place: Path, isolated: bool) -> None:
    async with executing() as stage:
        for _ in range(2):
            end, lines = await stage.run(work("close_streams"), isolated=isolated)
            assert (end.outcome, lines) == ("succeeded", ["still there"])


@pytest.mark.behaviour("EXE-7")
async def test_descriptors_are_read_whatever_their_number_and_closed_in_order(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with executing() as stage:
        for round_ in range(2):
            for _ in range(20):
                _, lines = await stage.run(work("speak"), isolated=True)
                assert lines == ["spoken"]
            if round_ == 0:
                await stage.run(work("crowd"), isolated=True)
    assert capfd.readouterr().err == ""


@pytest.mark.behaviour("EXE-7")
async def test_runs_share_a_process_pool_by_any_name(place: Path) -> None:
    async with executing() as stage:
        runs = {tag: stage.begin(work("in_pool"), {"tag": tag}) for tag in "abc"}
        for tag, run_id in runs.items():
            await stage.end(run_id)
            assert Counter(stage.lines(run_id)) == {tag: 5}

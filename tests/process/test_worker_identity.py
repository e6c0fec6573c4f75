"""Worker ids: they tell whether a process of this host still lives, and nothing about any other."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.buses.socket import ProcessWatch
from interlock.model.job import NAME
from interlock.worker.identity import worker_id
from tests.helpers.places import run_async


@contextmanager
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(("sleep", "1000")) as process:
        try:
            yield process
        finally:
            process.kill()


def elsewhere(known: str) -> str:
    """The same process as another host, or another pid namespace, would name it."""
    head, _, token = known.rpartition("-")
    host, _, started = token.partition(".")
    return f"{head}-{int(host, 16) ^ 1:08x}.{started}"


def later(known: str) -> str:
    head, _, started = known.rpartition(".")
    return f"{head}.{int(started, 16) + 1:x}"


def same(known: str) -> str:
    return known


def without_start(known: str) -> str:
    return known.rpartition(".")[0]


def over_tls(known: str) -> str:
    """The same process, as the scheduler names one that came with a token: it may be anywhere."""
    return f"site:{known}"


@pytest.mark.behaviour("LIV-2", "LIV-4")
@pytest.mark.parametrize(
    ("named", "lives", "is_told"),
    [
        (same, True, False),
        (same, False, True),
        (later, True, True),
        (later, False, True),
        (elsewhere, False, False),
        (elsewhere, True, False),
        (without_start, False, False),
        (over_tls, False, False),
        (over_tls, True, False),
    ],
)
def test_only_what_is_known_to_be_gone_is_told(
    folder: Path, named: Callable[[str], str], lives: bool, is_told: bool
) -> None:
    with sleeper() as process, sleeper() as other:
        known, beacon = worker_id("w1", process.pid), worker_id("w2", other.pid)
        assert NAME.fullmatch(known)
        if not lives:
            process.kill()
            process.wait()

        async def body() -> None:
            processes, told, after = ProcessWatch(), asyncio.Event(), asyncio.Event()
            processes.watch_worker(named(known), told.set)
            processes.watch_worker(beacon, after.set)
            other.kill()
            await after.wait()
            assert told.is_set() == is_told
            process.kill()
            if named is same:
                await told.wait()
            processes.close()

        run_async(body())


def test_an_id_names_the_process_and_no_other(folder: Path) -> None:
    own = worker_id("worker", os.getpid())
    with sleeper() as process:
        assert worker_id("worker", process.pid) != own
    assert worker_id("worker", os.getpid()) == own
    assert own.split("-")[1] == str(os.getpid())

"""Threads of executor processes: enough for the work, and none that stays without work."""

import os
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from interlock.wire import message as m
from interlock.worker.threads import ThreadPool
from tests.helpers.places import lines_of, tell_to_go, until
from tests.helpers.played import OF_JOBS, dispatch, told, worker_of

MANY = 100


def threads_of(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/task"))


def waiting(folder: Path, name: str, hold: float) -> m.Dispatch:
    payload = msgspec.json.encode({"folder": str(folder), "name": name, "then": "wait"})
    return replace(dispatch(name, "timed.thread", folder), payload=payload, hold=hold)


@pytest.mark.behaviour("EXE-1")
@pytest.mark.parametrize("hold", [0.0, 0.1])
async def test_threads_of_an_executor_end_when_their_work_has(folder: Path, hold: float) -> None:
    async with worker_of(folder, *OF_JOBS, "--slots", "1000") as (script, _, _):
        payload = msgspec.json.encode({"folder": str(folder), "name": "where", "then": "tell"})
        script.say(replace(dispatch("where", "timed.thread", folder), payload=payload, hold=0.01))
        await told(script, "Finished", "where")
        (line,) = lines_of(folder / "where.process")
        process = int(line)
        names = [f"{number}" for number in range(MANY)]
        script.say(*(waiting(folder, name, hold) for name in names))
        await told(script, "Started", *names)
        assert threads_of(process) >= MANY
        for name in names:
            tell_to_go(folder, name)
        await told(script, "Finished", *names)
        script.say(*(m.Settled(name, 1) for name in ("where", *names)))
        # One runs the loop, one watches it.
        await until(lambda: threads_of(process) <= 2, "the threads have ended")


def test_every_call_gets_a_thread_though_all_wait_for_each_other() -> None:
    pool, together, done = ThreadPool(), threading.Barrier(MANY), threading.Semaphore(0)

    def meet() -> None:
        together.wait(30)
        done.release()

    for _ in range(2):
        for _ in range(MANY):
            pool.submit(meet)
        assert all(done.acquire(timeout=30) for _ in range(MANY))


def test_calls_share_a_thread_that_is_free() -> None:
    pool, done, used = ThreadPool(), threading.Event(), set()

    def note() -> None:
        used.add(threading.get_ident())
        done.set()

    for _ in range(1000):
        done.clear()
        pool.submit(note)
        assert done.wait(30)
    assert len(used) <= 10

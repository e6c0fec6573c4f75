"""A third executor beside functions and programs: a kind of work, an executor and its registration are all it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, get_args

import msgspec
import pytest

from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.model.failure import Outcome
from interlock.model.job import Job
from interlock.model.run import Run
from interlock.model.schedule.schedule import Schedule
from interlock.model.work import BaseWork, Work
from interlock.ports.executor import Executor, Key, Report
from interlock.simulation.virtual import TimedExecutor, VirtualLoop
from interlock.simulation.virtual_cluster import VirtualCluster, quiet
from interlock.stores.memory import MemoryStore
from interlock.wire import message as m
from interlock.worker.host import Host, HostSettings
from interlock.worker.pool import ExecutorOptions, ProcessPool
from interlock.worker.router import Router, executors

START = 1_700_000_000.0


class AnswerWork(BaseWork, msgspec.Struct, frozen=True, tag="answer"):
    """An answer that the executor knows by heart, after some seconds."""

    kind = "answer"
    is_function = False

    answer: str
    seconds: float = 0.0


class Answers(Executor):
    """Answers from memory, without a process. Its attempts outlive their worker, as containers would."""

    def __init__(self) -> None:
        self.attempts: dict[Key, m.Dispatch] = {}
        self.calls: list[str] = []
        self.is_deaf = False
        self._report: Report = lambda message: None

    async def open(self, report: Report) -> None:
        self._report = report

    def adopt(self) -> list[m.Dispatch]:
        return list(self.attempts.values())

    def start(self, attempt: m.Dispatch) -> None:
        self.attempts[attempt.key] = attempt
        self._report(m.Started(*attempt.key))
        assert isinstance(attempt.work, AnswerWork)
        answer = msgspec.json.encode(attempt.work.answer)
        finished = m.Finished(*attempt.key, Outcome.SUCCEEDED, answer)
        asyncio.get_running_loop().call_later(attempt.work.seconds, self._end, attempt, finished)

    def _end(self, attempt: m.Dispatch, message: m.Message) -> None:
        if self.attempts.pop(attempt.key, None) is not None:
            self._report(message)

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        self.calls.append(f"stop: {reason}")
        if not self.is_deaf:
            self._end(attempt, m.Finished(*attempt.key, Outcome.CANCELLED))
        return len(self.calls) < 2

    def kill(self, attempt: m.Dispatch) -> None:
        self.calls.append("kill")
        self._end(attempt, m.Lost(*attempt.key, "it was killed"))

    async def close(self) -> None: ...


def in_cluster(executor: Executor, jobs: list[Job], body: Callable[[VirtualCluster], Awaitable[None]]) -> list[Run]:
    """Run the body beside a scheduler and one worker on virtual time; return the runs in the end."""
    store = MemoryStore()

    async def whole() -> None:
        catalog = Catalog([CatalogEntry(job, lambda payload: None) for job in jobs])
        cluster = VirtualCluster(store, catalog, START, Random(0))
        cluster.add_worker(executor, ["plain"], slots=4)
        await cluster.start()
        await body(cluster)
        await cluster.stop()

    loop = VirtualLoop()
    try:
        with quiet():
            loop.run_until_complete(whole())
    finally:
        loop.close()
    return list(store.runs_by_id.values())


def job(job_id: str = "asked", **fields: Any) -> Job:
    return Job(id=job_id, schedule=Schedule(at=START + 2.0), **fields)


async def a_minute(cluster: VirtualCluster) -> None:
    await asyncio.sleep(60.0)


def test_work_goes_to_the_executor_of_its_kind() -> None:
    answers = Answers()
    router = Router(TimedExecutor({"plain": 1.0}, frozenset()), {AnswerWork: answers})
    jobs = [job("plain"), job(work=AnswerWork("42", seconds=3.0))]
    runs = {run.job_id: run for run in in_cluster(router, jobs, a_minute)}
    assert {job_id: (run.state, run.result, run.attempt) for job_id, run in runs.items()} == {
        "plain": ("succeeded", b"null", 1),
        "asked": ("succeeded", b'"42"', 1),
    }
    assert answers.attempts == {}


@pytest.mark.parametrize(
    ("is_deaf", "calls"), [(False, ["stop: timeout"]), (True, ["stop: timeout", "stop: timeout", "kill"])]
)
def test_it_is_stopped_through_the_same_steps(is_deaf: bool, calls: list[str]) -> None:
    answers = Answers()
    answers.is_deaf = is_deaf
    router = Router(TimedExecutor({}, frozenset()), {AnswerWork: answers})
    (run,) = in_cluster(router, [job(work=AnswerWork("late", seconds=1000.0), max_runtime=5.0, grace=1.0)], a_minute)
    assert (run.state, answers.calls, answers.attempts) == ("timeout", calls, {})


def test_the_next_worker_of_that_id_adopts_attempts_that_have_outlived_theirs() -> None:
    answers = Answers()
    router = Router(TimedExecutor({}, frozenset()), {AnswerWork: answers})

    async def replace_worker(cluster: VirtualCluster) -> None:
        await asyncio.sleep(5.0)
        (attempt,) = answers.attempts
        cluster._hosts[0][0].abandon()
        follower = Host(cluster.bus, router, {}, HostSettings(worker_id="w0", heartbeat_interval=1e10), cluster.clock)
        await router.open(follower.report)
        working = asyncio.create_task(follower.run())
        await asyncio.sleep(1.0)
        assert list(answers.attempts) == [attempt]
        await asyncio.sleep(54.0)
        follower.abandon()
        await working

    (run,) = in_cluster(router, [job(work=AnswerWork("42", seconds=30.0))], replace_worker)
    assert (run.state, run.result, run.attempt) == ("succeeded", b'"42"', 1)


def test_every_kind_of_work_but_functions_has_an_executor() -> None:
    assert executors(ExecutorOptions()).keys() == {kind for kind in get_args(Work) if not kind.is_function}
    assert Router(ProcessPool(ExecutorOptions(), 1), {}).adopt() == []

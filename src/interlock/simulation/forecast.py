"""What would run when: jobs on virtual time, with the scheduler and the workers that run them otherwise.

Only what they stand on is another: the clock, the wires between them, the store, and attempts that last as long as they
are said to. Nothing goes wrong by itself here; for that there is `simulate`.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from interlock.core import fire_times, schedule_table
from interlock.core.state import Limits
from interlock.engine.catalog import Catalog, Entry
from interlock.engine.engine import Engine
from interlock.engine.metrics import Metrics
from interlock.engine.settings import EngineSettings
from interlock.engine.stall import StallWatch
from interlock.model.error import InterlockError
from interlock.model.job import Job
from interlock.model.run import Now
from interlock.ports.clock import Clock
from interlock.simulation.forecast_executor import TimedExecutor
from interlock.simulation.forecast_model import Forecast, Plan, TooManyRuns
from interlock.simulation.forecast_record import Record, RecordingStore
from interlock.simulation.forecast_summary import summary
from interlock.simulation.link import Network, SimulatedBus
from interlock.simulation.loop import Process, VirtualLoop
from interlock.simulation.trace import Trace
from interlock.worker.host import Host, HostSettings

MOST_RUNS = 2_000_000
SAMPLE = 2000
"""occurrences of a job that are looked up to estimate how many there are"""
LONGEST_AFTER = 86400.0
"""seconds for which runs that have not ended are watched beyond the end"""
LOOK = 60.0
"""seconds between two looks whether they have"""
NEVER = 1e10
MOST_TASKS = 10_000
"""above the workers, of which each has three"""


def forecast(jobs: Iterable[Job], plan: Plan) -> Forecast:
    """Let the jobs that have a schedule run from the start of the plan to its end."""
    known = {job.id: job for job in jobs if job.schedule is not None}
    check_size(known.values(), plan)
    record = Record(known, plan)
    loop = _Loop()
    with _quiet():
        try:
            loop.run_until_complete(_Rehearsal(known, plan, record, loop).run())
        finally:
            loop.close()
    return summary(list(known.values()), plan, record)


def check_size(jobs: Iterable[Job], plan: Plan) -> int:
    """About how many runs there would be; refused if they are too many."""
    counts = {job.id: estimate(job, plan) for job in jobs}
    total = sum(counts.values())
    if total > MOST_RUNS:
        most = max(counts, key=lambda job_id: counts[job_id])
        raise TooManyRuns(total, MOST_RUNS, most, counts[most])
    return total


def estimate(job: Job, plan: Plan) -> int:
    """How often it fires; of one that does so very often, by how often it does in the beginning."""
    if job.schedule is None:
        return 0
    found = fire_times.times_between(job.schedule, plan.start, plan.start, plan.until, SAMPLE)
    if len(found) <= SAMPLE:
        return len(found)
    return round((len(found) - 1) * (plan.until - plan.start) / (found[-1] - found[0]))


class _Loop(VirtualLoop):
    most_at_one_instant = 50_000_000
    """many jobs may fire at the same time"""

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Those that have ended are let go from time to time: there is one for every commit."""
        super().keep(task)
        if len(self._tasks) > MOST_TASKS:
            self._tasks = [task for task in self._tasks if not task.done()]


class _Clock(Clock):
    def __init__(self, loop: VirtualLoop, start: float) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> Now:
        elapsed = self._loop.time()
        return Now(self._start + elapsed, elapsed)


class _Wires(Network):
    def delay(self) -> float:
        """What is sent is there: only what the jobs themselves do takes time."""
        return 0.0


class _NeverStands(StallWatch):
    """Time passes only when something happens, and that is no reason to suspect anything."""

    def start(self) -> None:
        pass

    def notice(self, now: Now, commands: list[Any]) -> None:
        pass


class _Metrics(Metrics):
    """An error from which a scheduler would recover ends a forecast."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def failed(self, error: InterlockError) -> None:
        self._loop.halt(error)


class _Rehearsal:
    """The scheduler and its workers, from the first moment to the last."""

    def __init__(self, jobs: dict[str, Job], plan: Plan, record: Record, loop: VirtualLoop) -> None:
        self._plan = plan
        self._record = record
        self._loop = loop
        self._jobs = [job for job in jobs.values() if not _is_past(job, plan.start)]
        self._network = _Wires(loop, Random(0), Trace(loop))
        self._hosts: list[Host] = []
        self._store = RecordingStore(record.note)
        self._clock = _Clock(loop, plan.start)
        self._engine = Engine(
            store=self._store,
            leases=self._store,
            clock=self._clock,
            rng=Random(0),
            catalog=Catalog([Entry(job, lambda payload: None) for job in self._jobs]),
            settings=EngineSettings(
                lanes=plan.lanes,
                limits=Limits(heartbeat_interval=NEVER),
                lease_ttl=NEVER,
                longest_wait=NEVER,
            ),
        )
        self._engine.metrics = _Metrics(loop)
        self._engine._stall = _NeverStands(self._clock)

    async def run(self) -> None:
        self._remember()
        process = Process(self._loop, "scheduler")
        await SimulatedBus(self._network, process).listen(self._engine.links)
        await self._engine.start()
        workers = [self._start_worker(number) for number in range(self._plan.workers)]
        scheduler = process.spawn(self._engine.run())
        await self._pass_the_time()
        self._engine.stop()
        await scheduler
        self._record.close(self._store.runs_by_id)
        for host in self._hosts:
            host.abandon()
        await asyncio.gather(*workers)

    async def _pass_the_time(self) -> None:
        await asyncio.sleep(self._plan.until - self._plan.start)
        for _ in range(int(LONGEST_AFTER / LOOK)):
            if not self._record.unfinished():
                break
            await asyncio.sleep(LOOK)

    def _remember(self) -> None:
        """Jobs are taken to have been there before, so that one that fires at the very start does so."""
        start, before = self._plan.start, self._plan.start - 1e-6
        for job in self._jobs:
            if job.schedule is not None and job.schedule.cron is not None:
                first = fire_times.following(job.schedule, start, before)
                self._store.schedules[job.id] = schedule_table.Entry(job, 0, start, before, first).row()

    def _start_worker(self, number: int) -> "asyncio.Task[None]":
        plan = self._plan
        process = Process(self._loop, f"worker-{number}")
        executor = TimedExecutor({job_id: one.seconds for job_id, one in plan.lengths.items()}, plan.failing)
        settings = HostSettings(
            worker_id=f"w{number}", slots=plan.slots, processes=plan.processes, heartbeat_interval=NEVER
        )
        host = Host(SimulatedBus(self._network, process), executor, [job.id for job in self._jobs], settings)
        self._hosts.append(host)
        return process.spawn(_work(host, executor))


async def _work(host: Host, executor: TimedExecutor) -> None:
    await executor.start(host.report)
    await host.run()
    await executor.close()


def _is_past(job: Job, start: float) -> bool:
    return job.schedule is not None and job.schedule.at is not None and job.schedule.at < start


@contextmanager
def _quiet() -> Iterator[None]:
    """What the scheduler would log is told by the forecast."""
    logger = logging.getLogger("interlock")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

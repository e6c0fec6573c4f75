"""A forecast: the runs that a set of jobs would have, their times, and the causes of their delays.

The scheduler and the workers are the real ones. Only their clock, links, store and attempts are replaced.
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
from interlock.engine.engine import Engine, EngineSettings
from interlock.engine.metrics import Metrics
from interlock.engine.stall import StallWatch
from interlock.model.error import InterlockError
from interlock.model.job import Job
from interlock.model.run import Now
from interlock.simulation.forecast_model import Forecast, Plan, TooManyRuns
from interlock.simulation.forecast_record import Record, RecordingStore
from interlock.simulation.forecast_summary import summary
from interlock.simulation.virtual import TimedExecutor, VirtualBus, VirtualClock, VirtualLoop
from interlock.worker.host import Host, HostSettings

MOST_RUNS = 2_000_000
SAMPLE = 2000  # occurrences of a job from which its total is estimated
LONGEST_AFTER = 86400.0  # seconds beyond the end for which unfinished runs are followed
LOOK = 60.0  # seconds between two checks for unfinished runs
NEVER = 1e10


def forecast(jobs: Iterable[Job], plan: Plan) -> Forecast:
    """Run the scheduled jobs from the start of the plan to its end, on virtual time."""
    known = {job.id: job for job in jobs if job.schedule is not None}
    check_size(known.values(), plan)
    record = Record(known, plan)
    with _quiet(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_rehearse(list(known.values()), plan, record))
    return summary(list(known.values()), plan, record)


def check_size(jobs: Iterable[Job], plan: Plan) -> int:
    """Estimate the number of runs; raise `TooManyRuns` above the limit."""
    counts = {job.id: estimate(job, plan) for job in jobs}
    total = sum(counts.values())
    if total > MOST_RUNS:
        most = max(counts, key=counts.__getitem__)
        raise TooManyRuns(total, MOST_RUNS, most, counts[most])
    return total


def estimate(job: Job, plan: Plan) -> int:
    """Count the job's occurrences; beyond `SAMPLE` of them, extrapolate."""
    if job.schedule is None:
        return 0
    found = fire_times.times_between(job.schedule, plan.start, plan.start, plan.until, SAMPLE)
    if len(found) <= SAMPLE:
        return len(found)
    return round((len(found) - 1) * (plan.until - plan.start) / (found[-1] - found[0]))


class _NoStalls(StallWatch):
    """Virtual time jumps, and no jump is a stall."""

    def start(self) -> None: ...

    def notice(self, now: Now, commands: list[Any]) -> None: ...


class _Metrics(Metrics):
    def failed(self, error: InterlockError) -> None:
        """End the forecast with an error from which a scheduler would recover."""
        raise error


async def _rehearse(jobs: list[Job], plan: Plan, record: Record) -> None:
    """Start the scheduler and its workers, let the time pass, stop them."""
    jobs = [one for one in jobs if not (one.schedule and one.schedule.at is not None and one.schedule.at < plan.start)]
    store = _store(jobs, plan, record)
    clock = VirtualClock(asyncio.get_running_loop(), plan.start)
    limits = Limits(heartbeat_interval=NEVER)
    engine = Engine(
        store=store,
        leases=store,
        clock=clock,
        rng=Random(0),
        catalog=Catalog([Entry(job, lambda payload: None) for job in jobs], plan.lanes),
        settings=EngineSettings(limits=limits, lease_ttl=NEVER, longest_wait=NEVER),
    )
    engine.metrics = _Metrics()
    engine._stall = _NoStalls(clock)
    bus = VirtualBus()
    await bus.listen(engine.links)
    await engine.start()
    hosts = [_host(f"w{number}", bus, jobs, plan) for number in range(plan.workers)]
    tasks = [asyncio.create_task(_work(*one)) for one in hosts]
    scheduler = asyncio.create_task(engine.run())
    await asyncio.sleep(plan.until - plan.start)
    for _ in range(int(LONGEST_AFTER / LOOK)):
        if not record.unfinished():
            break
        await asyncio.sleep(LOOK)
    engine.stop()
    await scheduler
    record.close(store.runs_by_id)
    for host, _ in hosts:
        host.abandon()
    await asyncio.gather(*tasks)


def _store(jobs: Iterable[Job], plan: Plan, record: Record) -> RecordingStore:
    """Make a store that already knows the cron jobs, so that one due at the very start fires."""
    store, before = RecordingStore(record.note), plan.start - 1e-6
    for job in jobs:
        if job.schedule is not None and job.schedule.cron is not None:
            first = fire_times.following(job.schedule, plan.start, before)
            store.schedules[job.id] = schedule_table.Entry(job, 0, plan.start, before, first).row()
    return store


def _host(worker_id: str, bus: VirtualBus, jobs: Iterable[Job], plan: Plan) -> tuple[Host, TimedExecutor]:
    executor = TimedExecutor({job_id: length.seconds for job_id, length in plan.lengths.items()}, plan.failing)
    settings = HostSettings(worker_id=worker_id, slots=plan.slots, processes=plan.processes, heartbeat_interval=NEVER)
    return Host(bus, executor, [job.id for job in jobs], settings), executor


async def _work(host: Host, executor: TimedExecutor) -> None:
    await executor.start(host.report)
    await host.run()
    await executor.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the scheduler's log: the forecast itself reports what it would say."""
    logger = logging.getLogger("interlock")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

"""A forecast: the runs that a set of jobs would have, their times, and the causes of their delays.

`interlock simulate` runs the real engine and the real worker host on a virtual clock, with attempts that only take
time.
"""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random

from interlock.core.timetable import table
from interlock.engine.catalog import Catalog, CatalogEntry
from interlock.model.job import Job
from interlock.simulation.forecast_model import Forecast, Plan, TooManyRuns
from interlock.simulation.forecast_record import ForecastRecord, RecordingStore, summary
from interlock.simulation.virtual import TimedExecutor, VirtualLoop
from interlock.simulation.virtual_cluster import VirtualCluster, quiet

MOST_RUNS = 2_000_000
SAMPLE = 2000  # occurrences of a job from which its total is estimated
LONGEST_AFTER = 86400.0  # seconds beyond the end for which unfinished runs are followed
LOOK = 60.0  # seconds between two checks for unfinished runs


def forecast(jobs: Iterable[Job], plan: Plan) -> Forecast:
    """Run the scheduled jobs from the start of the plan to its end, on virtual time. Other jobs run if their actions
    and checks need them; hooks are answered with 200."""
    known = {job.id: job for job in jobs}
    check_size(known.values(), plan)
    record = ForecastRecord(known, plan)
    with quiet(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
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
    found = table.times_between(job.schedule, plan.start, plan.start, plan.until, SAMPLE)
    if len(found) <= SAMPLE:
        return len(found)
    return round((len(found) - 1) * (plan.until - plan.start) / (found[-1] - found[0]))


async def _rehearse(jobs: list[Job], plan: Plan, record: ForecastRecord) -> None:
    """Start the scheduler and its workers, let the time pass, stop them."""
    jobs = [job for job in jobs if not (job.schedule and job.schedule.at is not None and job.schedule.at < plan.start)]
    store = _store(jobs, plan, record)
    catalog = Catalog([CatalogEntry(job, lambda payload: None) for job in jobs], plan.lanes, tenants=plan.tenants)
    cluster = VirtualCluster(store, catalog, plan.start, Random(0))
    lengths = {job_id: length.seconds for job_id, length in plan.lengths.items()}
    known = [job.function_of or job.id for job in jobs]
    for _ in range(plan.workers):
        executor = TimedExecutor(lengths, plan.failing)
        cluster.add_worker(executor, known, plan.slots, processes=plan.processes)
    await cluster.start()
    await asyncio.sleep(plan.until - plan.start)
    for _ in range(int(LONGEST_AFTER / LOOK)):
        if not record.unfinished():
            break
        await asyncio.sleep(LOOK)
    await cluster.stop()
    record.close(store.runs_by_id)


def _store(jobs: Sequence[Job], plan: Plan, record: ForecastRecord) -> RecordingStore:
    """Make a store that already knows the cron jobs, so that a job due at the very start fires."""
    remembered = {job.id for job in jobs if job.constraints.require_previous_success}
    store, before = RecordingStore(record.note, remembered), plan.start - 1e-6
    for job in jobs:
        if job.schedule is not None and job.schedule.cron is not None:
            first = table.following(job.schedule, plan.start, before)
            store.schedules[job.id] = table.TimetableEntry(job, 0, plan.start, before, first).row()
    return store

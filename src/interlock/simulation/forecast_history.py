"""How long the runs of jobs usually take, by what a database remembers of them."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from interlock.model.state import State
from interlock.ports.store import Reader, RunFilter
from interlock.simulation.forecast_model import Length
from interlock.stores.sqlite.reader import SqliteReader

LAST = 20
"""how many of the latest runs that succeeded are looked at"""
MOST_PAGES = 20
"""pages that are looked through for them"""


def lengths_in(database: str, jobs: Iterable[str]) -> dict[str, Length]:
    """The median of each job's latest runs that succeeded; jobs without any are left out."""
    return asyncio.run(_read(database, list(jobs)))


async def _read(database: str, jobs: list[str]) -> dict[str, Length]:
    reader = SqliteReader(database, threads=1)
    await reader.open()
    try:
        found = {job_id: await _of_job(reader, job_id) for job_id in jobs}
    finally:
        await reader.close()
    name = Path(database).name
    return {
        job_id: Length(round(median(taken), 3), f"median of {len(taken)} run{'s' * (len(taken) > 1)} in {name}")
        for job_id, taken in found.items()
        if taken
    }


async def _of_job(reader: Reader, job_id: str) -> list[float]:
    taken: list[float] = []
    wanted = RunFilter(job_id=job_id, states=frozenset({State.SUCCEEDED}))
    before: int | None = None
    for _ in range(MOST_PAGES):
        page = await reader.runs(wanted, before, LAST - len(taken))
        taken += [
            max(0.0, run.ended_at - run.started_at)
            for run in page.runs
            if run.ended_at is not None and run.started_at is not None
        ]
        before = page.next
        if before is None or len(taken) >= LAST:
            break
    return taken

"""A scheduler deletes old runs by itself, as many as its settings say."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interlock.model.run import Run
from interlock.model.state import State
from interlock.ports.store import MOST_PRUNED, RunFilter
from interlock.stores.sqlite import SqliteReader, SqliteStore
from tests.contract.conftest import AnyStore, opened
from tests.contract.samples import created, make_run, take
from tests.helpers.jobs import app
from tests.helpers.places import run_async, until_true

MANY = MOST_PRUNED + 50
"""more than go at once"""


def runs_of(job_id: str, count: int, days_ago: float) -> list[Run]:
    at = time.time() - days_ago * 86400
    times = {"created_at": at - 60, "ended_at": at}
    return [make_run(f"{job_id} {number}", job_id=job_id, state=State.SUCCEEDED, **times) for number in range(count)]


@pytest.mark.behaviour("TIM-16")
@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, {"old": 5, "many": MANY, "young": 2}),
        ({"keep_runs": 0, "keep_for": "30d"}, {"many": MANY, "young": 2}),
        ({"keep_runs": 3, "keep_for": 0}, {"ancient": 3, "old": 3, "many": 3, "young": 2}),
    ],
)
def test_old_runs_are_deleted_while_a_scheduler_runs(folder: Path, given: dict[str, Any], left: dict[str, int]) -> None:
    path = folder / "interlock.db"

    async def fill(store: AnyStore) -> None:
        lease = await take(store)
        runs = [*runs_of("ancient", 4, 400), *runs_of("old", 5, 80), *runs_of("many", MANY, 2)]
        await store.commit(created(*runs, *runs_of("young", 2, 1)), lease)

    async def body() -> None:
        await opened(SqliteStore(path), fill)
        reader = SqliteReader(path)
        await reader.open()
        seen: set[int] = set()

        async def done() -> bool:
            runs = (await reader.runs(RunFilter(), None, 5000)).runs
            seen.add(len(runs))
            return Counter(run.job_id for run in runs) == left

        async with app.running(str(path), workers=0, http="off", **given):
            await until_true(done, f"no more is left than {left}")
        await reader.close()
        assert min(seen) == sum(left.values())

    run_async(body())

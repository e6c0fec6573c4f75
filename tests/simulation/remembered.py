"""A database with runs of the past in it."""

from pathlib import Path

from interlock.model.run import Run
from interlock.model.state import State
from interlock.stores.sqlite import SqliteStore
from tests.contract.samples import created, make_run, take
from tests.helpers.places import run_async


def ended(number: int, job_id: str, took: float, state: State = State.SUCCEEDED) -> Run:
    at = 1000.0 + number
    return make_run(f"{job_id}{number}", job_id=job_id, state=state, started_at=at, ended_at=at + took)


def remember(database: Path, *runs: Run) -> None:
    async def write() -> None:
        store = SqliteStore(database)
        await store.open()
        lease = await take(store)
        await store.commit(created(*runs), lease)
        await store.close()

    run_async(write())

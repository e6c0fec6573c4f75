"""Commits of 1,000 runs, from their submit to their end, on SQLite and on PostgreSQL, in turn.

`python -m bench.commits URL` takes the URL of a PostgreSQL server on this machine, and makes a schema of its own there.
It prints µs for each run: processor time of the caller, of the server's process for the writing connection, and the
time that passed.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import uvloop

from interlock.core.decisions import Batch
from interlock.core.transition import UPDATE_ROW, created_row
from interlock.model.run import Run, Transition
from interlock.model.state import State
from interlock.ports.leases import Lease
from interlock.stores.postgres import PostgresStore
from interlock.stores.sqlite import SqliteStore

RUNS = 1000
ROUNDS = 20
WARM = 3  # rounds that do not count
Store = SqliteStore | PostgresStore


def batches(first: int, position: int) -> list[Batch]:
    """Return the commits of a busy scheduler: the runs are created and dispatched, then begin, then succeed."""
    runs = [_run(f"{first + number:032x}", float(first)) for number in range(RUNS)]
    found = [Batch(created=[created_row(run) for run in runs], position=position)]
    found[0].keys.taken = [("default", f"call-{run.id}", run.id, b"0123456789abcdef", 1.0) for run in runs]
    for run in runs:
        run.state, run.previous, run.seq, run.started_at = State.RUNNING, State.DISPATCHED, 4, 2.0
    found.append(Batch(updated={"execution": [UPDATE_ROW["execution"](run) for run in runs]}, position=position + RUNS))
    for run in runs:
        run.state, run.previous, run.seq, run.ended_at, run.result = State.SUCCEEDED, State.RUNNING, 6, 3.0, b'"done"'
    end = {"execution": [UPDATE_ROW["execution"](run) for run in runs]}
    found.append(Batch(updated=end, position=position + 2 * RUNS))
    for seq, batch in zip((3, 4, 6), found, strict=True):
        entry = Transition(seq, State.SCHEDULED, State.DISPATCHED, 1.0, 1, "assigned", "scheduler")
        batch.history = [(run.id, [entry, entry]) for run in runs]
    return found


def _run(run_id: str, at: float) -> Run:
    return Run(
        id=run_id, job_id="report", tenant="default", session=None, idempotency_key=f"call-{run_id}", created_at=at,
        scheduled_at=at, payload=b'{"pages":3}', delay=None, created_by="local", deadline_at=None, job_version="1" * 32,
        lane="main", state=State.DISPATCHED, previous=State.SCHEDULED, reason="assigned", actor="scheduler",
        changed_at=at, seq=3, attempt=1, fence=1, worker_id="w1",
    )  # fmt: skip


def _spent(store: Store) -> tuple[float, float, float]:
    server = 0.0
    if isinstance(store, PostgresStore) and store._writer is not None:
        server = int(Path(f"/proc/{store._writer.get_server_pid()}/schedstat").read_text().split()[0]) / 1e9
    return time.process_time(), server, time.perf_counter()


async def _measure(store: Store, lease: Lease, number: int) -> list[float]:
    made = batches(number * RUNS, 1 + number * 3 * RUNS)
    before = _spent(store)
    for batch in made:
        await store.commit(batch, lease)
    return [(after - start) / RUNS * 1e6 for start, after in zip(before, _spent(store), strict=True)]


async def main(url: str) -> None:
    with TemporaryDirectory() as folder:
        other = f"{url}{'&' if '?' in url else '?'}schema=bench_{uuid4().hex}"
        stores: dict[str, Store] = {"SQLite": SqliteStore(Path(folder) / "runs.db"), "PostgreSQL": PostgresStore(other)}
        leases: dict[str, Lease] = {}
        times: dict[str, list[list[float]]] = {name: [] for name in stores}
        for name, store in stores.items():
            await store.open()
            lease: Any = await store.take("main", "bench", "token", 3600.0)
            leases[name] = lease
        for number in range(ROUNDS + WARM):
            for name in list(stores)[:: 1 if number % 2 else -1]:
                times[name].append(await _measure(stores[name], leases[name], number))
        for name, store in stores.items():
            medians = [sorted(column)[ROUNDS // 2] for column in zip(*times[name][WARM:], strict=True)]
            print("{:<12} caller {:6.1f}  server {:6.1f}  elapsed {:7.1f}".format(name, *medians))  # noqa: T201
            await store.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))

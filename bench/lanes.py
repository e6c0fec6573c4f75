"""Lanes and sessions: long backlogs, many sessions, and the cost of picking the next run."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from interlock import runtime
from interlock.bench.jobs import app
from interlock.bench.measures import submit_batches
from interlock.bench.report import ReportRow, say
from interlock.bench.server import Server, running
from interlock.core.state import CoreLimits
from interlock.core.step import new_state, step
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.lane import LaneSpec
from interlock.model.run import Now
from interlock.wire.command import Create, Define, WorkerUp
from interlock.wire.message import Dispatch, Finished
from interlock.wire.request import NewRun

SESSIONS, OF_EACH = 100_000, 3
SHORT, LONG = 10_000, 1_000_000
BATCH = 1000
START_LIMIT = 120.0
PICKS = 1000
SIZES = (100, 1_000, 10_000, 100_000)
RATIOS = (("sessions", "plain"), ("long", "short"))
LABELS = {
    "plain": "runs end to end without sessions, runs/s",
    "sessions": f"the same, in {SESSIONS:,} sessions of {OF_EACH}, runs/s",
    "short": f"a backlog of {SHORT:,}, drained, runs/s",
    "short_memory": "  memory of each, bytes",
    "short_start": "  start after kill -9, s",
    "long": f"a backlog of {LONG:,}, drained, runs/s",
    "long_memory": "  memory of each, bytes",
    "long_start": "  start after kill -9, s",
}


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    found: dict[str, list[float]] = {name: [] for name in LABELS}
    for number in range(rounds):
        taken = {name: _end_to_end(folder, name == "sessions") for name in ("plain", "sessions")}
        for name, runs in (("short", SHORT), ("long", LONG)):
            taken |= zip((f"{name}_memory", f"{name}_start", name), _backlog(folder, runs), strict=True)
        for name, figure in taken.items():
            found[name].append(round(figure, 2))
            say(f"round {number + 1}: {LABELS[name].strip()}: {figure:,.2f}")
    ratios = {
        f"{above}/{below}": round(median(a / b for a, b in zip(found[above], found[below], strict=True)), 2)
        for above, below in RATIOS
    }
    picks = {kind: {size: round(_pick(make, size), 1) for size in SIZES} for kind, make in KINDS.items()}
    of_each = {above: f"{ratios[f'{above}/{below}']} of the line before" for above, below in RATIOS}
    table: list[ReportRow] = [(LABELS[name], f"{median(one):,}", of_each.get(name, "")) for name, one in found.items()]
    for kind, took in picks.items():
        table += [(f"start and end a run, {size:,} {kind} wait, µs", str(one), "") for size, one in took.items()]
    return table, {"rounds": found, "ratios": ratios, "picks": picks}


def _end_to_end(folder: Path, sessions: bool) -> float:
    """Return runs a second; the three runs of a session are far from each other in the order of arrival."""
    runs = SESSIONS * OF_EACH
    keys = (f"chat:{number % SESSIONS}" if sessions else None for number in range(runs))
    with running(folder, workers=1) as server:
        begin = time.perf_counter()
        runtime.run(submit(server, runs, lambda: new_run("bench.noop", session=next(keys))))
        _until_ended(server)
        server.check("succeeded", runs)
        return runs / (time.perf_counter() - begin)


async def submit(server: Server, runs: int, make: Callable[[], NewRun]) -> None:
    async with app.connected(server.socket):
        await submit_batches(runs, make)


def _until_ended(server: Server) -> None:
    while not server.all_ended():
        time.sleep(0.02)


def _backlog(folder: Path, runs: int) -> tuple[float, float, float]:
    """Let runs pile up, kill the scheduler, start it again with a worker; return bytes of memory for each waiting run,
    seconds until the scheduler answers, and the runs a second from the first start on."""
    with running(folder, workers=0) as server:
        before = server.resident()
        runtime.run(submit(server, runs, lambda: new_run("bench.noop")))
        memory = (server.resident() - before) / runs
        os.kill(server.pid, signal.SIGKILL)
    begin = time.perf_counter()
    with running(folder, workers=1, new=False, limit=START_LIMIT) as server:
        start = time.perf_counter() - begin
        _until_ended(server)
        (first, last) = server.reader.execute("SELECT min(started_at), max(ended_at) FROM runs").fetchone()
        server.check("succeeded", runs)
    return memory, start, runs / (last - first)


def _pick(make: Callable[[int], list[NewRun]], size: int) -> float:
    """Return µs of processor time to settle the end of a run and to start the next one, one at a time, while others
    wait. Only the core counts: no store, no process."""
    lanes = {name: LaneSpec(limit=1) for name in ("main", *(f"lane{number}" for number in range(size)))}
    state = new_state(CoreLimits(session_patterns={"*": {"debounce": 0.0}}), lanes)
    rng, elapsed = Random(0), 1.0
    new = make(size)
    # With the job "work3" its runs are in "lane3".
    jobs = [Job(id=one, lane=f"lane{one[4:]}" if one[4:] else "main") for one in {run.job_id: 0 for run in new}]
    step(state, [("", Define(0, jobs))], Now(1e9, elapsed), rng)
    step(state, [("", Create(1, new, "bench", 2))], Now(1e9, elapsed), rng)
    # One slot: a run starts when the one before has ended, whatever lane it is in.
    worker = WorkerUp("one", 1, 1, {job.id: "" for job in jobs}, [], False)
    sent = step(state, [("", worker)], Now(1e9, elapsed), rng).sends
    begin = time.process_time()
    for _ in range(min(size, PICKS)):
        (dispatch,) = [one for messages in sent.values() for one in messages if isinstance(one, Dispatch)]
        elapsed += 0.001
        ended = [("one", Finished(dispatch.run_id, dispatch.fence, "succeeded"))]
        sent = step(state, ended, Now(1e9 + elapsed, elapsed), rng).sends
    return (time.process_time() - begin) / min(size, PICKS) * 1e6


KINDS: dict[str, Callable[[int], list[NewRun]]] = {
    "runs": lambda size: [NewRun("work", b"{}")] * (size + 1),
    "lanes": lambda size: [NewRun(f"work{number % size}", b"{}") for number in range(size + 1)],
    "tenants": lambda size: [NewRun("work", b"{}", tenant=f"tenant{number}") for number in range(size + 1)],
    "sessions": lambda size: [NewRun("work", b"{}", session=f"{number}") for number in range(size + 1)],
}

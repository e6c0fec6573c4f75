"""Routing: the cost of a choice among many workers, many links, and a tenant that floods a lane."""

import asyncio
import signal
import sys
import time
from collections.abc import Iterable
from itertools import cycle
from math import log10
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import msgspec

from bench.lanes import submit
from bench.routed import POOLS
from interlock import runtime
from interlock.bench.jobs import app
from interlock.bench.measures import PAUSE
from interlock.bench.report import ReportRow, percentile, say
from interlock.bench.server import Server, running, started, until
from interlock.core.state import CoreLimits
from interlock.core.step import new_state, step
from interlock.error import InterlockError
from interlock.interface.run_builder import new_run
from interlock.model.job import Job
from interlock.model.lane import LaneSpec
from interlock.model.pool import PoolSpec
from interlock.model.run import Now
from interlock.wire.command import Create, Define, WorkerUp
from interlock.wire.message import Dispatch, Finished
from interlock.wire.request import NewRun

PLOT = Path(__file__).parents[1] / "docs" / "routing.svg"
JOBS = "bench.routed:app"
WORKERS = (1, 10, 100, 1_000)
SLOTS = 1_000  # of all workers together; each has up to 100
WAITING = 10_000
BATCHES = 20
MANY = 200
FLOOD, FLOOD_BATCH = 100_000, 1_000
PROBES = 200
PHASES = ("idle", "submitted", "waiting")
TITLE = "end a run and dispatch the next, while 10,000 wait"
LANE = {"kind": "Lane", "id": "shared", "limit": 50}
REGIONS = ("", "eu", "us", "mars")  # that runs ask for; no worker is on Mars


def measure_all(folder: Path, runs: int, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    choices: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    rates: dict[int, list[float]] = {1: [], MANY: []}
    delays: dict[str, list[list[float]]] = {phase: [] for phase in PHASES}
    for number in range(rounds):
        for workers in WORKERS:
            choices[workers].append(choice(workers))
        for workers in rates if number % 2 else reversed(rates):
            rates[workers].append(end_to_end(folder, workers, runs))
        for phase, took in flood(folder).items():
            delays[phase].append(took)
        last = ", ".join(f"{workers}: {one[-1]:,.0f} runs/s" for workers, one in rates.items())
        late = ", ".join(f"{phase}: {percentile(one[-1], 0.99):.1f} ms" for phase, one in delays.items())
        say(f"round {number + 1}: workers {last}; p99 of submit to start, {late}")
    costs = {workers: round(median(one), 1) for workers, one in choices.items()}
    PLOT.write_text(plot(costs))
    ratio = round(median(many / one for many, one in zip(rates[MANY], rates[1], strict=True)), 2)
    rows: list[ReportRow] = [
        (f"end a run and dispatch the next, {WAITING:,} wait, workers: {workers:,}, µs", str(cost), "")
        for workers, cost in costs.items()
    ]
    for workers, one in rates.items():
        compared = "" if workers == 1 else f"{ratio} of the line before"
        rows.append((f"runs/s, simulated workers: {workers}", f"{median(one):,.0f}", compared))
    found = {
        phase: [median(percentile(one, share) for one in took) for share in (0.5, 0.99)]
        for phase, took in delays.items()
    }
    for phase, (middle, high) in found.items():
        what = {"idle": "idle", "submitted": f"another tenant submits {FLOOD:,}", "waiting": "they wait"}[phase]
        beyond = "" if phase == "idle" else f"p99 {high - found['idle'][1]:+.1f} ms"
        rows.append((f"submit to start, {what}, p50 and p99, ms", f"{middle:.1f} {high:.1f}", beyond))
    return rows, {"choice_us": costs, "rates": rates, "ratio": ratio, "delays_ms": found}


def choice(workers: int) -> float:
    """Return µs of processor time to end a run and to dispatch the next one, in the core alone. Ended runs are replaced
    by others of their kind, so that a part of the lane is always for workers that do not exist."""
    state = new_state(CoreLimits(), {"main": LaneSpec(limit=SLOTS)})
    rng, jobs = Random(1), [Job(id=f"topic{number}.work") for number in range(POOLS)]
    pools = {f"pool{number}": PoolSpec(topics=(f"topic{number}.*",)) for number in range(POOLS)}
    new = [_placed(rng.randrange(POOLS), rng) for _ in range(WAITING)]
    step(state, [("", Define(0, jobs, pools=pools))], Now(1e9, 1.0), rng)
    ups = [
        ("", WorkerUp(f"worker{number}", min(100, SLOTS // workers), 1, {job.id: "" for job in jobs}, [], False, number,
        f"pool{number % POOLS}", [], {"region": REGIONS[1 + number // POOLS % 2]}))
        for number in range(workers)
    ]  # fmt: skip
    sent = step(state, [*ups, ("client", Create(1, new, "bench", 2))], Now(1e9, 1.0), rng).sends
    took, count = 0.0, 0
    for number in range(BATCHES):
        runs = [(worker, one) for worker, all in sent.items() for one in all if isinstance(one, Dispatch)]
        kinds = [state.runs[one.run_id] for _, one in runs]
        again = [NewRun(run.job_id, b"{}", labels=dict(run.labels)) for run in kinds]
        ended = [(worker, Finished(one.run_id, one.fence, "succeeded")) for worker, one in runs]
        now = Now(1e9 + number / 1e3, 1.0 + number / 1e3)
        step(state, [("client", Create(1, again, "bench", 2))], now, rng)
        begin = time.process_time()
        sent = step(state, ended, now, rng).sends
        took += time.process_time() - begin
        count += len(runs)
    return took / count * 1e6


def _placed(topic: int, rng: Random) -> NewRun:
    region = rng.choice(REGIONS)
    return NewRun(f"topic{topic}.work", b"{}", labels={"placement.region": region} if region else {})


def end_to_end(folder: Path, workers: int, runs: int) -> float:
    """Return runs a second over simulated workers that have the same number of slots in all; several are in pools."""
    topics = cycle(f"topic{number}.noop" for number in range(POOLS))
    pools = [{"kind": "Pool", "id": f"pool{number}", "topics": [f"topic{number}.*"]} for number in range(POOLS)]
    with running(folder, 0, _documents(folder, pools if workers > 1 else ()), app=JOBS) as server:
        with started([sys.executable, "-m", "bench.routed", server.socket, str(workers)], signal.SIGTERM) as simulated:
            runtime.run(submit(server, FLOOD_BATCH, lambda: new_run(next(topics))))
            until(server.all_ended, simulated)
            begin = time.perf_counter()
            runtime.run(submit(server, runs, lambda: new_run(next(topics))))
            until(server.all_ended, simulated)
            taken = time.perf_counter() - begin
            server.check("succeeded", runs + FLOOD_BATCH)
    return runs / taken


def flood(folder: Path) -> dict[str, list[float]]:
    """Return milliseconds from submit to start of single runs, for each phase of another tenant's flood in their
    lane."""
    with running(folder, 1, _documents(folder), app=JOBS) as server:
        return runtime.run(_flood(server))


async def _flood(server: Server) -> dict[str, list[float]]:
    async with app.connected(server.socket):
        await _probe(20)
        found = {"idle": await _probe(PROBES), "submitted": list[float]()}
        with started([sys.executable, "-m", "bench.routing", server.socket]) as flooding:
            while flooding.poll() is None:
                took = await _probe(1)
                if server.reader.execute("SELECT 1 FROM runs WHERE tenant = 'large' LIMIT 1").fetchone():
                    found["submitted"] += took  # those before the first batch met an idle system
        found["waiting"] = await _probe(PROBES)
    if server.all_ended():
        raise InterlockError("bench: the flood has ended before the last measurement")
    return found


async def _probe(runs: int) -> list[float]:
    took = []
    for _ in range(runs):
        await asyncio.sleep(PAUSE)
        begin = time.monotonic_ns()
        run = await app.submit("short", tenant="small")
        took.append((await run.result(timeout=30) - begin) / 1e6)
    return took


async def _submit_flood(socket: str) -> None:
    """Submit all batches at once, as a careless tenant does."""
    async with app.connected(socket):
        batch = [new_run("short", tenant="large")] * FLOOD_BATCH
        await asyncio.gather(*(app.submit_many(batch) for _ in range(FLOOD // FLOOD_BATCH)))


def _documents(folder: Path, pools: Iterable[dict[str, Any]] = ()) -> Path:
    file = folder / "routing.yaml"
    file.write_bytes(b"\n---\n".join(map(msgspec.json.encode, (LANE, *pools))))
    return file


def plot(costs: dict[int, float]) -> str:
    """Draw µs over the logarithm of the number of workers: a straight line would be log n."""
    top = max(costs.values()) * 1.2
    points = [(60 + 140 * log10(workers), 260 - 220 * cost / top, workers, cost) for workers, cost in costs.items()]
    line = " ".join(f"{x:.0f},{y:.0f}" for x, y, *_ in points)
    texts = [(x, 280.0, f"{workers:,}") for x, _, workers, _ in points]
    texts += [(x, y - 10, f"{cost:.1f} µs") for x, y, _, cost in points]
    texts += [(270, 305, "workers in 10 pools, logarithmic"), (270, 20, TITLE)]
    return "".join(
        (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 540 315" font-family="sans-serif" font-size="13" ',
            'text-anchor="middle"><rect width="540" height="315" fill="#fff"/>',
            '<path d="M60 40V260H500" fill="none" stroke="#8c959f"/>',
            f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>',
            *(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="#1f6feb"/>' for x, y, *_ in points),
            *(f'<text x="{x:.0f}" y="{y:.0f}">{text}</text>' for x, y, text in texts),
            "</svg>\n",
        )
    )


if __name__ == "__main__":
    runtime.run(_submit_flood(sys.argv[1]))

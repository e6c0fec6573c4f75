"""Workflows: ten steps against ten runs that a client chains, many at once, and `for_each` against plain runs."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from interlock import runtime
from interlock.bench.jobs import app
from interlock.bench.measures import submit_batches
from interlock.bench.report import ReportRow, say
from interlock.bench.server import Server, running
from interlock.interface.run_builder import new_run

STEPS, CHAINS, AT_ONCE, ITEMS = 10, 30, 1000, 1000
DOCUMENTS = [
    {"kind": "Workflow", "id": "chain", "steps": [{"id": f"s{one}", "job": "bench.noop"} for one in range(STEPS)]},
    {
        "kind": "Workflow",
        "id": "each",
        "steps": [{"id": "all", "job": "bench.noop", "for_each": list(range(ITEMS)), "max_parallel": 100}],
    },
]
LABELS = {
    "chained": f"{STEPS} runs that a client chains, one chain at a time, chains/s",
    "graph": f"a workflow of {STEPS} steps, one at a time, workflows/s",
    "plain_cpu": f"{AT_ONCE * STEPS:,} plain runs, processor time of the scheduler's loop for each, µs",
    "graph_cpu": f"{AT_ONCE:,} workflows of {STEPS} steps at once, the same for each step, µs",
    "plain": f"{ITEMS:,} plain runs, runs/s",
    "each": f"for_each of {ITEMS:,} with 100 at once, items/s",
}
RATIOS = (("graph", "chained"), ("graph_cpu", "plain_cpu"), ("each", "plain"))


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    flows = folder / "flows.yaml"
    flows.write_bytes(b"\n---\n".join(msgspec.json.encode(document) for document in DOCUMENTS))
    found: dict[str, list[float]] = {name: [] for name in LABELS}
    for number in range(rounds):
        for name, measure in MEASURES.items():
            with running(folder, 1, flows) as server:
                figure = runtime.run(_connected(server, measure))
            found[name].append(round(figure, 2))
            say(f"round {number + 1}: {LABELS[name]}: {figure:,.2f}")
    ratios = {f"{above}/{below}": round(median(found[above]) / median(found[below]), 2) for above, below in RATIOS}
    shown = {above: f"{ratios[f'{above}/{below}']} of the line before" for above, below in RATIOS}
    table = [(LABELS[name], f"{median(figures):,}", shown.get(name, "")) for name, figures in found.items()]
    return table, {"rounds": found, "ratios": ratios}


async def _connected(server: Server, measure: Callable[[Server], Coroutine[Any, Any, float]]) -> float:
    async with app.connected(server.socket):
        await (await app.submit("bench.noop")).result()  # the worker is up
        return await measure(server)


async def _chained(server: Server) -> float:
    begin = time.perf_counter()
    for _ in range(CHAINS * STEPS):
        await (await app.submit("bench.noop")).result()
    return CHAINS / (time.perf_counter() - begin)


async def _graph(server: Server) -> float:
    begin = time.perf_counter()
    for _ in range(CHAINS):
        await (await app.submit("chain")).result()
    return CHAINS / (time.perf_counter() - begin)


async def _each(server: Server) -> float:
    begin = time.perf_counter()
    await (await app.submit("each")).result()
    return ITEMS / (time.perf_counter() - begin)


async def _plain(server: Server) -> float:
    begin = time.perf_counter()
    await submit_batches(ITEMS)
    await _until_ended(server)
    return ITEMS / (time.perf_counter() - begin)


def _processor_time(job: str, runs: int) -> Callable[[Server], Coroutine[Any, Any, float]]:
    async def measure(server: Server) -> float:
        before = _used(server.pid)
        await submit_batches(runs, lambda: new_run(job))
        await _until_ended(server)
        return (_used(server.pid) - before) / (AT_ONCE * STEPS) * 1e6

    return measure


def _used(pid: int) -> float:
    """Return the seconds of processor time of the main thread of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def _until_ended(server: Server) -> None:
    while not server.all_ended():  # noqa: ASYNC110 - it is another process that ends them
        await asyncio.sleep(0.01)


MEASURES: dict[str, Callable[[Server], Coroutine[Any, Any, float]]] = {
    "chained": _chained,
    "graph": _graph,
    "plain_cpu": _processor_time("bench.noop", AT_ONCE * STEPS),
    "graph_cpu": _processor_time("chain", AT_ONCE),
    "plain": _plain,
    "each": _each,
}

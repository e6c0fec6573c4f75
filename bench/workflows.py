"""Workflows: ten steps against ten runs that a client chains, many at once, `for_each` against plain runs, many that
wait for an event, and the same ten steps with DBOS."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import dbos_peer, installed
from bench.flow_jobs import CHAIN, EACH, FUNCTION, ITEMS, STEPS, WAIT, app
from interlock import runtime
from interlock.bench.measures import BATCH, submit_batches
from interlock.bench.report import ReportRow, say
from interlock.bench.server import Server, running
from interlock.interface.run_builder import new_run
from interlock.wiring.connection import connect

CHAINS, AT_ONCE, WAITING, BEFORE = 30, 1000, 10_000, 50_000
APP = "bench.flow_jobs:app"
RESTART_LIMIT = 60.0  # seconds
LABELS = {
    "chained": f"{STEPS} runs that a client chains, one chain at a time, ms",
    "graph": f"a graph of {STEPS} steps, one at a time, ms",
    "function": f"a function of {STEPS} steps, one at a time, ms",
    "plain_cpu": f"{AT_ONCE * STEPS:,} plain runs, processor time of the scheduler's loop for each, µs",
    "graph_cpu": f"{AT_ONCE:,} graphs of {STEPS} steps at once, the same for each step, µs",
    "function_cpu": f"{AT_ONCE:,} functions of {STEPS} steps at once, the same, µs",
    "plain": f"{ITEMS:,} plain runs, runs/s",
    "each": f"for_each of {ITEMS:,} with 100 at once, items/s",
    "graph_rate": f"{AT_ONCE:,} graphs at once, steps/s",
    "function_rate": f"{AT_ONCE:,} functions at once, steps/s",
    "dbos": "DBOS on SQLite, the same steps, one workflow at a time, steps/s",
    "dbos_at_once": f"DBOS on SQLite, {dbos_peer.AT_ONCE} workflows at once, steps/s",
    "memory": f"memory of the scheduler for each of {WAITING:,} graphs that wait for an event, bytes",
    "restart": "from its start after kill -9 until one of them has read an event and ended, s",
}
RATIOS = {
    "graph": ("chained", 1.0),
    "function": ("chained", 1.5),
    "graph_cpu": ("plain_cpu", 1.5),
    "function_cpu": ("plain_cpu", 2.5),
    "each": ("plain", 0.7),
    "dbos": ("graph_rate", 15.0),
    "dbos_at_once": ("graph_rate", 15.0),
}
"""by the measure beside which it is shown: the one that it is compared with, and the bound"""

Figures = dict[str, float]


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    flows = folder / "flows.yaml"
    flows.write_bytes(b"\n---\n".join(msgspec.json.encode(document) for document in (CHAIN, EACH, WAIT)))
    found: dict[str, list[float]] = {name: [] for name in LABELS}
    for number in range(rounds):
        taken: Figures = {}
        for measure in MEASURES if number % 2 else reversed(MEASURES):
            with running(folder, 1, flows, app=APP) as server:
                taken |= runtime.run(_connected(server, measure))
        taken |= _waiting(folder, flows)
        if installed(dbos_peer.PACKAGE):
            taken |= dbos_peer.measure(folder)
        for name, label in LABELS.items():
            if name in taken:
                found[name].append(round(taken[name], 2))
                say(f"round {number + 1}: {label}: {taken[name]:,.2f}")
    ratios = {name: ratio(found, name) for name in RATIOS if found[name]}
    missing = [name for name, figures in found.items() if not figures]
    table = [
        (LABELS[name], f"{median(figures):,}" if figures else "not installed", _shown(name, ratios))
        for name, figures in found.items()
    ]
    return table, {"rounds": found, "ratios": ratios, "missing": missing}


def ratio(found: dict[str, list[float]], name: str) -> float:
    """Return the median of each round's ratio. A peer is the divisor: its ratio says how often Interlock is as fast."""
    above, below = (RATIOS[name][0], name) if name.startswith("dbos") else (name, RATIOS[name][0])
    return round(median(a / b for a, b in zip(found[above], found[below], strict=True)), 2)


def _shown(name: str, ratios: dict[str, float]) -> str:
    if name not in ratios:
        return ""
    other, bound = RATIOS[name]
    if name.startswith("dbos"):
        return f"graphs at once are {ratios[name]}x; at least {bound} wanted"
    return f"{ratios[name]} of {other}; at {'least' if bound < 1 else 'most'} {bound} wanted"


async def _connected(server: Server, measure: Callable[[Server], Awaitable[Figures]]) -> Figures:
    async with app.connected(server.socket):
        await (await app.submit("bench.noop")).result()  # the worker is up
        return await measure(server)


def _one_at_a_time(name: str, job: str, runs: int) -> Callable[[Server], Awaitable[Figures]]:
    async def measure(server: Server) -> Figures:
        begin = time.perf_counter()
        for _ in range(CHAINS * runs):
            await (await app.submit(job)).result()
        return {name: (time.perf_counter() - begin) / CHAINS * 1000}

    return measure


def _at_once(name: str, job: str, runs: int, of_each: int) -> Callable[[Server], Awaitable[Figures]]:
    async def measure(server: Server) -> Figures:
        before, begin = _used(server.pid), time.perf_counter()
        await submit_batches(runs, lambda: new_run(job))
        await _until_ended(server)
        took, used = time.perf_counter() - begin, _used(server.pid) - before
        server.check("succeeded", runs * of_each + 1)
        return {f"{name}_rate": AT_ONCE * STEPS / took, f"{name}_cpu": used / (AT_ONCE * STEPS) * 1e6}

    return measure


async def _each(server: Server) -> Figures:
    begin = time.perf_counter()
    await app.submit("each")
    await _until_ended(server)
    return {"each": ITEMS / (time.perf_counter() - begin)}


async def _plain(server: Server) -> Figures:
    begin = time.perf_counter()
    await submit_batches(ITEMS)
    await _until_ended(server)
    return {"plain": ITEMS / (time.perf_counter() - begin)}


def _waiting(folder: Path, flows: Path) -> Figures:
    """Let workflows wait for an event, kill the scheduler, start it again, and send an event."""
    with running(folder, 1, flows, app=APP) as server:
        runtime.run(_fill(server))
        before = server.resident()
        run_ids = runtime.run(_wait(server, WAITING))
        memory = (server.resident() - before) / WAITING
        os.kill(server.pid, signal.SIGKILL)
    begin = time.perf_counter()
    with running(folder, 0, flows, app=APP, new=False, limit=RESTART_LIMIT) as server:
        runtime.run(_send(server, run_ids[0]))
        restart = time.perf_counter() - begin
    return {"memory": memory, "restart": restart}


async def _fill(server: Server) -> None:
    """Fill the cache of the database, which is bounded, and so no part of what a workflow needs. Few runs are live at
    once: memory that they leave would hide what workflows need."""
    async with app.connected(server.socket):
        for _ in range(0, BEFORE, 5 * BATCH):
            await submit_batches(5 * BATCH)
            await _until_ended(server)


async def _wait(server: Server, count: int) -> list[str]:
    run_ids: list[str] = []
    async with app.connected(server.socket):
        for _ in range(0, count, BATCH):
            run_ids += [run.id for run in await app.submit_many([("wait", None)] * BATCH)]
    for run_id in run_ids:
        while not _is_in(server, f"{run_id}@event.go.1", "under_way"):  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.01)
    return run_ids


async def _send(server: Server, run_id: str) -> None:
    connection = await connect(server.socket)
    await connection.send_event(run_id, "go")
    while not _is_in(server, run_id, "succeeded"):  # noqa: ASYNC110 - it is another process that ends it
        await asyncio.sleep(0.01)
    await connection.close()


def _is_in(server: Server, run_id: str, state: str) -> bool:
    found = server.reader.execute("SELECT 1 FROM runs WHERE id = ? AND state = ?", (run_id, state))
    return found.fetchone() is not None


def _used(pid: int) -> float:
    """Return the seconds of processor time of the main thread of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


async def _until_ended(server: Server) -> None:
    while not server.all_ended():  # noqa: ASYNC110 - it is another process that ends them
        await asyncio.sleep(0.002)


MEASURES: tuple[Callable[[Server], Awaitable[Figures]], ...] = (
    _one_at_a_time("chained", "bench.noop", STEPS),
    _one_at_a_time("graph", "chain", 1),
    _one_at_a_time("function", FUNCTION, 1),
    _at_once("plain", "bench.noop", AT_ONCE * STEPS, 1),
    _at_once("graph", "chain", AT_ONCE, 1 + STEPS),
    _at_once("function", FUNCTION, AT_ONCE, 1 + STEPS),
    _plain,
    _each,
)

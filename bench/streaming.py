"""Streams of many runs at once: processor time of a chunk, and latency from `emit` to the reader.

`python -m bench.streaming [RUNS [CHUNKS]]`
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles

import interlock as il
from bench.processes import processor, tree
from interlock import runtime
from interlock.bench.report import say
from interlock.bench.server import Server, running

PACE = 0.01  # seconds between two chunks of a run
WARM = 1.0  # seconds of each stream that do not count

app = il.App()


@app.job("bench.stream", lane="bench")
async def stream(ctx: il.Context, chunks: int) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number in range(chunks):
        await asyncio.sleep(begin + number * PACE - loop.time())
        ctx.emit([f"token{number} ", time.time()])


def measure(folder: Path, runs: int, chunks: int) -> None:
    with running(folder, workers=1, http=True, app="bench.streaming:app") as server:
        processes = tree(server.pid)
        before = sum(map(processor, processes))
        began, own = time.perf_counter(), time.process_time()
        late = sorted(runtime.run(_read_all(server, runs, chunks)))
        taken, own = time.perf_counter() - began, time.process_time() - own
        used = sum(map(processor, processes)) - before
    cuts = quantiles(late, n=100)
    total = runs * chunks
    say(f"{runs} runs, {1 / PACE:.0f} chunks a second each: {total:,} chunks in {taken:.1f} s")
    say(
        f"processor time of a chunk: {used / total * 1e6:.0f} µs in the server, "
        f"{own / total * 1e6:.0f} µs in the reader"
    )
    say(f"emit to reader: p50 {cuts[49] * 1000:.0f} ms, p99 {cuts[98] * 1000:.0f} ms, most {late[-1] * 1000:.0f} ms")
    say(f"load of the machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} processors")


async def _read_all(server: Server, runs: int, chunks: int) -> list[float]:
    async with il.AsyncClient(f"http://127.0.0.1:{server.port}") as client:
        submitted = await client.submit_many([("bench.stream", {"chunks": chunks})] * runs)
        read = await asyncio.gather(*(_read(run, chunks) for run in submitted))
    return [late for lates in read for late in lates]


async def _read(run: il.RunHandle[None], chunks: int) -> list[float]:
    lates: list[float] = []
    first = count = 0
    async for chunk in run.stream():
        emitted = chunk.value[1]
        first = first or emitted
        count += 1
        if emitted - first >= WARM:
            lates.append(time.time() - emitted)
    if count != chunks:
        raise il.InterlockError(f"bench: {count} of {chunks} chunks of {run.id}")
    return lates


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), *given, *(200, 1000)[len(given) :])

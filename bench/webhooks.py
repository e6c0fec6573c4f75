"""Webhooks: how much the runs of others lose while a part of them owes a webhook to a local target."""

import asyncio
import multiprocessing
import socket
import time
from pathlib import Path
from statistics import median
from typing import Any

from interlock import runtime
from interlock.bench.jobs import app
from interlock.bench.measures import submit_batches
from interlock.bench.report import ReportRow, say
from interlock.bench.server import Server, running
from interlock.interface.run_builder import new_run

EVERY = 10  # one run in this many owes a webhook
SOME = "bench.some"  # the job whose runs owe a webhook, or do not


def measure_all(folder: Path, runs: int, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    found: dict[str, list[float]] = {"plain": [], "owes": [], "sent": []}
    for number in range(rounds):
        for owes in (False, True) if number % 2 else (True, False):
            rate, sent = _measure(folder, runs, owes)
            found["owes" if owes else "plain"].append(rate)
            if owes:
                found["sent"].append(sent)
            say(f"round {number + 1}: {'with' if owes else 'without'} webhooks: {rate:,.0f} runs/s, {sent:,.0f} sent/s")
    ratio = median(a / b for a, b in zip(found["owes"], found["plain"], strict=True))
    rows: list[ReportRow] = [
        ("runs end to end, runs/s", f"{median(found['plain']):,.0f}", ""),
        (f"the same, 1 in {EVERY} owes a webhook", f"{median(found['owes']):,.0f}", f"{ratio:.2f} of the line before"),
        ("  webhooks delivered until all are, a second", f"{median(found['sent']):,.0f}", ""),
    ]  # fmt: skip
    return rows, {"rounds": found, "ratio": ratio}


def _measure(folder: Path, runs: int, owes: bool) -> tuple[float, float]:
    """Return runs a second until all have ended, and webhooks a second until all are delivered."""
    with socket.create_server(("127.0.0.1", 0)) as listener, running(folder, workers=1) as server:
        target = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
        target.start()
        try:
            return runtime.run(_load(server, runs, f"http://127.0.0.1:{listener.getsockname()[1]}/", owes))
        finally:
            target.kill()
            target.join()


def _owes(server: Server) -> bool:
    """Return whether a webhook is still to be delivered."""
    query = "SELECT 1 FROM records WHERE kind = 'delivery' AND due_at IS NOT NULL LIMIT 1"
    return server.reader.execute(query).fetchone() is not None


async def _load(server: Server, runs: int, url: str, owes: bool) -> tuple[float, float]:
    async with app.connected(server.socket):
        job: dict[str, Any] = {"run": {"job": "bench.noop"}}
        await app.put_job(SOME, job | ({"on_success": {"action": "webhook", "url": url}} if owes else {}))
        await app.submit(SOME)  # starts the sender
        while not server.all_ended() or _owes(server):  # noqa: ASYNC110 - other processes end them
            await asyncio.sleep(0.01)
        count = iter(range(runs))
        begin = time.perf_counter()
        await submit_batches(runs, lambda: new_run(SOME if next(count) % EVERY == 0 else "bench.noop"))
        while not server.all_ended():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        ended = time.perf_counter() - begin
        while _owes(server):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        return runs / ended, (runs / EVERY if owes else 0.0) / (time.perf_counter() - begin)


def _serve(listener: socket.socket) -> None:
    """Answer every request as cheaply as Python can."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(size)
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        await (await asyncio.start_server(answer, sock=listener)).serve_forever()

    runtime.run(serve())

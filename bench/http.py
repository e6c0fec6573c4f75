"""Measurements of the front door: each function does one of them once and returns its figure."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from interlock.bench.http_load import post
from interlock.bench.jobs import app
from interlock.bench.measures import BATCH, CONNECTIONS, ONE, OUTSTANDING, WARM, submit_batches, throughput
from interlock.bench.server import Server, answers, free_port, running, started, until
from interlock.error import InterlockError

READERS = 2000
MANY = json.dumps({"runs": [{"job": "bench.noop"}] * BATCH})


def empty_posts(folder: Path, requests: int) -> float:
    """Requests a second that the bare server answers with a validated body and nothing to do."""
    port = free_port()
    with started([sys.executable, "-m", "bench.empty_post", str(port)], signal.SIGTERM) as process:
        until(lambda: answers(port), process)
        post(port, "/api/v1/runs", ONE, WARM, CONNECTIONS)
        return post(port, "/api/v1/runs", ONE, requests, CONNECTIONS)


def batch_submits(folder: Path, runs: int) -> float:
    """Runs a second, submitted a hundred at a time over HTTP."""
    with running(folder, workers=0, http=True) as server:
        post(server.port, "/api/v1/runs/batch", MANY, 10, OUTSTANDING)
        return BATCH * post(server.port, "/api/v1/runs/batch", MANY, runs // BATCH, OUTSTANDING)


def python_submits(folder: Path, runs: int) -> float:
    """The same from Python, over the scheduler's own socket."""
    with running(folder, workers=0, http=True) as server:
        return uvloop.run(_submit(server, runs))


async def _submit(server: Server, runs: int) -> float:
    async with app.connected(server.socket):
        await submit_batches(10 * BATCH)
        begun = time.perf_counter()
        await submit_batches(runs)
        return runs / (time.perf_counter() - begun)


def end_to_end(folder: Path, runs: int, readers: int = 0) -> float:
    """Runs a second from the first submit to the last stored result, with the gateway and open event streams."""
    with running(folder, workers=1, http=True) as server, _reading(server.port, readers):
        return throughput(server, runs)


@contextmanager
def _reading(port: int, readers: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.readers", str(port), str(readers)]
    with started(command, signal.SIGKILL, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            if process.stdout.readline() != b"ready\n":
                raise InterlockError("bench: the readers could not be opened")
            yield
            process.stdin.write(b"\n")
            process.stdin.flush()
            lost = int(process.stdout.readline())
            if lost:
                raise InterlockError(f"bench: {lost} of {readers} readers were cut off, so they cost nothing any more")

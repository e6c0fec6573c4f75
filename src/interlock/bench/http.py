"""What is measured of the front door: each function does one measurement once and returns its figure."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from interlock.bench import measures
from interlock.bench.jobs import app
from interlock.bench.measures import BATCH
from interlock.bench.processes import with_parent
from interlock.bench.server import START_LIMIT, Server, running
from interlock.model.error import InterlockError

CONNECTIONS = 64
READERS = 2000
ONE = '{"job":"bench.noop"}'
MANY = json.dumps({"runs": [{"job": "bench.noop"}] * BATCH})


def empty_posts(requests: int) -> float:
    """Requests a second that the framework answers with a validated body and nothing to do."""
    port = _free_port()
    command = [sys.executable, "-m", "interlock.bench.empty_post", str(port)]
    process = subprocess.Popen(command, preexec_fn=with_parent())
    try:
        _wait_for(port, process)
        _post(port, "/api/v1/runs", ONE, 500, CONNECTIONS)
        return _post(port, "/api/v1/runs", ONE, requests, CONNECTIONS)
    finally:
        process.terminate()
        process.wait()


def single_submits(folder: Path, requests: int) -> float:
    """Runs a second, each submitted by a request of its own and durable when it is answered."""
    with _served(folder, workers=0) as (server, port):
        _post(port, "/api/v1/runs", ONE, 500, CONNECTIONS)
        rate = _post(port, "/api/v1/runs", ONE, requests, CONNECTIONS)
        stored = server.count("scheduled")
        assert stored == requests + 500, f"{stored} of {requests + 500} runs are stored"
        return rate


def batch_submits(folder: Path, runs: int) -> float:
    """Runs a second, submitted a hundred at a time over HTTP."""
    with _served(folder, workers=0) as (_, port):
        _post(port, "/api/v1/runs/batch", MANY, 10, measures.OUTSTANDING)
        return BATCH * _post(port, "/api/v1/runs/batch", MANY, runs // BATCH, measures.OUTSTANDING)


def python_submits(folder: Path, runs: int) -> float:
    """The same from Python, over the scheduler's own socket."""
    with _served(folder, workers=0) as (server, _):
        return uvloop.run(_submit(server, runs))


async def _submit(server: Server, runs: int) -> float:
    async with app.connected(server.socket):
        await measures.submit_batches(10 * BATCH)
        begun = time.perf_counter()
        await measures.submit_batches(runs)
        return runs / (time.perf_counter() - begun)


def end_to_end(folder: Path, runs: int, readers: int) -> float:
    """Runs a second from the first submit to the last stored result, with so many open event streams."""
    with _served(folder, workers=1) as (server, port), _reading(port, readers):
        rate = uvloop.run(measures.stream(server, runs))
        succeeded = server.count("succeeded")
        assert succeeded == runs + BATCH, f"{succeeded} of {runs + BATCH} runs succeeded"
        return rate


@contextmanager
def _served(folder: Path, workers: int) -> Iterator[tuple[Server, int]]:
    port = _free_port()
    with running(folder, workers, http=f"127.0.0.1:{port}") as server:
        _wait_for(port, server.process)
        yield server, port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Until an answer comes: a socket that listens may still have nobody behind it."""
    end = time.monotonic() + START_LIMIT
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), START_LIMIT) as probe:
                probe.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                if probe.recv(12).startswith(b"HTTP/1.1"):
                    return
        except OSError:
            time.sleep(0.01)
        if process.poll() is not None or time.monotonic() > end:
            raise InterlockError("bench: the server did not start")


def _post(port: int, path: str, body: str, requests: int, connections: int) -> float:
    command = [sys.executable, "-m", "interlock.bench.http_load", "post", str(port), path, body]
    done = subprocess.run(
        [*command, str(requests), str(connections)], stdout=subprocess.PIPE, text=True, check=True, timeout=600
    )
    return float(done.stdout)


@contextmanager
def _reading(port: int, readers: int) -> Iterator[None]:
    if not readers:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.bench.http_load", "read", str(port), str(readers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=with_parent(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise InterlockError("bench: the readers could not be opened")
        yield
        process.stdin.write("\n")
        process.stdin.flush()
        lost = json.loads(process.stdout.readline())["lost"]
        if lost:
            raise InterlockError(f"bench: {lost} of {readers} readers were cut off, so they cost nothing any more")
    finally:
        process.kill()
        process.communicate()

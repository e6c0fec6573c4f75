"""A scheduler in a process of its own, measured from outside."""

import ctypes
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from interlock.error import InterlockError

_PR_SET_PDEATHSIG = 1
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)  # a new process unblocks them


def with_parent() -> Callable[[], None] | None:
    """Return the `preexec_fn` for a process that gets SIGTERM when this one ends, however it ends.

    None in any thread but the main one: the system takes the end of the thread for that of the parent."""
    if threading.current_thread() is not threading.main_thread():
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def become() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        if os.getppid() != parent:
            os._exit(1)

    return become


IN_FLIGHT = 4000
START_LIMIT = 30.0
STOP_LIMIT = 30.0
JOBS = "interlock.bench.jobs:app"


class Server:
    def __init__(self, database: Path, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port
        self.socket = f"{database}.sock"
        self.reader = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)

    def all_ended(self) -> bool:
        """Whether every run in the store has ended; one look at an index, however many there are."""
        return self.reader.execute("SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1").fetchone() is None

    def check(self, state: str, runs: int) -> None:
        """Raise unless exactly this many runs are in the state."""
        (found,) = self.reader.execute("SELECT count(*) FROM runs WHERE state = ?", (state,)).fetchone()
        if found != runs:
            raise InterlockError(f"bench: {found} of {runs} runs are {state}")

    def resident(self) -> int:
        """Return the bytes of memory of the scheduler's process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(
    folder: Path,
    workers: int,
    *files: Path,
    http: bool = False,
    app: str = JOBS,
    new: bool = True,
    limit: float = START_LIMIT,
    env: Mapping[str, str] = {},
) -> Iterator[Server]:
    """Run `interlock up` with the measured jobs, and the documents in `files`, on a database in `folder`."""
    database = folder / "bench.db"
    for leftover in folder.glob("bench.db*") if new else ():
        leftover.unlink()
    port = free_port() if http else 0
    command = [
        sys.executable, "-m", "interlock.cli", "up", *map(str, files), "-A", app, "--db", str(database),
        "--workers", str(workers), "--slots", str(IN_FLIGHT), "--lane", f"bench={IN_FLIGHT}", "--no-table",
        "--log-level", "error", "--http", f"127.0.0.1:{port}" if http else "off",
    ]  # fmt: skip
    kept = {**os.environ, "INTERLOCK_KEEP_RUNS": "0", **env}  # all runs are counted at the end
    with started(command, stderr=subprocess.DEVNULL, start_new_session=True, env=kept) as process:
        until(lambda: _listens(f"{database}.sock"), process, limit)
        if http:
            until(lambda: answers(port), process, limit)
        server = Server(database, process.pid, port)
        with closing(server.reader):
            yield server


@contextmanager
def started(command: list[str], end: int = signal.SIGINT, **given: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a process until the block, or this process, ends."""
    become = with_parent()
    # Python ignores what a signal handler raises in the middle of a fork.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING if become else ())
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(command, preexec_fn=become, **given)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield process
    finally:
        process.send_signal(end)
        try:
            process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(ready: Callable[[], bool], process: "subprocess.Popen[bytes]", limit: float = START_LIMIT) -> None:
    end = time.monotonic() + limit
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            raise InterlockError(f"bench: did not start: {process.args!r}")
        time.sleep(0.01)


def _listens(path: str) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(path)
        return True
    return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Return whether an HTTP answer comes: a listening socket may have no server yet."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), START_LIMIT) as probe:
        probe.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return probe.recv(12).startswith(b"HTTP/1.1")
    return False

"""A scheduler in a process of its own, to be measured from outside."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock.bench.processes import with_parent
from interlock.model.error import InterlockError

IN_FLIGHT = 4000
START_LIMIT = 30.0


class Server:
    def __init__(self, database: Path, process: "subprocess.Popen[bytes]") -> None:
        self.database = database
        self.process = process
        self.socket = f"{database}.sock"
        self._reader = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)

    def all_ended(self) -> bool:
        """Whether every run in the store has ended; one look at an index, however many there are."""
        return self._reader.execute("SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1").fetchone() is None

    def count(self, state: str) -> int:
        return int(self._reader.execute("SELECT count(*) FROM runs WHERE state = ?", (state,)).fetchone()[0])

    def schedules(self) -> list[tuple[str, float, float]]:
        """Of each job with an interval, its id, when it was first known, and what it waits then."""
        rows = self._reader.execute("SELECT job_id, anchor, identity FROM schedules WHERE identity LIKE 'every %'")
        return [(job_id, anchor, float(identity.split()[2])) for job_id, anchor, identity in rows]

    def resident(self) -> int:
        """Bytes of memory the scheduler's process has."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        self._reader.close()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(
    folder: Path,
    workers: int,
    http: str = "off",
    app: str = "interlock.bench.jobs:app",
    new: bool = True,
    limit: float = START_LIMIT,
) -> Iterator[Server]:
    """`interlock up` with the measured jobs on a database in `folder`, a new one unless told otherwise."""
    database = folder / "bench.db"
    for leftover in folder.glob("bench.db*") if new else ():
        leftover.unlink()
    command = [
        sys.executable, "-m", "interlock.cli", "up", "-A", app, "--db", str(database),
        "--workers", str(workers), "--slots", str(IN_FLIGHT), "--lane", f"bench={IN_FLIGHT}", "--no-table",
        "--log-level", "error", "--http", http,
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=with_parent())
    end = time.monotonic() + limit
    while not Path(f"{database}.sock").exists():
        if process.poll() is not None or time.monotonic() > end:
            with suppress(ProcessLookupError):
                process.kill()
            raise InterlockError("bench: the scheduler did not start")
        time.sleep(0.01)
    server = Server(database, process)
    try:
        yield server
    finally:
        server.close()

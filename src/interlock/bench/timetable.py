"""The timetable: Interlock beside APScheduler 3, each with the same schedules, one at a time."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvloop

from interlock.bench import apscheduler_peer, fired, processes
from interlock.bench.server import Server, running
from interlock.model import request as r
from interlock.model.error import InterlockError
from interlock.model.job import Job
from interlock.model.schedule import Schedule
from interlock.model.work import FunctionWork
from interlock.wiring.connecting import connect

COUNTS = (10_000, 100_000)
INTERVAL = 60.0
SECONDS = 90.0
LAST_MOMENT = 2.0
"""seconds that what was due in the window may take longer than that; what has not begun then is missed"""
BATCH = 1000
INTERLOCK = "interlock"
LIMIT = 60.0
SETTLING = 3.0
PER_JOB = 0.0004
"""seconds in which APScheduler is loaded, if the machine is not busy: so much, and so much for each job"""


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement of one scheduler found."""

    lateness: list[float]
    """of each fire in the window, in seconds"""
    missed: int
    processor: float
    """seconds of processor time of all processes, over the window"""
    memory: int
    """bytes that all processes have with the schedules, before the window"""


def measure(name: str, folder: Path, count: int, *, interval: float = INTERVAL, seconds: float = SECONDS) -> Fired:
    """`name` is Interlock, or one of APScheduler's stores."""
    if name == INTERLOCK:
        return _measure_interlock(folder, count, interval, seconds)
    return _measure_peer(name, folder, count, interval, seconds)


def memory(name: str, folder: Path) -> int:
    """Bytes that all processes have with no schedules at all."""
    if name == INTERLOCK:
        with _interlock(folder) as server:
            time.sleep(1.0)
            return _memory(server.process.pid)
    with _peer(name, folder, 0, INTERVAL, time.time()) as process:
        time.sleep(1.0)
        return _memory(process.pid)


def _memory(pid: int) -> int:
    return sum(map(processes.memory, processes.tree(pid)))


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time, and what all processes took in it."""

    start: float
    end: float
    memory: int
    processor: float

    @classmethod
    def pass_by(cls, pid: int, seconds: float) -> "Window":
        """Let it pass, and a moment more for what was due in it and is late."""
        own = processes.tree(pid)
        memory = sum(map(processes.memory, own))
        before = sum(map(processes.processor, own))
        start = time.time()
        time.sleep(seconds)
        end = time.time()
        used = sum(map(processes.processor, own)) - before
        time.sleep(min(LAST_MOMENT, seconds))
        return cls(start=start, end=end, memory=memory, processor=used)

    def found(self, firsts: Mapping[int, float], interval: float, noted: fired.Noted) -> Fired:
        """Each job has fired at its times in order, so that its notes are those of its first times."""
        seen: dict[int, int] = {}
        lateness = []
        for number, at in sorted(noted, key=lambda one: one[1]):
            place = seen[number] = seen.get(number, -1) + 1
            nominal = firsts[number] + place * interval
            if self.start <= nominal < self.end:
                lateness.append(at - nominal)
        expected = sum(self._count(first, interval) for first in firsts.values())
        return Fired(lateness=lateness, missed=expected - len(lateness), processor=self.processor, memory=self.memory)

    def _count(self, first: float, interval: float) -> int:
        """How many of the times of a job are within."""
        return _times_before(self.end, first, interval) - _times_before(self.start, first, interval)


def _times_before(end: float, first: float, interval: float) -> int:
    count = max(0, int((end - first) // interval))
    while first + count * interval < end:
        count += 1
    return count


# ── Interlock ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _measure_interlock(folder: Path, count: int, interval: float, seconds: float) -> Fired:
    noted = folder / "interlock.noted"
    noted.unlink(missing_ok=True)
    with _interlock(folder) as server:
        uvloop.run(_put(server, count, interval))
        window = Window.pass_by(server.process.pid, seconds)
        uvloop.run(_write(server, noted))
        firsts = {int(job_id.rpartition(".")[2]): anchor + wait for job_id, anchor, wait in server.schedules()}
    return window.found(firsts, interval, fired.read(noted))


@contextmanager
def _interlock(folder: Path) -> Iterator[Server]:
    with running(folder, workers=1, app="interlock.bench.fired:app", http="127.0.0.1:0") as server:
        yield server


async def _put(server: Server, count: int, interval: float) -> None:
    connection = await connect(server.socket)
    try:
        for start in range(0, count, BATCH):
            jobs = [_job(number, count, interval) for number in range(start, min(start + BATCH, count))]
            await connection.ask(r.PutJobs(0, jobs))
    finally:
        await connection.close()


def _job(number: int, count: int, interval: float) -> Job:
    return Job(
        id=f"bench.{number}",
        lane="bench",
        schedule=Schedule(every=interval, wait=number * interval / count),
        payload={"number": number},
        work=FunctionWork(function="interlock.bench.fired:note"),
    )


async def _write(server: Server, noted: Path) -> None:
    async with fired.app.connected(server.socket):
        run = await fired.app.submit("bench.write", {"path": str(noted)})
        await run.result(timeout=LIMIT)


# ── APScheduler ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _measure_peer(store: str, folder: Path, count: int, interval: float, seconds: float) -> Fired:
    loading = SETTLING + count * PER_JOB
    for patience in (1, 2, 4, 8):
        first = time.time() + loading * patience
        with _peer(store, folder, count, interval, first) as process:
            if time.time() > first:
                continue
            time.sleep(first - time.time())
            window = Window.pass_by(process.pid, seconds)
            process.communicate("\n", LIMIT)
        firsts = {number: first + number * interval / count for number in range(count)}
        return window.found(firsts, interval, fired.read(_noted(folder)))
    raise InterlockError(f"bench: {count:,} jobs were not loaded in {loading * patience:.0f}s")


def _noted(folder: Path) -> Path:
    return folder / "apscheduler.noted"


@contextmanager
def _peer(store: str, folder: Path, count: int, interval: float, first: float) -> "Iterator[subprocess.Popen[str]]":
    for leftover in folder.glob("apscheduler*"):
        leftover.unlink()
    database = folder / "apscheduler.db"
    if store == apscheduler_peer.SQLITE:
        subprocess.run(apscheduler_peer.fill(database, count, interval, first), check=True, timeout=600)
    command = apscheduler_peer.command(store, database, count, interval, first, _noted(folder))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=processes.with_parent()
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise InterlockError("bench: APScheduler did not start")
        yield process
    finally:
        process.kill()
        process.communicate()

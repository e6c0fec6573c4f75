"""The timetable: Interlock beside APScheduler 3, each with the same schedules, one at a time."""

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec
import uvloop

from bench import apscheduler_peer, fired, processes
from bench.contest import INTERLOCK
from interlock.bench.server import Server, running, started
from interlock.error import InterlockError
from interlock.model.job import Job
from interlock.model.schedule.schedule import Schedule
from interlock.model.work import FunctionWork
from interlock.wire import request as r
from interlock.wiring.connection import connect

INTERVAL = 60.0
SECONDS = 90.0
LAST_MOMENT = 2.0  # seconds after the window in which a late fire of the window still counts; later ones are missed
BATCH = 1000
APP = "bench.fired:app"
NOTE = FunctionWork(function="bench.fired:note")
LIMIT = 60.0
SETTLING = 3.0
PER_JOB = 0.0004  # seconds in which APScheduler is loaded, if the machine is not busy: at all, and for each job


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one scheduler."""

    lateness: list[float]  # of each fire in the window, in seconds
    missed: int
    processor: float  # seconds of processor time of all processes, over the window
    memory: int  # bytes of all processes with the schedules, before the window


def measure(name: str, folder: Path, count: int, *, interval: float = INTERVAL, seconds: float = SECONDS) -> Fired:
    """`name` is Interlock, or one of APScheduler's stores."""
    if name == INTERLOCK:
        return _measure_interlock(folder, count, interval, seconds)
    return _measure_peer(name, folder, count, interval, seconds)


def _window(pid: int, seconds: float) -> processes.Usage:
    """Let it pass, and a moment more for what was due in it and is late."""
    used = processes.watch(processes.tree(pid), seconds)
    time.sleep(min(LAST_MOMENT, seconds))
    return used


def judge(used: processes.Usage, firsts: Mapping[int, float], interval: float, noted: fired.Noted) -> Fired:
    """Each job has fired at its times in order, so that its notes are those of its first times."""
    seen: dict[int, int] = {}
    lateness = []
    for number, at in sorted(noted, key=lambda one: one[1]):
        place = seen[number] = seen.get(number, -1) + 1
        nominal = firsts[number] + place * interval
        if used.start <= nominal < used.end:
            lateness.append(at - nominal)
    expected = sum(
        _times_before(used.end, first, interval) - _times_before(used.start, first, interval)
        for first in firsts.values()
    )
    return Fired(lateness=lateness, missed=expected - len(lateness), processor=used.processor, memory=used.memory)


def _times_before(end: float, first: float, interval: float) -> int:
    count = max(0, int((end - first) // interval))
    while first + count * interval < end:
        count += 1
    return count


# ── Interlock ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _measure_interlock(folder: Path, count: int, interval: float, seconds: float) -> Fired:
    noted = folder / "interlock.noted"
    noted.unlink(missing_ok=True)
    with running(folder, workers=1, app=APP, http=True) as server:
        uvloop.run(put(server, (_job(number, count, interval) for number in range(count))))
        time.sleep(1.0)
        used = _window(server.pid, seconds)
        uvloop.run(_write(server, noted))
        rows = server.reader.execute("SELECT job_id, anchor, identity FROM schedules WHERE identity LIKE 'every %'")
        # The identity of an interval is `every <seconds> <wait>`.
        firsts = {int(job.rpartition(".")[2]): anchor + float(identity.split()[2]) for job, anchor, identity in rows}
    return judge(used, firsts, interval, fired.read(noted))


async def put(server: Server, jobs: Iterable[Job]) -> None:
    connection = await connect(server.socket)
    waiting = iter(jobs)
    while batch := list(islice(waiting, BATCH)):
        await connection.ask(r.PutJobs(0, batch))
    await connection.close()


def _job(number: int, count: int, interval: float) -> Job:
    schedule = Schedule(every=interval, wait=number * interval / count)
    return Job(id=f"bench.{number}", lane="bench", schedule=schedule, payload={"number": number}, work=NOTE)


async def _write(server: Server, noted: Path) -> None:
    async with fired.app.connected(server.socket):
        run = await fired.app.submit("bench.write", {"path": str(noted)})
        await run.result(timeout=LIMIT)


# ── APScheduler ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _measure_peer(store: str, folder: Path, count: int, interval: float, seconds: float) -> Fired:
    loading = SETTLING + count * PER_JOB
    for patience in (1, 2, 4, 8, 16, 32):
        first = time.time() + loading * patience
        with _peer(store, folder, count, interval, first) as process:
            if time.time() > first:
                continue
            time.sleep(first - time.time())
            used = _window(process.pid, seconds)
            process.communicate(b"\n", LIMIT)
        firsts = {number: first + number * interval / count for number in range(count)}
        return judge(used, firsts, interval, fired.read(folder / "apscheduler.noted"))
    raise InterlockError(f"bench: {count:,} jobs were not loaded in {loading * patience:.0f}s")


@contextmanager
def _peer(store: str, folder: Path, count: int, interval: float, first: float) -> "Iterator[subprocess.Popen[bytes]]":
    for leftover in folder.glob("apscheduler*"):
        leftover.unlink()
    if store == apscheduler_peer.SQLITE:
        fill = apscheduler_peer.command("fill", store, folder, count, interval, first)
        subprocess.run(fill, check=True, timeout=600)
    command = apscheduler_peer.command("run", store, folder, count, interval, first)
    with started(command, signal.SIGKILL, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            if process.stdout.readline() != b"ready\n":
                raise InterlockError("bench: APScheduler did not start")
            yield process

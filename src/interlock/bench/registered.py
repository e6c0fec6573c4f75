"""A great many schedules of which none is due: how long a start with them takes, and what they cost while it waits."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import uvloop

from interlock.bench import processes
from interlock.bench.server import Server, running
from interlock.core.decisions import Batch
from interlock.core.fire_times import first_time
from interlock.core.schedule_table import Entry
from interlock.model import request as r
from interlock.model.error import BadSchedule
from interlock.model.job import Job
from interlock.model.schedule import Schedule
from interlock.model.work import FunctionWork
from interlock.stores.sqlite.batch import write_batch
from interlock.stores.sqlite.database import connect_writer
from interlock.wiring.connecting import connect

COUNT = 1_000_000
IDLE = 20.0
"""seconds for which nothing happens while processor time is counted"""
REST = 3.0
"""seconds after the start until then"""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
DAYS = 30
"""from now until the first of them is due"""
BATCH = 10_000
LIMIT = 120.0


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement found, with so many schedules."""

    started: float
    """seconds from the command until it says when they fire"""
    memory: int
    """bytes that all processes have"""
    processor: float
    """seconds of processor time that they use in a second of doing nothing"""


def measure(folder: Path, count: int, *, idle: float = IDLE, rest: float = REST) -> Registered:
    database = folder / "bench.db"
    for leftover in folder.glob("bench.db*"):
        leftover.unlink()
    _store(connect_writer(database), count)
    begun = time.monotonic()
    given = {"app": "interlock.bench.fired:app", "http": "127.0.0.1:0"}
    with running(folder, workers=1, **given, new=False, limit=LIMIT) as server:
        uvloop.run(_until_known(server, count))
        started = time.monotonic() - begun
        time.sleep(rest)
        own = processes.tree(server.process.pid)
        memory = sum(map(processes.memory, own))
        since, before = time.monotonic(), sum(map(processes.processor, own))
        time.sleep(idle)
        used = sum(map(processes.processor, own)) - before
        return Registered(started=started, memory=memory, processor=used / (time.monotonic() - since))


async def _until_known(server: Server, count: int) -> None:
    """Until it says when the last of them fires."""
    connection = await connect(server.socket)
    end = time.monotonic() + LIMIT
    last = f"bench.{count - 1}"
    while count:
        try:
            await connection.ask(r.AskNext(0, last, 1))
            break
        except BadSchedule:  # it is known, and not in the timetable yet
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.01)
    await connection.close()


def _store(connection: sqlite3.Connection, count: int) -> None:
    """As they are stored once they have been put."""
    now = time.time()
    connection.execute("BEGIN")
    for start in range(0, count, BATCH):
        batch = Batch()
        batch.put_jobs = list(_jobs(range(start, min(start + BATCH, count))))
        batch.schedules = [_entry(job, now).row() for job in batch.put_jobs]
        write_batch(connection, batch)
    connection.execute("COMMIT")
    connection.close()


def _entry(job: Job, now: float) -> Entry:
    assert job.schedule is not None
    return Entry(job, 0, now, now, first_time(job.schedule, now))


def _jobs(numbers: range) -> Iterator[Job]:
    """Half of them at an interval, each with its own place in it; half by cron, at any minute of some day."""
    work = FunctionWork(function="interlock.bench.fired:note")
    day = datetime.now(UTC) + timedelta(days=DAYS)
    for number in numbers:
        if number % 2:
            cron = f"{number // 2 % 60} {number // 120 % 24} {day.day} {day.month} *"
            schedule = Schedule(cron=cron, tz=ZONES[number // 2880 % len(ZONES)])
        else:
            schedule = Schedule(every=2.0 * DAYS * 86400, wait=DAYS * 86400 + number % 86400)
        yield Job(id=f"bench.{number}", lane="bench", schedule=schedule, work=work)

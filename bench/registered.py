"""Very many schedules, none of them due: how long a start with them takes, and what they cost while it waits."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import uvloop

from bench import processes
from bench.timetable import APP, NOTE, put
from interlock.bench.server import Server, running
from interlock.error import BadSchedule
from interlock.model.job import Job
from interlock.model.schedule.schedule import Schedule
from interlock.wire import request as r
from interlock.wiring.connection import connect

COUNT = 1_000_000
IDLE = 20.0  # seconds for which nothing happens while processor time is counted
REST = 3.0  # seconds after the start until then
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
DAYS = 30  # from now until the first of them is due
LIMIT = 120.0


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    started: float  # seconds from the command to the first answer about a schedule
    memory: int  # bytes of all processes
    processor: float  # seconds of processor time that they use in a second of doing nothing


def measure(folder: Path, count: int, *, idle: float = IDLE, rest: float = REST) -> Registered:
    with running(folder, workers=0) as server:
        uvloop.run(put(server, map(_job, range(count))))
    begun = time.monotonic()
    with running(folder, workers=1, app=APP, http=True, new=False, limit=LIMIT) as server:
        uvloop.run(_until_known(server, count))
        started = time.monotonic() - begun
        time.sleep(rest)
        used = processes.watch(processes.tree(server.pid), idle)
        return Registered(started=started, memory=used.memory, processor=used.processor / (used.end - used.start))


async def _until_known(server: Server, count: int) -> None:
    """Wait until it says when the last of them fires."""
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


def _job(number: int) -> Job:
    """Half of them at an interval, each with its own place in it; half by cron, at any minute of some day."""
    schedule = Schedule(every=2.0 * DAYS * 86400, wait=DAYS * 86400 + number % 86400)
    if number % 2:
        day = datetime.now(UTC) + timedelta(days=DAYS)
        cron = f"{number // 2 % 60} {number // 120 % 24} {day.day} {day.month} *"
        schedule = Schedule(cron=cron, tz=ZONES[number // 2880 % len(ZONES)])
    return Job(id=f"bench.{number}", lane="bench", schedule=schedule, work=NOTE)

"""`interlock up`: the scheduler in the foreground, with a live table in a terminal."""

import asyncio
import gc
import logging
import os
import signal
import sys

import uvloop

from interlock import config
from interlock.cli.live import show_live, summary
from interlock.cli.output import log_to_stderr
from interlock.model import payload
from interlock.model.duration import seconds
from interlock.model.error import UnknownJob
from interlock.wiring import Scheduler, Settings, connect
from interlock.worker.loading import load_app

logger = logging.getLogger("interlock")


def run_up(
    *,
    target: str,
    database: str,
    socket: str | None,
    workers: int,
    slots: int,
    processes: int,
    lanes: list[str],
    submit: list[str],
    heartbeat: str,
    drain: str,
    memory_limit: int,
    log_level: str,
    log_format: str,
    table: bool | None,
) -> None:
    log_to_stderr(log_level, log_format)
    settings = Settings(
        database=database,
        socket=socket,
        workers=workers,
        slots=slots,
        processes=processes,
        lanes=config.lanes(os.environ, lanes),
        heartbeat=seconds(heartbeat, "--heartbeat"),
        drain=seconds(drain, "--drain"),
        memory_limit=memory_limit,
        log_level=log_level,
        log_format=log_format,
    )
    app = load_app(target)
    for job_id in submit:
        if job_id not in app.definitions:
            raise UnknownJob(job_id)
        app.definitions[job_id].check(payload.EMPTY)
    scheduler = Scheduler(app.definitions, target, settings)
    live = sys.stdout.isatty() if table is None else table
    # A pass makes and drops thousands of values, none of them in cycles: looking for cycles among them is in vain.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    uvloop.run(_serve(scheduler, submit, live))


async def _serve(scheduler: Scheduler, submit: list[str], live: bool) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    count = 0

    def stop() -> None:
        nonlocal count
        count += 1
        asked.set()
        if count == 1:
            say(f"stopping: work may go on for {scheduler.settings.drain:g}s; Ctrl-C again stops it now")
        else:
            scheduler.stop_at_once()

    # Before anything is open: a signal that comes during the start must not leave a half-open scheduler.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await scheduler.start()
    say(f"interlock: {scheduler.settings.database}, socket {scheduler.settings.socket_path()}")
    display = loop.create_task(show_live(scheduler)) if live else None
    ended = loop.create_task(scheduler.wait())
    waiting = loop.create_task(asked.wait())
    try:
        await _submit(scheduler, submit)
        await asyncio.wait([ended, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if display is not None:
            display.cancel()
            await asyncio.wait([display])
        await scheduler.stop()
        await ended
    say(f"stopped: {summary(scheduler)}")


async def _submit(scheduler: Scheduler, jobs: list[str]) -> None:
    """Submit what is asked for at start; a run left by an earlier start goes on instead of a second one."""
    live = {run.job_id for run in scheduler.engine.state.runs.values()}
    wanted = [(job_id, None) for job_id in jobs if job_id not in live]
    if wanted:
        from interlock.client.submitting import new_run, submit

        connection = await connect(scheduler.settings.socket_path())
        try:
            await submit(connection, [new_run(job_id, payload) for job_id, payload in wanted])
        finally:
            await connection.close()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command line's voice

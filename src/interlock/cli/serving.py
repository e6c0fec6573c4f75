"""The scheduler in the foreground, with a live table in a terminal: what `interlock up` does."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from interlock import runtime
from interlock.cli.doctor_checks import settings_file
from interlock.cli.live import show_live, summary
from interlock.cli.log_lines import log_to_stderr
from interlock.cli.next_steps import next_steps
from interlock.cli.output import say
from interlock.cli.reloads import in_one_line
from interlock.config import Resolved
from interlock.config.sources import NO_APP, Loaded, load, of_app
from interlock.model import payload
from interlock.model.error import BadConfig, CannotStart, InterlockError, UnknownJob
from interlock.task_set import TaskSet
from interlock.wiring.connection import connect
from interlock.wiring.scheduler import Scheduler
from interlock.worker.definition import Definition

logger = logging.getLogger("interlock.settings")


def run_up(resolved: Resolved, submit: list[str], table: bool | None) -> None:
    settings = resolved.settings
    log_to_stderr(settings.log_level, settings.log_format)
    _check_file(resolved)
    # Files alone are something to run; without them, that there is no app is an error.
    target = settings.app if settings.files else settings.target()
    app = NO_APP if target is None else of_app(target)

    def read() -> Loaded:
        return load(settings.files, app, settings.strict)

    _check_submits(submit, app.definitions, read)
    scheduler = Scheduler(
        app.definitions, target, settings, load=read, on_reload=lambda reloaded: _say(in_one_line(reloaded))
    )

    def steps() -> list[str]:
        return next_steps(resolved, scheduler.front.url, app.definitions, submit, scheduler.has_schedules)

    live = sys.stdout.isatty() if table is None else table
    # A pass makes and drops thousands of values, none of them in cycles: looking for cycles among them is in vain.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    runtime.run(_serve(scheduler, submit, steps if live else None))


def _check_file(resolved: Resolved) -> None:
    """Refuse a settings file that another user can change; warn about one whose secrets others can read."""
    found = settings_file(resolved)
    if found.level == "failed":
        raise BadConfig(f"{found.detail}; {found.fix}")
    if found.level == "warning":
        logger.warning("%s; %s", found.detail, found.fix)


def _check_submits(submit: list[str], definitions: Mapping[str, Definition], read: Callable[[], Loaded]) -> None:
    """Whatever is to be submitted at start must exist, and need no payload that it has not."""
    for job_id in submit:
        if job_id not in definitions:
            if job_id not in {one.job.id for one in read().jobs}:
                raise UnknownJob(job_id)
        elif definitions[job_id].job.payload is None:
            definitions[job_id].check(payload.EMPTY)


async def _serve(scheduler: Scheduler, submit: list[str], steps: Callable[[], list[str]] | None) -> None:
    """`steps` are shown above the live table; without them there is no table."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    count = 0

    def stop() -> None:
        nonlocal count
        count += 1
        asked.set()
        if count == 1:
            _say(f"stopping: work may go on for {scheduler.settings.drain:g}s; Ctrl-C again stops it now")
        else:
            scheduler.stop_at_once()

    # Before anything is open: a signal that comes during the start must not leave a half-open scheduler.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    reloads = TaskSet()
    in_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()

    def hang_up() -> None:
        """Asks for a reload, unless it says that the terminal was closed; nohup is for those who want to go on."""
        if in_terminal and not _has_terminal():
            stop()
            return
        reloads.begin(_reload(scheduler))

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        await scheduler.start()
    except CannotStart:
        if count < 2:
            raise
        _say("stopped before it was started")
        return
    where = f", {scheduler.front.url}" if scheduler.front.url else ""
    _say(f"interlock: {scheduler.settings.database}, socket {scheduler.settings.socket_path()}{where}")
    display = None if steps is None else loop.create_task(show_live(scheduler, steps()))
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
    _say(f"stopped: {summary(scheduler)}")


async def _reload(scheduler: Scheduler) -> None:
    with suppress(InterlockError):  # which is in the log
        _say(in_one_line(await scheduler.services.reload("SIGHUP")))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    """What nobody can read any more is no reason to fail."""
    with suppress(OSError):
        say(text)


async def _submit(scheduler: Scheduler, jobs: list[str]) -> None:
    """Submit what is asked for at start; a run left by an earlier start goes on instead of a second one."""
    live = {run.job_id for run in scheduler.engine.state.runs.values()}
    wanted = [job_id for job_id in jobs if job_id not in live]
    if wanted:
        from interlock.client.submission import new_run, submit

        connection = await connect(scheduler.settings.socket_path())
        try:
            # Each with what it has of its own.
            await submit(connection, [msgspec.structs.replace(new_run(job_id, None), payload=b"") for job_id in wanted])
        finally:
            await connection.close()

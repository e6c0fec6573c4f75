"""`interlock up`: the scheduler in the foreground, with a live table in a terminal."""

import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import SERVER_FLAGS, Flags, takes
from interlock.cli.output import say
from interlock.config.settings import SETTINGS

if TYPE_CHECKING:
    from interlock.cli.live import HeldErrors
    from interlock.config import Resolved
    from interlock.config.sources import Loaded
    from interlock.wiring.scheduler import Scheduler
    from interlock.worker.definition import Definition

logger = logging.getLogger("interlock.settings")


@takes(*SERVER_FLAGS)
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help=SETTINGS["files"].help)] = None,
    submit: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Submit this job at the start, unless a run of it is live.")
    ] = None,
    no_table: Annotated[bool, typer.Option("--no-table", help="Do not draw the live table in a terminal.")] = False,
) -> None:
    """Run the scheduler with its workers and services.

    Ctrl-C stops it in order, a second Ctrl-C at once. With neither an app nor files it has no jobs until some are put
    over HTTP."""
    from interlock.runtime import require_linux, run

    require_linux()
    import gc

    from interlock.cli.live import HeldErrors
    from interlock.cli.log_lines import log_to_stderr
    from interlock.cli.next_steps import next_steps
    from interlock.cli.reload import in_one_line
    from interlock.cli.tables import console
    from interlock.config.sources import NO_APP, load, of_app
    from interlock.wiring.scheduler import Scheduler

    resolved = flags.given(files=paths or None).resolve()
    settings, jobs = resolved.settings, submit or []
    log_to_stderr(settings.log_level, settings.log_format)
    _check_file(resolved)
    app = NO_APP if settings.app is None else of_app(settings.app)

    def read() -> "Loaded":
        return load(settings.files, app, settings.strict, settings.every_lane())

    _check_submits(jobs, app.definitions, read)
    scheduler = Scheduler(
        app.definitions, settings.app, settings, load=read, on_reload=lambda reloaded: _say(in_one_line(reloaded))
    )

    def steps() -> list[str]:
        return next_steps(resolved, scheduler.front.url, app.definitions, jobs, scheduler.has_schedules)

    # A pass makes and drops thousands of values, none of them in cycles: looking for cycles among them is in vain.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    errors = HeldErrors() if console().is_terminal and not console().is_dumb_terminal and not no_table else None
    try:
        run(_serve(scheduler, jobs, steps, errors))
    finally:
        if errors is not None:
            errors.close()


def _check_file(resolved: "Resolved") -> None:
    """Refuse a settings file that another user can change; warn about one whose secrets others can read."""
    from interlock.cli.doctor_checks import settings_file
    from interlock.model.error import BadConfig

    found = settings_file(resolved)
    if found.level == "failed":
        raise BadConfig(f"{found.detail}; {found.fix}")
    if found.level == "warning":
        logger.warning("%s; %s", found.detail, found.fix)


def _check_submits(jobs: list[str], definitions: "Mapping[str, Definition]", read: "Callable[[], Loaded]") -> None:
    """Refuse jobs that do not exist, or that need a payload."""
    from interlock.model import payload
    from interlock.model.error import UnknownJob

    for job_id in jobs:
        if job_id not in definitions:
            if job_id not in {one.job.id for one in read().jobs}:
                raise UnknownJob(job_id)
        elif definitions[job_id].job.payload is None:
            definitions[job_id].check(payload.EMPTY)


async def _serve(
    scheduler: "Scheduler", jobs: list[str], steps: Callable[[], list[str]], errors: "HeldErrors | None"
) -> None:
    """`errors` are held back by the live table; without them there is no table."""
    import asyncio

    from interlock.cli.live import show_live, summary
    from interlock.model.error import CannotStart
    from interlock.task_set import TaskSet

    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    count = 0

    def stop() -> None:
        nonlocal count
        count += 1
        asked.set()
        if count == 1:
            _say(f"stopping: runs have {scheduler.settings.drain:g}s to end; Ctrl-C again stops them now")
        else:
            scheduler.stop_at_once()

    # Before anything is open: a signal that comes during the start must not leave a half-open scheduler.
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    reloads = TaskSet()
    in_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()

    def hang_up() -> None:
        """Reload, unless the signal came because the terminal was closed."""
        if in_terminal and not _has_terminal():
            stop()
        else:
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
    display = None if errors is None else loop.create_task(show_live(scheduler, steps(), errors))
    ended = loop.create_task(scheduler.wait())
    waiting = loop.create_task(asked.wait())
    try:
        await _submit(scheduler, jobs)
        await asyncio.wait([ended, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if display is not None:
            display.cancel()
            await asyncio.wait([display])
        await scheduler.stop()
        await ended
    _say(f"stopped: {summary(scheduler)}")


async def _reload(scheduler: "Scheduler") -> None:
    from interlock.cli.reload import in_one_line
    from interlock.model.error import InterlockError

    with suppress(InterlockError):  # which is in the log
        _say(in_one_line(await scheduler.services.reload("SIGHUP")))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    """Say it, even if nobody can read it any more."""
    with suppress(OSError):
        say(text)


async def _submit(scheduler: "Scheduler", jobs: list[str]) -> None:
    """Submit these jobs, except those with a run that an earlier start left."""
    live = {run.job_id for run in scheduler.engine.state.runs.values()}
    wanted = [job_id for job_id in jobs if job_id not in live]
    if wanted:
        import msgspec

        from interlock.client.submission import new_run, submit
        from interlock.wiring.connection import connect

        connection = await connect(scheduler.settings.socket_path())
        try:
            # No payload: each job has its own.
            await submit(connection, [msgspec.structs.replace(new_run(job_id, None), payload=b"") for job_id in wanted])
        finally:
            await connection.close()

"""The scheduler in the foreground, with a live table in a terminal."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from interlock.cli.check.doctor_checks import settings_file
from interlock.cli.draw.format import policy_line, reload_line
from interlock.cli.draw.tables import console
from interlock.cli.run.live import HeldErrors, show_live, summary
from interlock.cli.run.next_steps import how_to_begin, next_steps
from interlock.cli.shared.output import mute
from interlock.client.submission import submit
from interlock.config import Resolved
from interlock.config.sources import Loaded, of_app
from interlock.error import BadConfig, BadUse, CannotStart, InterlockError, UnknownJob
from interlock.error_lines import say
from interlock.fields import payload
from interlock.fields.sockets import is_on_server, without_password
from interlock.interface.run_builder import new_run
from interlock.log_lines import log_to_stderr
from interlock.runtime import run
from interlock.task_set import TaskSet
from interlock.wiring.child import stop_signals
from interlock.wiring.connection import connect
from interlock.wiring.node import Node
from interlock.wiring.scheduler import Scheduler, declared_scheduler, read_files
from interlock.worker.definition import Definition

logger = logging.getLogger("interlock.settings")


def serve(resolved: Resolved, jobs: list[str], table: bool) -> None:
    """Run the scheduler until it is stopped; submit `jobs` at the start."""
    settings = resolved.settings
    log_to_stderr(settings.log_level, settings.log_format)
    _check_settings(resolved)
    if is_on_server(settings.database):
        _check_cluster(resolved, jobs)
        run(_serve_node(Node(settings, settings.app)))
        return
    app = of_app(settings.app)
    if settings.dev:
        # A second change within a second would go unnoticed behind a compiled file.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    _check_submits(jobs, app.definitions, lambda: read_files(settings, app))
    scheduler = declared_scheduler(settings, app, lambda reloaded: _say(reload_line(reloaded)))

    def steps() -> list[str]:
        return next_steps(resolved, scheduler.front.url, app.definitions, jobs, scheduler.has_schedules)

    # A pass makes and drops thousands of values, none in cycles: collecting cycles often, as set in `main`, would be in
    # vain.
    gc.freeze()
    errors = HeldErrors() if console().is_terminal and not console().is_dumb_terminal and table else None
    try:
        run(_serve(scheduler, jobs, steps, errors))
    finally:
        if errors is not None:
            errors.close()


def _check_cluster(resolved: Resolved, jobs: list[str]) -> None:
    """Refuse what only a single scheduler can do."""
    alone = {"--submit": bool(jobs), "--dev": resolved.settings.dev, "--keep-workers": resolved.settings.keep_workers}
    for option, is_given in alone.items():
        if is_given:
            raise BadUse(option, "cannot be combined with a database on a server, where another node may lead")


async def _serve_node(node: Node) -> None:
    settings = node.settings
    asked = stop_signals(node.tree.kill)
    await node.start()
    where = f", {node.front.url}" if node.front is not None and node.front.url else ""
    _say(f"interlock: a node with {', '.join(settings.roles)}{where}")
    await asked
    _say(f"stopping: runs have {settings.drain:g}s to end; Ctrl-C again stops them now")
    await node.stop()
    _say("stopped")


def _check_settings(resolved: Resolved) -> None:
    """Refuse a settings file that another user can change. Warn about one whose secrets others can read, and about
    variables that only other programs read."""
    found = settings_file(resolved)
    if found.level == "failed":
        raise BadConfig(f"{found.detail}; {found.fix}")
    if found.level == "warning":
        logger.warning("%s; %s", found.detail, found.fix)
    for name, instead in resolved.unread.items():
        logger.warning("%s is not read; %s", name, instead)


def _check_submits(jobs: list[str], definitions: Mapping[str, Definition], read: Callable[[], Loaded]) -> None:
    """Refuse jobs that do not exist, or that need a payload."""
    for job_id in jobs:
        if job_id not in definitions:
            if job_id not in {job.job.id for job in read().jobs}:
                raise UnknownJob(job_id)
        elif definitions[job_id].job.payload is None:
            definitions[job_id].check(payload.EMPTY)


async def _serve(
    scheduler: Scheduler, jobs: list[str], steps: Callable[[], list[str]], errors: HeldErrors | None
) -> None:
    """`errors` is standard error, held back by the live table; None means no table."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    count = 0

    def stop() -> None:
        nonlocal count
        count += 1
        asked.set()
        if count == 1:
            _say(
                "stopping: workers continue their runs, and the next start adopts them"
                if scheduler.keeps_workers
                else f"stopping: runs have {scheduler.settings.drain:g}s to end; Ctrl-C again stops them now"
            )
        else:
            scheduler.tree.kill()

    # Before anything opens: a signal during the start must not leave a half-open scheduler.
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
        _say("stopped before it had started")
        return
    _say_where(scheduler)
    _say(policy_line(scheduler.engine.present.catalog.policy))
    if scheduler.is_empty and errors is None:
        _say("\n  ".join(how_to_begin()))
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


def _say_where(scheduler: Scheduler) -> None:
    where = f", {scheduler.front.url}" if scheduler.front.url else ""
    workers = f", workers {scheduler.elsewhere}" if scheduler.elsewhere else ""
    database = without_password(scheduler.settings.database)
    _say(f"interlock: {database}, socket {scheduler.settings.socket_path()}{workers}{where}")
    if scheduler.front.url:
        _say(f"dashboard: {scheduler.front.url}/ui/")


async def _reload(scheduler: Scheduler) -> None:
    with suppress(InterlockError):  # the log has the error
        _say(reload_line(await scheduler.services.reload("SIGHUP")))


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    """Print a line, unless the terminal is closed."""
    try:
        say(text)
    except OSError:
        mute(2)


async def _submit(scheduler: Scheduler, jobs: list[str]) -> None:
    """Submit these jobs, except those with a live run from an earlier start."""
    live = {run.job_id for run in scheduler.engine.state.runs.values()}
    wanted = [job_id for job_id in jobs if job_id not in live]
    if wanted:
        connection = await connect(scheduler.settings.socket_path())
        try:
            # Each job has its own payload.
            await submit(connection, [msgspec.structs.replace(new_run(job_id, None), payload=b"") for job_id in wanted])
        finally:
            await connection.close()

"""A worker put together from its parts: link, executor processes, signals."""

import asyncio
import os
import signal
from collections.abc import Sequence

import msgspec

from interlock import config
from interlock.buses.socket import SocketBus
from interlock.model.error import NotRunning
from interlock.model.field import copy_fields
from interlock.model.secret import SECRET_NAMES
from interlock.ports.clock import SystemClock
from interlock.worker.host import Host, HostSettings
from interlock.worker.identity import worker_id
from interlock.worker.pool import ExecutorOptions, ProcessPool


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    app: str | None = None  # None for programs, and functions that jobs name themselves
    socket: str
    name: str = "worker"
    slots: int = 64
    processes: int = 2
    drain: float = 5.0
    memory_limit: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    path: list[str] = []  # additional places to import the app from
    instance: str = ""
    secret_names: Sequence[str] = SECRET_NAMES

    def __post_init__(self) -> None:
        config.check(self)


async def run_worker(options: WorkerOptions) -> None:
    """Run a worker until TERM; raise if there is no scheduler, or the app cannot be loaded."""
    bus = SocketBus(options.socket)
    os.environ["INTERLOCK_SOCKET"] = options.socket
    if not options.instance:
        await _check_scheduler(bus)
    pool = ProcessPool(copy_fields(ExecutorOptions, options), options.processes)
    settings = HostSettings(
        worker_id=worker_id(options.name, os.getpid()),
        slots=options.slots,
        processes=options.processes,
        instance=options.instance,
        pid=os.getpid(),
    )
    host: Host | None = None
    try:
        await pool.start(lambda message: host.report(message) if host is not None else None)
        host = Host(bus, pool, pool.jobs, settings, SystemClock())
        _stop_on_signals(host, options.drain)
        await host.run()
    finally:
        await pool.close()
        await bus.close()


async def _check_scheduler(bus: SocketBus) -> None:
    """Fail at once if there is no scheduler when a person starts a worker; later it waits for one to come back."""
    try:
        _, writer = await asyncio.open_unix_connection(str(bus.path))
    except OSError as error:
        raise NotRunning(str(bus.path)) from error
    writer.close()
    await writer.wait_closed()


def _stop_on_signals(host: Host, drain: float) -> None:
    loop = asyncio.get_running_loop()

    def leave() -> None:
        host.leave()
        loop.call_later(drain, host.interrupt)

    steps = iter((leave, host.interrupt))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: next(steps, host.abandon)())

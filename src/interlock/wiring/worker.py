"""A worker put together from its parts: link, executors, signals."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf

import msgspec

from interlock import config
from interlock.error import InterlockError, NotRunning
from interlock.fields.field import copy_fields
from interlock.fields.secret import SECRET_NAMES
from interlock.model.pool import DEFAULT_POOL
from interlock.pace import Pace
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.ports.clock import SystemClock
from interlock.task_set import TaskSet
from interlock.wire.message import Message, Unready
from interlock.wiring.node_links import Reach
from interlock.worker.echo import Echo
from interlock.worker.host import Host, HostSettings
from interlock.worker.identity import worker_id
from interlock.worker.load import LoadMeter
from interlock.worker.pool import ExecutorOptions, ProcessPool
from interlock.worker.router import Router, executors

logger = logging.getLogger("interlock.worker")

ELSEWHERE = Pace(first=0.1, soon=1.0, late=10.0, jitter=0.5)


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    reach: Reach
    waits: bool = False  # whether its scheduler may come later
    app: str | None = None  # None for programs, and functions that jobs name themselves
    name: str = "worker"
    slots: int = 64
    processes: int = 2
    pool: str = DEFAULT_POOL
    worker_labels: dict[str, str] = {}
    capabilities: list[str] = []
    drain: float = 5.0
    memory_limit: int = 0
    log_level: str = "warning"
    log_format: str = "text"
    echo: bool = False
    path: list[str] = []  # additional places to import the app from
    instance: str = ""
    secret_names: Sequence[str] = SECRET_NAMES
    lifespan_timeout: float = 60.0

    def __post_init__(self) -> None:
        config.check(self)


async def run_worker(options: WorkerOptions, on_welcome: Callable[[str], None] = lambda worker_id: None) -> None:
    """Run a worker until TERM; raise if there is no scheduler, or the app cannot be loaded. `on_welcome` gets the
    worker's id whenever a scheduler has accepted it."""
    bus, is_local = options.reach.bus(), not options.reach.nodes
    if is_local:
        os.environ["INTERLOCK_SOCKET"] = str(options.reach.socket)
    if not options.instance and not (options.waits and is_local):
        await _check_scheduler(bus, must_run=not options.waits)
    tasks = TaskSet()
    executor_options = copy_fields(ExecutorOptions, options, isolated=False, turns=False)
    functions = ProcessPool(
        executor_options,
        options.processes,
        on_fault=lambda error: tasks.begin(_tell_fault(is_local, bus, settings, error)),
    )
    router = Router(functions, executors(executor_options))
    settings = HostSettings(
        worker_id=worker_id(options.name, os.getpid()),
        slots=options.slots,
        processes=options.processes,
        pool=options.pool,
        labels=options.worker_labels,
        capabilities=options.capabilities,
        instance=options.instance,
        pid=os.getpid(),
    )
    if options.waits:
        settings = msgspec.structs.replace(settings, patience=inf, pace=Pace() if is_local else ELSEWHERE)
    host: Host | None = None
    echo = Echo(options.log_format == "json") if options.echo else None

    def report(message: Message) -> None:
        if host is not None:
            host.report(message)
        if echo is not None:
            echo.show(message)

    try:
        try:
            await router.open(report)
        except InterlockError as error:
            if options.instance:
                # The scheduler's own; a person who starts one sees the error itself.
                logger.error("worker %s cannot start", options.name, exc_info=error)
            await _tell_fault(is_local, bus, settings, error)
            raise
        welcomed = partial(on_welcome, settings.worker_id)
        host = Host(bus, router, functions.jobs, settings, SystemClock(), LoadMeter().measure, welcomed)
        _stop_on_signals(host, options.drain)
        await host.run()
    finally:
        await router.close()
        await bus.close()
        if echo is not None:
            echo.close()


async def _check_scheduler(bus: Bus, must_run: bool) -> None:
    """Fail at once if a person starts a worker that cannot join; one elsewhere may start before its scheduler."""
    try:
        (await bus.connect(_NoAnswer())).close()
    except NotRunning as error:
        if must_run:
            raise
        logger.warning("%s; trying again until it answers", error)


class _NoAnswer(Endpoint):
    def received(self, peer: Peer, messages: Sequence[Message]) -> None:
        pass

    def closed(self, peer: Peer) -> None:
        pass


async def _tell_fault(is_local: bool, bus: Bus, settings: HostSettings, error: InterlockError | None) -> None:
    """Tell the scheduler why no executor process can start, or that one can again."""
    if not is_local:
        return  # a scheduler takes this only from its own machine; the worker's log has the error
    reason, trace = ("", "") if error is None else (str(error), "\n".join(getattr(error, "__notes__", ())))
    with suppress(NotRunning):
        peer = await bus.connect(_NoAnswer())
        peer.send([Unready(settings.worker_id, settings.instance, reason, trace)])
        peer.close()


def _stop_on_signals(host: Host, drain: float) -> None:
    loop = asyncio.get_running_loop()

    def leave() -> None:
        host.leave()
        loop.call_later(drain, host.interrupt)

    steps = iter((leave, host.interrupt))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: next(steps, host.abandon)())

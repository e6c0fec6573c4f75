"""The real scheduler and workers on virtual time: only their clock, links, store and attempts are replaced."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from interlock.core.state import CoreLimits
from interlock.engine.catalog import Catalog
from interlock.engine.engine import Engine, EngineSettings
from interlock.engine.metrics import Metrics
from interlock.engine.stall import StallWatch
from interlock.error import InterlockError
from interlock.model.run import Now
from interlock.ports.executor import Executor
from interlock.simulation.virtual import VirtualBus, VirtualClock
from interlock.stores.memory import MemoryStore
from interlock.wire.command import Answered
from interlock.wire.effect import CallHook
from interlock.worker.host import Host, HostSettings

NEVER = 1e10


class _NoStalls(StallWatch):
    """Virtual time jumps, and no jump is a stall."""

    def start(self) -> None: ...

    def notice(self, now: Now, commands: list[Any]) -> None: ...


class _StrictMetrics(Metrics):
    def failed(self, error: InterlockError) -> None:
        """End the cluster with an error from which a scheduler would recover."""
        raise error


class VirtualCluster:
    """A scheduler and its workers on the running loop, which is a `VirtualLoop`."""

    def __init__(
        self, store: MemoryStore, catalog: Catalog, start: float, rng: Random, prerun: float = 10.0, **limits: Any
    ) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop(), start)
        self.bus = VirtualBus()
        self.engine = Engine(
            store=store,
            leases=store,
            clock=self.clock,
            rng=rng,
            catalog=catalog,
            settings=EngineSettings(
                limits=CoreLimits(heartbeat_interval=NEVER, prerun=prerun, **limits),
                lease_ttl=NEVER,
                longest_wait=NEVER,
                holder="virtual",
            ),
            metrics=_StrictMetrics(),
            call_hook=self._answer_hook,
            stall=_NoStalls(self.clock),
        )
        self.answer: Callable[[CallHook], int] = lambda _: 200  # the status of a hook
        self._hosts: list[tuple[Host, Executor]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _answer_hook(self, effect: CallHook) -> None:
        self.engine.inbox.post("", Answered([(effect, (self.answer(effect), ""))]))

    def add_worker(self, executor: Executor, jobs: Iterable[str], slots: int, **more: Any) -> None:
        """Add a worker that starts with the cluster; `more` are other fields of `HostSettings`."""
        worker_id = f"w{len(self._hosts)}"
        settings = HostSettings(worker_id=worker_id, slots=slots, heartbeat_interval=NEVER, **more)
        codes = {job.id: job.code for job in self.engine.present.catalog.jobs}
        known = {job_id: codes.get(job_id, "") for job_id in jobs}
        self._hosts.append((Host(self.bus, executor, known, settings, self.clock), executor))

    async def start(self) -> None:
        await self.bus.listen(self.engine.links)
        await self.engine.start()
        self._tasks = [asyncio.create_task(_work(*host)) for host in self._hosts]
        self.scheduler = asyncio.create_task(self.engine.run())

    def flush(self) -> bool:
        """Send the reports that workers delay for some milliseconds; return whether there were any."""
        waiting = [host._reports for host, _ in self._hosts if host._reports.is_waiting]
        for reports in waiting:
            reports.send_all()
        return bool(waiting)

    async def stop(self) -> None:
        """Stop the scheduler and its workers; raise the error that ended the scheduler, if any."""
        self.engine.stop()
        await asyncio.wait([self.scheduler])
        for host, _ in self._hosts:
            host.abandon()
        await asyncio.gather(*self._tasks)
        self.scheduler.result()


async def _work(host: Host, executor: Executor) -> None:
    await executor.open(host.report)
    await host.run()
    await executor.close()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the scheduler's own log."""
    logger = logging.getLogger("interlock")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)

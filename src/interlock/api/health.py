"""Operations for probes and for Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from interlock.api.auth import NOBODY
from interlock.api.call import HttpCall, Reply, handlers_of
from interlock.api.feed import Feed
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.error import InterlockError
from interlock.interface.bodies import Health, Readiness, ReadinessCheck
from interlock.model.exposition import Family, exposition
from interlock.ports.store import Reader
from interlock.wire import request as r

STANDSTILL = 5.0  # seconds without a turn of the scheduler's loop after which it is not ready
NO_WRITE = 10.0  # the same for a write of any kind: the lease alone is one every few seconds
STARVED = 30.0  # the same for runs that are due while no worker takes any
PROBE = 2.0  # seconds within which a probe must be answered


class HealthChecks:
    def __init__(self, reader: Reader, connection: Connection, feed: Feed) -> None:
        self._reader = reader
        self._connection = connection
        self._feed = feed
        self.handlers = handlers_of(self)

    async def healthz(self, call: HttpCall[Any]) -> Health:
        return Health(alive=True)

    async def readyz(self, call: HttpCall[Any]) -> Reply:
        checks = {"store": await _probe(self._check_store), "scheduler": await _probe(self._check_scheduler)}
        ready = all(check.ok for check in checks.values())
        if call.caller is NOBODY:
            checks = {name: ReadinessCheck(ok=check.ok, detail="") for name, check in checks.items()}
        return Reply(Readiness(ready=ready, checks=checks), status=200 if ready else 503)

    async def _check_store(self) -> ReadinessCheck:
        return ReadinessCheck(ok=True, detail=f"read up to position {await self._reader.position()}")

    async def _check_scheduler(self) -> ReadinessCheck:
        status = await ask(self._connection, r.AskStatus(0))
        faults = (
            (not status.available, "the store does not take writes"),
            (status.draining, "it is stopping"),
            (status.since_pass > STANDSTILL, f"its loop has not turned for {status.since_pass:.0f}s"),
            (status.since_write > NO_WRITE, f"no write for {status.since_write:.0f}s"),
            (status.starved > STARVED, f"runs are due and no worker has taken any for {status.starved:.0f}s"),
        )
        problems = [text for is_so, text in faults if is_so]
        detail = f"{status.live} live runs, {status.workers} workers, position {status.position}"
        found = [*problems, *([status.loss] if status.loss else []), detail]
        return ReadinessCheck(ok=not problems, detail="; ".join(found))

    async def metrics(self, call: HttpCall[Any]) -> bytes:
        readers, cut = float(self._feed.readers), float(self._feed.cut)
        own = [
            Family("interlock_event_readers", "gauge", "Open event streams.", [("", {}, readers)]),
            Family("interlock_event_readers_cut_total", "counter", "Readers cut off.", [("", {}, cut)]),
        ]
        families = await ask(self._connection, r.AskMetrics(0))
        return exposition([*families, *own]).encode()


async def _probe(check: Callable[[], Awaitable[ReadinessCheck]]) -> ReadinessCheck:
    try:
        return await asyncio.wait_for(check(), PROBE)
    except TimeoutError:
        return ReadinessCheck(ok=False, detail=f"no answer within {PROBE:g}s")
    except InterlockError as error:
        return ReadinessCheck(ok=False, detail=str(error))

"""The inspector: reads new results from the store, has them scanned, and reports to the scheduler.

The store is the queue: a report holds the position up to which results are scanned. So a restart leaves out nothing,
and scans again what was not reported. However many results wait, only a few are in memory.
"""

import asyncio
import logging
from time import perf_counter

from interlock.client.connection import Connection
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.error import StoreUnavailable
from interlock.model.output import Scanned
from interlock.model.output_request import AskScanPlan, ReportScans
from interlock.model.state import State
from interlock.ports.store import Reader, StoredEvent

logger = logging.getLogger("interlock.inspector")

PAGE = 1000  # events read at once
AT_ONCE = 50  # results read at once
BETWEEN_LOOKS = 0.2  # seconds, if nothing is new
BETWEEN_REPORTS = 1.0  # seconds, if nothing was scanned


class Inspector:
    def __init__(self, reader: Reader, connection: Connection, pipe: ScanPipe) -> None:
        self._reader = reader
        self._connection = connection
        self._pipe = pipe
        self._reached = 0  # position up to which results are scanned
        self._reported = 0
        self._reported_at = 0.0

    async def run(self) -> None:
        """Scan until cancelled."""
        try:
            while True:
                try:
                    is_more = await self._look()
                except StoreUnavailable as error:
                    logger.warning("%s", error)
                    is_more = False
                if not is_more:
                    await asyncio.sleep(BETWEEN_LOOKS)
        finally:
            await self._pipe.close()

    async def _look(self) -> bool:
        """Scan the results of one page; return whether there may be more."""
        if await self._reader.position() <= max(self._reached, self._reported):
            return False
        plan = await self._connection.ask(AskScanPlan(0))
        if plan.policy is None:
            self._reached = self._reported = await self._reader.position()
            return False
        # The scheduler may have begun anew, with an earlier position or a later one.
        self._reached = plan.position if plan.position != self._reported else self._reached
        self._reported = plan.position
        page = await self._reader.events(self._reached, PAGE)
        run_ids = [one.run_id for one in page.events if isinstance(one, StoredEvent) and _succeeds(one)]
        began, checked, found = perf_counter(), 0, list[Scanned]()
        for first in range(0, len(run_ids), AT_ONCE):
            results = await self._reader.results(run_ids[first : first + AT_ONCE])
            checked += len(results)
            found += await self._pipe.scan(plan.policy, results)
        is_more = page.reached > self._reached
        self._reached = page.reached
        now = asyncio.get_running_loop().time()
        if checked or (self._reached > self._reported and now - self._reported_at > BETWEEN_REPORTS):
            report = ReportScans(0, self._reached, checked, perf_counter() - began if checked else 0.0, found)
            await self._connection.ask(report)
            self._reported, self._reported_at = self._reached, now
        return is_more


def _succeeds(event: StoredEvent) -> bool:
    return bool(event.transitions) and event.transitions[-1].after is State.SUCCEEDED

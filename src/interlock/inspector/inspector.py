"""The inspector: reads new results from the store, has them scanned, and reports to the scheduler.

The store is the queue, and the scheduler keeps the position up to which results are scanned. So a restart leaves out
nothing, and scans again what was not reported. However many results wait, only `AT_ONCE` are in memory.
"""

import asyncio
import logging

from msgspec.structs import replace

from interlock.client.connection import Connection
from interlock.error import StoreUnavailable
from interlock.inspector.log_scan import join_scans, parts_of
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.policy.output import Scanned, ScanTime
from interlock.model.state import TERMINAL, State
from interlock.ports.store import Reader, StoredEvent, Unscanned
from interlock.wire.output_request import AskScanPlan, ReportScans, ScanPlan

logger = logging.getLogger("interlock.inspector")

PAGE = 1000  # events read at once
AT_ONCE = 8  # runs read and reported at once: with 1 MiB each of result and of log, they fit into one frame
BETWEEN_LOOKS = 0.2  # seconds, if nothing is new
SIGN = 10.0  # seconds between signs of life while scanners work


class Inspector:
    def __init__(self, reader: Reader, connection: Connection, pipe: ScanPipe) -> None:
        self._reader = reader
        self._connection = connection
        self._pipe = pipe
        self._reached = 0  # position up to which nothing is left to do

    async def run(self) -> None:
        """Scan until cancelled. Raise if the scanners cannot be loaded."""
        try:
            while True:
                try:
                    is_new = await self._look()
                except StoreUnavailable as error:
                    logger.warning("%s", error)
                    is_new = False
                if not is_new:
                    await asyncio.sleep(BETWEEN_LOOKS)
        finally:
            await self._pipe.close()

    async def _look(self) -> bool:
        """Scan the results of one page; return whether there was anything new."""
        newest = await self._reader.position()
        if newest <= self._reached:
            return False
        plan = await self._connection.ask(AskScanPlan(0))
        if plan.policy is None:
            # A policy that comes later begins at a later position.
            self._reached = newest
            return False
        page = await self._reader.events(plan.position, PAGE)
        ends = [event for event in page.events if isinstance(event, StoredEvent) and _may_be_unscanned(event)]
        report = ReportScans(0, page.reached, plan.digest, [])
        for first in range(0, len(ends), AT_ONCE):
            some = ends[first : first + AT_ONCE]
            unscanned = await self._reader.unscanned([event.run_id for event in some])
            found = await self._scan(plan, unscanned)
            report = replace(report, found=[*report.found, *found])
            # A run that waits for its success waits no longer than needed; clean results are stored with others.
            if any(result.findings or result.error for result in found) or plan.policy.scan is ScanTime.BEFORE:
                if not await self._report(replace(report, position=some[-1].position)):
                    return True
                report = replace(report, found=[])
        await self._report(report)
        return True

    async def _scan(self, plan: ScanPlan, unscanned: list[Unscanned]) -> list[Scanned]:
        """Scan results and logs, and give the scheduler a sign of life meanwhile."""
        assert plan.policy is not None
        scanning = asyncio.ensure_future(self._pipe.scan(plan.policy, parts_of(unscanned)))
        try:
            while not (await asyncio.wait([scanning], timeout=SIGN))[0]:
                if self._pipe.is_ready:
                    await self._connection.ask(ReportScans(0, plan.position, plan.digest, []))
            return join_scans(unscanned, scanning.result())
        finally:
            if not scanning.done():
                # The answers to come would be taken for those of the next results.
                scanning.cancel()
                await self._pipe.close()

    async def _report(self, report: ReportScans) -> bool:
        """Have a part of a page stored; return False if the policy has changed, and it must be scanned again."""
        self._reached = await self._connection.ask(report)
        return self._reached == report.position


def _may_be_unscanned(event: StoredEvent) -> bool:
    return bool(event.transitions) and event.transitions[-1].after in (State.TERMINATING, *TERMINAL)

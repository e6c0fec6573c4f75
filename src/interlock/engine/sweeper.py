"""Sweeps beside the loop: read the stored runs that have not ended, and report those that the scheduler has missed.

Only the scheduler that has the lease has a state to compare with, so no two sweep at the same time."""

import asyncio
import logging

from interlock.core.recovery.sweep import UNKNOWN, PendingMoves, why_missed
from interlock.engine.present import Present
from interlock.error import StoreUnavailable
from interlock.model.run import Run, RunFilter
from interlock.model.state import TERMINAL
from interlock.ports.store import Lookup, Store
from interlock.wire.command import Sweep

logger = logging.getLogger("interlock.sweeps")

PAGE = 200  # runs read at a time
MOST_PAGES = 100  # pages of one sweep; the next one continues there
REST = 0.01  # seconds of rest after each page, which takes about two milliseconds
SETTLE = 1.0  # seconds for the end of a run to reach the store
LIVE = RunFilter(live=True)


class Sweeper:
    def __init__(self, present: Present, store: Store, every: float) -> None:
        """`every` is the number of seconds between two sweeps."""
        self._every = every
        self._present = present
        self._store = store
        self._before: int | None = None  # where the next page begins

    async def run(self) -> None:
        while True:
            try:
                await self.once()
            except StoreUnavailable as error:
                logger.debug("a sweep was left out: %s", error)
            await asyncio.sleep(self._every)

    async def once(self) -> int:
        """Compare one sweep's share of the stored runs with the memory; return how many seem to be missed."""
        found, unknown = 0, list[Run]()
        for _ in range(MOST_PAGES):
            if not (self._present.available and self._present.is_settled):
                break
            page = await self._store.runs(LIVE, self._before, PAGE)
            coming = PendingMoves(self._present.state, self._present.clock.now())
            missed = [(run, why) for run in page.runs if (why := why_missed(coming, run)) is not None]
            unknown += [run for run, why in missed if why == UNKNOWN]
            found += self._report([run for run, why in missed if why != UNKNOWN])
            self._before = page.next
            if page.next is None:
                break
            await asyncio.sleep(REST)
        return found + (await self._report_unknown(unknown) if unknown else 0)

    async def _report_unknown(self, runs: list[Run]) -> int:
        """Report the runs that only the store has, but not those whose end was about to be stored."""
        await asyncio.sleep(SETTLE)
        states = (await self._store.look_up(Lookup(states=[run.id for run in runs]))).states
        live = {run_id for run_id, state in states.items() if state not in TERMINAL} - self._present.state.runs.keys()
        return self._report([run for run in runs if run.id in live][:PAGE])

    def _report(self, runs: list[Run]) -> int:
        if runs:
            self._present.inbox.post("", Sweep({run.id: run.job_version for run in runs}))
        return len(runs)

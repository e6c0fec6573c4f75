"""Housekeeping: prune runs, keys and the logs of services, and keep up with the runs that end.

Pruning selects its victims beside the writer, and deletes them between two commits. Keys outlive their runs: a row has
the key, the run's id and a digest of job and payload. Submitted occurrences and each run of a backfill have such a row
too. For occurrences that a schedule created, the cursor is the record: every time up to it has had its run, and those
before the oldest remaining run were pruned. When the clock is set back, the cursor goes back with it; so occurrences of
the last hour are not pruned.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from math import ceil

import msgspec

from interlock.engine.metrics import Metrics
from interlock.error import StaleEpoch
from interlock.model.letter import DeadLetter
from interlock.model.tally import JobTally, LaneTally
from interlock.ports.clock import Clock
from interlock.ports.leases import Lease
from interlock.ports.store import MOST_PRUNED, Pruned, PruneLimits, Store

logger = logging.getLogger("interlock.housekeeping")

EVERY = 60.0  # seconds between two rounds, unless many runs end in between
MANY_ENDED = 10_000  # ended runs after which the next round comes early
LOOK = 1.0  # seconds between two looks at the number of ended runs
STAY = 3600.0  # seconds to keep scheduled runs: none runs twice if the clock is set back by less
CALL_KEYS = 3600.0  # seconds to keep keys generated for one call: longer than any client repeats it
MOST_LETTERS = 100_000  # newest dead letters kept: their runs stay with them, whatever else is pruned
LANE_TALLIES = 48 * 3600.0  # seconds to keep tallies of minutes
MOST_TALLIES = 1_000_000  # newest tallies kept of each kind
BEHIND = 60.0  # seconds of backlog before a warning is logged
SAID_AGAIN = 600.0


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts to keep; 0 keeps everything."""

    keep_runs: int = 0  # newest runs of each job
    keep_runs_total: int = 0
    keep_for: float = 0.0  # seconds after the end of a run
    keep_keys: float = 0.0  # seconds
    keep_dead_letters: float = 0.0  # seconds
    log_lines: int = sys.maxsize  # of each service
    log_bytes: int = sys.maxsize


class Housekeeping:
    def __init__(
        self,
        store: Store,
        lease: Callable[[], Lease | None],
        keep: Keep,
        metrics: Metrics,
        clock: Clock,
        every: float = EVERY,
    ) -> None:
        """`lease` returns the one to write with; nothing is pruned without it."""
        self._store = store
        self._lease = lease
        self._keep = keep
        self._metrics = metrics
        self._clock = clock
        self._every = every
        self._behind_since: float | None = None  # elapsed time at which the backlog began
        self._ended = 0  # ended runs at that time
        self._pruned = 0  # runs pruned since
        self._say_at = 0.0

    async def run(self) -> None:
        while True:
            began = self._clock.now().elapsed
            has_more = await self.once()
            if not self.falls_behind:
                await self._rest(self._clock.now().elapsed - began if has_more else self._every)

    @property
    def falls_behind(self) -> bool:
        """Whether more runs end than are pruned; then pruning takes all the store time it needs."""
        return self._behind_since is not None and self._metrics.ended_total - self._ended > self._pruned

    async def once(self) -> bool:
        """Prune a part, and return whether more is left."""
        keep, now = self._keep, self._clock.now()
        letters_before = now.wall - keep.keep_dead_letters if keep.keep_dead_letters else 0.0
        limits = PruneLimits(
            keep.keep_runs or sys.maxsize,
            now.wall - keep.keep_for if keep.keep_for else 0.0,
            keep.keep_runs_total or sys.maxsize,
            now.wall - STAY,
            self.falls_behind,
            keep.log_lines,
            keep.log_bytes,
            now.wall - keep.keep_keys if keep.keep_keys else 0.0,
            now.wall - CALL_KEYS,
            (
                (DeadLetter, letters_before, MOST_LETTERS),
                (LaneTally, now.wall - LANE_TALLIES, MOST_TALLIES),
                (JobTally, now.wall - keep.keep_for if keep.keep_for else 0.0, MOST_TALLIES),
            ),
        )
        lease = self._lease()
        try:
            pruned = Pruned(0, False) if lease is None else await self._store.prune(limits, lease)
        except StaleEpoch:
            # The scheduler has lost its lease, or is about to load the state again: the next round is in time.
            pruned = Pruned(0, False)
        found = pruned.lines, pruned.keys, pruned.records, pruned.runs
        if any(found):
            logger.debug("pruned %d lines of services, %d keys, %d records and %d runs", *found)
        self._note(now.elapsed, pruned.runs, pruned.more)
        return MOST_PRUNED in found[:3] or pruned.more

    def _note(self, began: float, pruned: int, more: bool) -> None:
        elapsed = self._clock.now().elapsed
        if not more:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since, self._ended, self._pruned = began, self._metrics.ended_total, pruned
            self._say_at = began + BEHIND
        else:
            self._pruned += pruned
        behind = 0.0 if self._behind_since is None else elapsed - self._behind_since
        self._metrics.pruned(pruned, behind)
        if self._behind_since is not None and elapsed >= self._say_at:
            self._say_at = elapsed + SAID_AGAIN
            logger.warning(
                "pruning has been behind for %.0fs: %d runs ended, %d were pruned, so the store holds more than "
                "keep_runs, keep_runs_total and keep_for allow; submit more slowly, or use a faster disk",
                behind,
                self._metrics.ended_total - self._ended,
                self._pruned,
            )

    async def _rest(self, seconds: float) -> None:
        """Sleep, at most until many runs have ended."""
        most = self._metrics.ended_total + MANY_ENDED
        for _ in range(ceil(seconds / LOOK)):
            await asyncio.sleep(min(seconds, LOOK))
            if self._metrics.ended_total >= most:
                break

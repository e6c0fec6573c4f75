"""Counts the runs that end. Every ten seconds the sums go to the store, with the position up to which they count.

The ends come from the decisions of this scheduler, and those of its predecessor that it had not counted come from the
history in the store: at most ten seconds of them.
"""

import logging
from collections.abc import Callable, Iterable

from interlock.core.facts import Snapshot
from interlock.core.tallies import MEMO
from interlock.error import StoreUnavailable
from interlock.model.run import Run
from interlock.model.state import TERMINAL
from interlock.model.tally import Ending, Tally, ending_of, merge, summed
from interlock.ports.store import Lookup, Store, StoredEvent
from interlock.task_set import TaskSet
from interlock.wire.command import KeepTallies

logger = logging.getLogger("interlock.tallies")

EVERY = 10.0  # seconds between two additions
PAGE = 500  # events read at a time
MOST_MISSED = 100_000  # positions that a start goes back: more than ten seconds have
Key = tuple[type[Tally], str]


class Tallier:
    def __init__(self, store: Store, post: Callable[[str, KeepTallies], None]) -> None:
        self._store = store
        self._post = post
        self._endings: list[Ending] = []
        self._position = 0  # up to which `_endings` has every end after `_missed`
        self._missed: tuple[int, int] | None = None  # positions after and up to which the store has ends to count
        self._known: dict[Key, Tally] = {}  # tallies that grow, as they will be stored
        self._due = 0.0  # elapsed time of the next addition
        self._start = 0  # number of starts
        self._is_flushing = False
        self._tasks = TaskSet()

    def begin(self, snapshot: Snapshot, elapsed: float) -> None:
        """Forget everything that was not stored, and count on from there."""
        counted = max(int(snapshot.memos.get(MEMO, b"0")), snapshot.position - MOST_MISSED)
        self._endings, self._known, self._position = [], {}, snapshot.position
        self._missed = (counted, snapshot.position) if counted < snapshot.position else None
        self._start += 1
        self._due = elapsed + EVERY

    def add(self, ended: Iterable[Run], position: int, elapsed: float) -> None:
        """Count runs whose ends are stored, up to this position."""
        self._endings += map(ending_of, ended)
        self._position = position
        if elapsed >= self._due and (self._endings or self._missed) and not self._is_flushing:
            self._due = elapsed + EVERY
            self._is_flushing = True
            self._tasks.begin(self._flush())

    async def _flush(self) -> None:
        try:
            await self._count()
        finally:
            self._is_flushing = False

    async def _count(self) -> None:
        start, endings, position, missed = self._start, self._endings, self._position, self._missed
        self._endings, self._missed = [], None
        try:
            if missed is not None:
                endings = [*await self._read_missed(*missed), *endings]
            more = summed(endings)
            found = await self._load([key for key in more if key not in self._known])
        except StoreUnavailable as error:
            logger.warning("cannot count now: %s", error)
            if start == self._start:
                self._endings, self._missed = [*endings, *self._endings], missed
            return
        if start != self._start:
            return  # the store is ahead of what this flush had begun with
        for key, tally in more.items():
            known = self._known.get(key) or found.get(key)
            if known is not None:
                merge(known, tally)
            self._known[key] = known or tally
        tallies = [kind.read(id, self._known[kind, id].encode()) for kind, id in more]
        newest = max((tally.at for tally in more.values()), default=0.0)
        self._known = {key: tally for key, tally in self._known.items() if tally.at + 2 * tally.span > newest}
        self._post("", KeepTallies([tally for tally in tallies if tally is not None], position))

    async def _load(self, keys: list[Key]) -> dict[Key, Tally]:
        records = (await self._store.look_up(Lookup(records=keys))).records
        return {key: record for key in keys if isinstance(record := records.get((key[0].kind, key[1])), key[0])}

    async def _read_missed(self, after: int, until: int) -> list[Ending]:
        """Return the ends that the store has in this range; a run that is pruned already counts no more."""
        endings: list[Ending] = []
        more = True
        while more and after < until:
            rows = await self._store.events(after, PAGE)
            ids = [
                event.run_id
                for event in rows.events
                if isinstance(event, StoredEvent) and event.position <= until and _ends(event)
            ]
            endings += map(ending_of, (await self._store.look_up(Lookup(runs=ids))).runs.values())
            after, more = rows.reached, rows.more
        return endings

    async def close(self) -> None:
        self._tasks.cancel()
        await self._tasks.end()


def _ends(event: StoredEvent) -> bool:
    return any(entry.after in TERMINAL and entry.before not in TERMINAL for entry in event.transitions)

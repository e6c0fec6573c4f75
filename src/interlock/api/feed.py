"""Live events for any number of readers, at a bounded cost.

The store is read, not the scheduler: a word from it says how far the store has come, and the feed reads on from where
it was. One reading serves everybody; those with the same wish share the bytes as well. Whatever happens, the feed works
for a tenth of the time of one core at the most: when more is stored than it can tell in that time it leaves out a
stretch and says so with a `gap`, which a reader can go back for. A reader of a single run or service never gets one,
for these are read by themselves. A reader that does not take what it is sent is cut off. Readers that go back take
turns, and all of them together have a quarter of one core.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter, process_time
from typing import Protocol

import msgspec

from interlock.api.sse import Whose, data_of, frame, framed, gap, id_line, whose
from interlock.client.connection import Connection
from interlock.model import request as r
from interlock.model.error import InterlockError
from interlock.model.run_view import EVENT_NAMES, GapEvent, HelloEvent, ProgressEvent
from interlock.ports.store import EventFilter, EventRows, Reader

logger = logging.getLogger("interlock.events")

PAGE = 1000  # events read at a time when a reader goes back
ROUND = 2000  # events told at the most in one round
ROUND_BYTES = 16 * 1024 * 1024  # what one round may send to all readers together, if that is more than one event
EVENT_BYTES = 400  # what an event has, usually
FEWEST = 20  # events a round tells, however many readers there are, if they are no larger than usual
REST = 9.0  # how many times as long as a round worked the feed rests after it
REST_AFTER_SKIP = 19.0  # the same when not everything can be told in any case: then the machine has better things to do
SHORTEST_REST = 0.005
LONGEST_REST = 1.0
LONGEST_REST_AFTER_SKIP = 5.0
REST_OF_CATCHING_UP = 3.0  # the same for readers that go back
PATIENCE = 1.0  # seconds after which the feed looks by itself, should no word come
MOST_HELD = 1024 * 1024  # bytes held back for a reader that is still catching up
KEEP_ALIVE = 15.0  # seconds after which a comment shows every reader that the stream lives
STILL_THERE = b": still there\n\n"

TYPES = frozenset(EVENT_NAMES[kind] for kind in EVENT_NAMES if kind not in (HelloEvent, GapEvent))
"""those that a reader may choose from"""


class Wish(msgspec.Struct, frozen=True):
    """What a reader wants to hear of; None is anything."""

    run: str | None = None
    job: str | None = None
    tenant: str | None = None
    types: frozenset[str] = TYPES
    service: str | None = None

    def wants(self, of: Whose) -> bool:
        return (
            of.kind in self.types
            and (self.run is None or self.run == of.run_id)
            and (self.job is None or self.job == of.job_id)
            and (self.tenant is None or self.tenant == of.tenant)
            and (self.service is None or self.service == of.service)
        )

    @property
    def single(self) -> "Single | None":
        return None if self.run is None and self.service is None else (self.run, self.service)


Single = tuple[str | None, str | None]  # a run, or a service


class Sink(Protocol):
    """Where a reader's bytes go."""

    def write_through(self, chunk: bytes) -> bool:
        """Send now, without waiting; False if so much is unread that it was not taken."""


class Subscriber:
    """One reader. What it is told is held back until it has caught up, and then goes straight out."""

    def __init__(self, wish: Wish, sink: Sink) -> None:
        self.wish = wish
        self.seen = 0  # the last position that it knows already
        self.cut = False  # whether it did not take what it was sent
        self.over = asyncio.Event()
        self._sink = sink
        self._held: list[bytes] | None = []
        self._held_size = 0

    def push(self, chunk: bytes) -> None:
        """Send a chunk, framed for the wire."""
        if self.over.is_set():
            return
        if self._held is not None:
            self._held.append(chunk)
            self._held_size += len(chunk)
            taken = self._held_size <= MOST_HELD
        else:
            taken = self._sink.write_through(chunk)
        if not taken:
            self.cut = True
            self.over.set()
            self._held = []

    def go_live(self) -> None:
        held, self._held = self._held or [], None
        for chunk in held:
            self.push(chunk)


class Told(msgspec.Struct, frozen=True):
    """A stored event, ready to be sent."""

    position: int
    whose: Whose
    data: bytes


class Feed:
    def __init__(self, reader: Reader, connection: Connection) -> None:
        self._reader = reader
        self._connection = connection
        connection.on_news = self._heard
        self._groups: dict[Wish, list[Subscriber]] = {}
        self._singles: dict[Single, list[Wish]] = {}
        """the wishes for a single run or service, which are many, apart from the others, which are few"""
        self._plain: list[Wish] = []
        self._position = 0  # everything up to here has been told
        self._newest = 0  # how far the store has come, as far as is known
        self._progress: dict[str, tuple[str, str, float, str]] = {}
        self._news = asyncio.Event()
        self._pumping: asyncio.Task[None] | None = None
        self._rest = REST
        self._starting = asyncio.Lock()
        self._catching_up = asyncio.Lock()
        self._greeted = 0.0  # when all readers were last shown that the stream lives
        self.cut = 0  # readers that were cut off

    @property
    def readers(self) -> int:
        return sum(len(group) for group in self._groups.values())

    # ── readers come and go ─────────────────────────────────────────────────────────────────────────────────────────

    async def position(self) -> int:
        """How far the feed is; it begins to run if it did not."""
        async with self._starting:
            if self._pumping is None:
                self._position = self._newest = await self._reader.position()
                self._progress.clear()
                self._greeted = perf_counter()
                self._pumping = asyncio.get_running_loop().create_task(self._pump())
        return self._position

    async def newest(self) -> int:
        """How far the store is."""
        return await self._reader.position()

    def join(self, subscriber: Subscriber) -> int:
        """Take a reader in; it is told everything after the position that this returns."""
        wish = subscriber.wish
        group = self._groups.get(wish)
        if group is None:
            group = self._groups[wish] = []
            if wish.single is None:
                self._plain.append(wish)
            else:
                self._singles.setdefault(wish.single, []).append(wish)
        group.append(subscriber)
        return self._position

    def leave(self, subscriber: Subscriber) -> None:
        wish = subscriber.wish
        group = self._groups.get(wish, [])
        with suppress(ValueError):
            group.remove(subscriber)
        if not group and self._groups.pop(wish, None) is not None:
            if wish.single is None:
                self._plain.remove(wish)
            else:
                self._singles[wish.single].remove(wish)
                if not self._singles[wish.single]:
                    del self._singles[wish.single]
        if not self._groups:
            self._news.set()

    async def stored(self, subscriber: Subscriber, after: int, until: int | None = None) -> tuple[bytes, int, bool]:
        """A page of what the store has for a reader: the bytes, how far it went, and whether there may be more."""
        wish = subscriber.wish
        async with self._catching_up:
            if subscriber.over.is_set():
                return b"", after, False
            begun = perf_counter()
            wanted = EventFilter(wish.run, wish.job, wish.tenant, wish.service)
            rows = await self._reader.events(after, PAGE, wanted)
            reached = rows.reached if until is None else min(rows.reached, until)
            data = b"".join(
                data_of(one) for one in rows.events if one.position <= reached and whose(one).kind in wish.types
            )
            await asyncio.sleep(REST_OF_CATCHING_UP * (perf_counter() - begun))
        return data, reached, rows.more if until is None else reached < until

    async def close(self) -> None:
        self._end_all()
        if self._pumping is not None:
            self._pumping.cancel()
            with suppress(asyncio.CancelledError):
                await self._pumping

    def _end_all(self) -> None:
        for group in self._groups.values():
            for subscriber in group:
                subscriber.over.set()

    # ── the pump ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _heard(self, news: r.News) -> None:
        self._newest = max(self._newest, news.position)
        for run_id, job_id, tenant, percent, text in news.progress:
            self._progress[run_id] = (job_id, tenant, percent, text)
        self._news.set()

    async def _pump(self) -> None:
        """Until nobody reads any more."""
        watching = False
        try:
            while self._groups:
                if not watching:
                    watching = await self._watch(True)
                heard = True
                try:
                    await asyncio.wait_for(self._news.wait(), PATIENCE)
                except TimeoutError:
                    heard = False
                self._news.clear()
                begun, told_until = process_time(), self._position
                try:
                    if not heard:
                        # Nothing happened, or the scheduler has gone and come back and does not know that we listen.
                        watching = False
                        self._newest = max(self._newest, await self._reader.position())
                    await self._round()
                except InterlockError as error:
                    logger.warning("the events cannot be read now: %s", error)
                except Exception:
                    # Whatever was being told, nobody may take it for all there was: they come again, and resume.
                    logger.exception("internal error")
                    self._end_all()
                if told_until < self._position < self._newest:
                    # A round that was full is followed by another, without waiting for word.
                    self._news.set()
                # What was written goes out as the loop turns, which is the greater part of the work.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                longest = LONGEST_REST if self._rest == REST else LONGEST_REST_AFTER_SKIP
                await asyncio.sleep(min(longest, max(SHORTEST_REST, self._rest * (process_time() - begun))))
        finally:
            self._pumping = None
        await self._watch(False)

    async def _watch(self, on: bool) -> bool:
        try:
            status = await asyncio.wait_for(self._connection.ask(r.Watch(0, on)), PATIENCE)
        except (InterlockError, TimeoutError):
            return False
        if on:
            self._newest = max(self._newest, status.position)
        return True

    async def _round(self) -> None:
        behind = self._newest - self._position
        plain = sum(len(self._groups[wish]) for wish in self._plain)
        most = max(FEWEST, min(ROUND, ROUND_BYTES // (EVENT_BYTES * max(1, plain))))
        self._rest = REST_AFTER_SKIP if behind > most else REST
        if behind > most:
            # Even then the newest are told, so that whoever watches sees something move.
            await self._skip(self._newest - most // 4)
        if behind > 0:
            self._tell_stored(await self._reader.events(self._position, most), ROUND_BYTES // max(1, plain))
        self._tell_progress()
        self._show_life()

    def _tell_stored(self, rows: EventRows, most_bytes: int) -> None:
        chunks: dict[Wish, list[Told]] = {}
        reached, size = rows.reached, 0
        for stored in rows.events:
            one: Told | None = None
            of = whose(stored)
            for wish in (*self._singles.get((of.run_id, of.service), ()), *self._plain):
                if wish.wants(of):
                    one = one or Told(stored.position, of, data_of(stored))
                    chunks.setdefault(wish, []).append(one)
            size += 0 if one is None else len(one.data)
            if size > most_bytes:
                reached = stored.position
                break
        self._position = reached
        for wish, found in chunks.items():
            self._hand_out(wish, found)

    def _hand_out(self, wish: Wish, found: Sequence[Told]) -> None:
        chunk = framed(b"".join(one.data for one in found))
        for subscriber in self._groups.get(wish, ()):
            if subscriber.seen >= found[0].position:
                # It came with a knowledge of its own, ahead of the feed.
                new = b"".join(one.data for one in found if one.position > subscriber.seen)
                if new:
                    subscriber.push(framed(new))
            else:
                subscriber.push(chunk)

    async def _skip(self, until: int) -> None:
        """Leave out what cannot be told in time. Single runs and services are looked up, so that their readers miss
        nothing."""
        after, self._position = self._position, until
        whole = gap(after, until)
        for wish in self._plain:
            for subscriber in self._groups[wish]:
                if subscriber.seen <= after:
                    subscriber.push(whole)
                elif subscriber.seen < until:
                    subscriber.push(gap(subscriber.seen, until))
        for single in list(self._singles):
            try:
                await self._tell_single(single, after, until)
            except InterlockError:
                # Sooner no stream than one with a hole: its readers come again, and resume.
                for wish in self._singles.get(single, ()):
                    for subscriber in self._groups[wish]:
                        subscriber.over.set()
                run_id, service = single
                what = f"service {service}" if run_id is None else f"run {run_id}"
                logger.warning("the events of %s cannot be read now", what)

    async def _tell_single(self, single: Single, after: int, until: int) -> None:
        run_id, service = single
        more = True
        while more:
            rows = await self._reader.events(after, PAGE, EventFilter(run_id, service=service))
            found = [Told(one.position, whose(one), data_of(one)) for one in rows.events if one.position <= until]
            for wish in self._singles.get(single, ()):
                mine = [one for one in found if wish.wants(one.whose)]
                if mine:
                    self._hand_out(wish, mine)
            after = rows.reached
            more = rows.more and after < until

    def _tell_progress(self) -> None:
        progress, self._progress = self._progress, {}
        for run_id, (job_id, tenant, percent, text) in progress.items():
            event = ProgressEvent(run_id=run_id, job_id=job_id, tenant=tenant, percent=percent, text=text)
            data = framed(frame(event))
            of = Whose("progress", run_id, job_id, tenant)
            for wish in (*self._singles.get((run_id, None), ()), *self._plain):
                if wish.wants(of):
                    for subscriber in self._groups[wish]:
                        subscriber.push(data)

    def _show_life(self) -> None:
        now = perf_counter()
        if now - self._greeted > KEEP_ALIVE:
            self._greeted = now
            # With the position, so that one who has heard of little can go on from here as well.
            chunk = framed(id_line(self._position) + STILL_THERE)
            for group in self._groups.values():
                for subscriber in group:
                    subscriber.push(chunk if subscriber.seen <= self._position else framed(STILL_THERE))

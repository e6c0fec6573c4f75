"""Live events for any number of readers, at a bounded cost.

The feed reads the store, not the scheduler, which only announces how far the store has come. One read serves every
reader, and readers with the same filter share the bytes. After each round the feed rests nine times as long as the
round took: at most a tenth of one core. When the store grows faster, the feed leaves out a range and announces it with
a `gap`, which a reader can go back for. A reader of a single run or service never gets a gap, because these are read
separately. A reader that leaves a mebibyte unread is cut off, and resumes later. Readers that go back take turns, and
share a quarter of one core.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from time import perf_counter, process_time
from typing import Protocol

import msgspec

from interlock.api.sse import Whose, data_of, frame, framed, gap, id_line, whose
from interlock.client.connection import Connection
from interlock.error import InterlockError
from interlock.interface.run_view import EVENT_NAMES, GapEvent, HelloEvent, ProgressEvent
from interlock.model.overview import Overview
from interlock.ports.store import EventFilter, EventRows, Reader
from interlock.wire import request as r

logger = logging.getLogger("interlock.events")

PAGE = 1000  # events read at a time when a reader goes back
ROUND = 2000  # most events sent in one round
ROUND_BYTES = 16 * 1024 * 1024  # most bytes one round sends to all readers together, unless one event has more
EVENT_BYTES = 400  # usual size of an event
FEWEST = 20  # fewest events of a round, however many readers there are
REST = 9.0  # rest after a round, as a multiple of the time it worked
REST_AFTER_SKIP = 19.0  # the same after leaving out a range: the machine is busy with other work
SHORTEST_REST = 0.005
LONGEST_REST = 1.0
LONGEST_REST_AFTER_SKIP = 5.0
REST_OF_CATCHING_UP = 3.0  # the same for readers that go back
PATIENCE = 1.0  # seconds without an announcement after which the feed looks by itself
MOST_HELD = 1024 * 1024  # bytes held back for a reader that is still catching up
KEEP_ALIVE = 15.0  # seconds between comments that show a live stream
STILL_THERE = b": still there\n\n"

OVERVIEW = EVENT_NAMES[Overview]
TYPES = frozenset(EVENT_NAMES[kind] for kind in EVENT_NAMES if kind not in (HelloEvent, GapEvent, Overview))
"""the types that a reader gets who chooses none"""
EVERY_OVERVIEW = 1.0  # least seconds between two overviews
MOST_REST = 5.0  # seconds: an answer that had to wait for the next scheduler took its time, and no work
REST_OF_OVERVIEWS = 9.0  # rest after making them, as a multiple of the time that it took


class Wish(msgspec.Struct, frozen=True):
    """The events that a reader wants; None matches anything."""

    run: str | None = None
    job: str | None = None
    tenant: str | None = None
    types: frozenset[str] = TYPES
    service: str | None = None

    def wants(self, of: Whose) -> bool:
        return (
            of.kind in self.types
            and (self.run is None or self.run == of.run_id)
            and (self.job is None or self.job == of.job_id or self.job in of.jobs or of.more_jobs)
            and (self.tenant is None or self.tenant == of.tenant)
            and (self.service is None or self.service == of.service)
        )

    @property
    def subject(self) -> "Subject":
        return self.run, self.service


Subject = tuple[str | None, str | None]  # a run or a service
EVERYTHING: Subject = (None, None)


class Sink(Protocol):
    """The destination of a reader's bytes."""

    def write_through(self, chunk: bytes) -> bool:
        """Send now, without waiting; return False if too much is unread."""


class Subscriber:
    """One reader. Live events are held back until it has caught up, and then go straight out."""

    def __init__(self, wish: Wish, sink: Sink) -> None:
        self.wish = wish
        self.seen = 0  # last position that it has seen
        self.cut = False  # whether it was cut off for not keeping up
        self.over = asyncio.Event()
        self.overview = b""  # the last that it got
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
        self._wishes: dict[Subject, list[Wish]] = {}
        """by subject: wishes for a single run or service may be many, those for everything are few"""
        self._position = 0  # everything up to here has been sent
        self._newest = 0  # last known position of the store
        self._progress: dict[str, tuple[str, str, float, str]] = {}
        self._news = asyncio.Event()
        self._pumping: asyncio.Task[None] | None = None
        self._rest = REST
        self._starting = asyncio.Lock()
        self._catching_up = asyncio.Lock()
        self._greeted = 0.0  # time of the last comment to all readers
        self._is_closed = False
        self.cut = 0  # readers that were cut off
        self.overview_of: Callable[[str | None], Awaitable[Overview]] | None = None  # of a tenant, None for all
        self._overviewing: asyncio.Task[None] | None = None

    @property
    def readers(self) -> int:
        return sum(len(group) for group in self._groups.values())

    # ── readers come and go ─────────────────────────────────────────────────────────────────────────────────────────

    async def position(self) -> int:
        """Return the position of the feed, which starts if it does not run."""
        async with self._starting:
            if self._pumping is None:
                self._position = self._newest = await self._reader.position()
                self._progress.clear()
                self._greeted = perf_counter()
                self._pumping = asyncio.get_running_loop().create_task(self._pump())
        return self._position

    async def newest(self) -> int:
        """Return the position of the store."""
        return await self._reader.position()

    def join(self, subscriber: Subscriber) -> int:
        """Add a reader, and return the position after which it gets everything. A closed feed ends it at once."""
        if self._is_closed:
            subscriber.over.set()
        wish = subscriber.wish
        group = self._groups.get(wish)
        if group is None:
            group = self._groups[wish] = []
            self._wishes.setdefault(wish.subject, []).append(wish)
        group.append(subscriber)
        if OVERVIEW in wish.types and self._overviewing is None and self.overview_of is not None:
            self._overviewing = asyncio.get_running_loop().create_task(self._send_overviews(self.overview_of))
        return self._position

    def leave(self, subscriber: Subscriber) -> None:
        wish = subscriber.wish
        group = self._groups.get(wish, [])
        with suppress(ValueError):
            group.remove(subscriber)
        if not group and self._groups.pop(wish, None) is not None:
            self._wishes[wish.subject].remove(wish)
            if not self._wishes[wish.subject]:
                del self._wishes[wish.subject]
        if not self._groups:
            self._news.set()

    async def stored(self, subscriber: Subscriber, after: int, until: int | None = None) -> tuple[bytes, int, bool]:
        """Return a page of stored events for a reader: the bytes, the position reached, and whether more may follow."""
        wish = subscriber.wish
        async with self._catching_up:
            if subscriber.over.is_set():
                return b"", after, False
            begun = perf_counter()
            wanted = EventFilter(wish.run, wish.job, wish.tenant, wish.service)
            rows = await self._reader.events(after, PAGE, wanted)
            reached = rows.reached if until is None else min(rows.reached, until)
            data = b"".join(
                data_of(event) for event in rows.events if event.position <= reached and whose(event).kind in wish.types
            )
            await asyncio.sleep(REST_OF_CATCHING_UP * (perf_counter() - begun))
        return data, reached, rows.more if until is None else reached < until

    async def close(self) -> None:
        self._is_closed = True
        self._end_all()
        for task in (self._pumping, self._overviewing):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _end_all(self) -> None:
        for subscriber in chain.from_iterable(self._groups.values()):
            subscriber.over.set()

    # ── the pump ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _heard(self, news: r.News) -> None:
        self._newest = max(self._newest, news.position)
        for run_id, job_id, tenant, percent, text in news.progress:
            self._progress[run_id] = (job_id, tenant, percent, text)
        self._news.set()

    async def _pump(self) -> None:
        """Send events until no reader is left."""
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
                begun, sent_until = process_time(), self._position
                try:
                    if not heard:
                        # Nothing happened, or a restarted scheduler does not know that we listen.
                        watching = False
                        self._newest = max(self._newest, await self._reader.position())
                    await self._round()
                except InterlockError as error:
                    logger.warning("cannot read events now: %s", error)
                except Exception:
                    # No reader may take what it got for everything: all of them reconnect, and resume.
                    logger.exception("internal error")
                    self._end_all()
                if sent_until < self._position < self._newest:
                    # A full round is followed by another, without waiting for an announcement.
                    self._news.set()
                # The bytes go out as the loop turns, which is most of the work.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                longest = LONGEST_REST if self._rest == REST else LONGEST_REST_AFTER_SKIP
                await asyncio.sleep(min(longest, max(SHORTEST_REST, self._rest * (process_time() - begun))))
        finally:
            self._pumping = None
        await self._watch(False)

    async def _watch(self, on: bool) -> bool:
        try:
            status = await asyncio.wait_for(self._connection.ask(r.WatchNews(0, on)), PATIENCE)
        except (InterlockError, TimeoutError):
            return False
        if on:
            self._newest = max(self._newest, status.position)
        return True

    async def _round(self) -> None:
        # Progress precedes the end of its run, so events that are not announced yet wait for it.
        newest = self._newest
        self._send_progress()
        behind = newest - self._position
        plain = sum(1 for _ in self._subscribers_of(EVERYTHING))
        most = max(FEWEST, min(ROUND, ROUND_BYTES // (EVENT_BYTES * max(1, plain))))
        self._rest = REST_AFTER_SKIP if behind > most else REST
        if behind > most:
            # Even then the newest events are sent, so that a person watching sees progress.
            await self._skip(newest - most // 4)
        if behind > 0:
            rows = await self._reader.events(self._position, most)
            self._send_stored(rows, newest, ROUND_BYTES // max(1, plain))
        self._show_life()

    def _send_stored(self, rows: EventRows, newest: int, most_bytes: int) -> None:
        chunks: dict[Wish, list[Told]] = {}
        reached, size = rows.reached, 0
        for stored in rows.events:
            if stored.position > newest:
                reached = newest
                break
            of = whose(stored)
            if not (wishes := self._wishes_for(of)):
                continue
            one = Told(stored.position, of, data_of(stored))
            for wish in wishes:
                chunks.setdefault(wish, []).append(one)
            size += len(one.data)
            if size > most_bytes:
                reached = stored.position
                break
        self._position = reached
        for wish, found in chunks.items():
            self._hand_out(wish, found)

    def _wishes_for(self, of: Whose) -> list[Wish]:
        near = (*self._wishes.get((of.run_id, of.service), ()), *self._wishes.get(EVERYTHING, ()))
        return [wish for wish in near if wish.wants(of)]

    def _hand_out(self, wish: Wish, found: Sequence[Told]) -> None:
        chunk = framed(b"".join(one.data for one in found))
        for subscriber in self._groups.get(wish, ()):
            if subscriber.seen >= found[0].position:
                # It resumed ahead of the feed.
                new = b"".join(one.data for one in found if one.position > subscriber.seen)
                if new:
                    subscriber.push(framed(new))
            else:
                subscriber.push(chunk)

    async def _skip(self, until: int) -> None:
        """Leave out what cannot be sent in time, except for readers of single runs and services."""
        after, self._position = self._position, until
        whole = gap(after, until)
        for subscriber in self._subscribers_of(EVERYTHING):
            if subscriber.seen <= after:
                subscriber.push(whole)
            elif subscriber.seen < until:
                subscriber.push(gap(subscriber.seen, until))
        for subject in [wish for wish in self._wishes if wish != EVERYTHING]:
            try:
                await self._send_single(subject, after, until)
            except InterlockError:
                # Rather no stream than one with a hole: its readers reconnect, and resume.
                for subscriber in self._subscribers_of(subject):
                    subscriber.over.set()
                logger.warning("cannot read the events of %s now", subject[0] or subject[1])

    def _subscribers_of(self, subject: Subject) -> Iterator[Subscriber]:
        return chain.from_iterable(self._groups[wish] for wish in self._wishes.get(subject, ()))

    async def _send_single(self, subject: Subject, after: int, until: int) -> None:
        run_id, service = subject
        more = True
        while more:
            rows = await self._reader.events(after, PAGE, EventFilter(run_id, service=service))
            found = [
                Told(event.position, whose(event), data_of(event)) for event in rows.events if event.position <= until
            ]
            for wish in self._wishes.get(subject, ()):
                mine = [one for one in found if wish.wants(one.whose)]
                if mine:
                    self._hand_out(wish, mine)
            after = rows.reached
            more = rows.more and after < until

    def _send_progress(self) -> None:
        progress, self._progress = self._progress, {}
        for run_id, (job_id, tenant, percent, text) in progress.items():
            event = ProgressEvent(run_id=run_id, job_id=job_id, tenant=tenant, percent=percent, text=text)
            data = framed(frame(event))
            for wish in self._wishes_for(Whose("progress", run_id, job_id, tenant)):
                for subscriber in self._groups[wish]:
                    subscriber.push(data)

    async def _send_overviews(self, overview_of: Callable[[str | None], Awaitable[Overview]]) -> None:
        """Send readers who want it the overview whenever it has changed, until no such reader is left."""
        try:
            while tenants := {wish.tenant for wish in self._groups if OVERVIEW in wish.types}:
                took = 0.0
                for tenant in tenants:
                    begun = perf_counter()
                    with suppress(InterlockError):  # the scheduler is away: the reader sees no news, and nobody worked
                        self._send_overview(tenant, framed(frame(await overview_of(tenant))))
                        took += perf_counter() - begun
                await asyncio.sleep(min(max(EVERY_OVERVIEW, REST_OF_OVERVIEWS * took), MOST_REST))
        finally:
            self._overviewing = None

    def _send_overview(self, tenant: str | None, chunk: bytes) -> None:
        for wish, group in self._groups.items():
            if OVERVIEW in wish.types and wish.tenant == tenant:
                for subscriber in group:
                    if subscriber.overview != chunk:
                        subscriber.overview = chunk
                        subscriber.push(chunk)

    def _show_life(self) -> None:
        now = perf_counter()
        if now - self._greeted > KEEP_ALIVE:
            self._greeted = now
            # With the position, so that a reader of few events can resume from here as well.
            chunk = framed(id_line(self._position) + STILL_THERE)
            for subscriber in chain.from_iterable(self._groups.values()):
                subscriber.push(chunk if subscriber.seen <= self._position else framed(STILL_THERE))

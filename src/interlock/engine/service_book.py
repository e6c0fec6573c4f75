"""The stored records of services: their handover, lines and changes.

Records go through the engine, one command at a time, and share the commits of the runs. So they have positions, appear
in the event stream, and survive restarts. The book makes the next command when the last one is stored, and posts it
again after a failure of the engine. Rows have numbers, so that the store recognises a repeated one. Only `keep` and
`forget` wait for the store, briefly. A flood of lines loses the oldest and says so.

Events of lanes, sessions and violations are rows of the same log, under names that no service has: `@lanes`, and
`@sessions:` with the tenant (`Pass.announce`).
"""

import asyncio
import json
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Set
from itertools import count, islice
from typing import TypeVar

import msgspec

from interlock.fields.duration import brief
from interlock.model.child_info import Change, ChildInfo, Exit, Kept, KeptService, Status
from interlock.ports.handover import Handover
from interlock.ports.store import Reader, every_record
from interlock.wire.command import NoteServices, ServiceRow

T = TypeVar("T")
logger = logging.getLogger("interlock.services")

PACE = 0.05  # seconds between two commands with nothing but lines
PATIENCE = 5.0  # seconds to wait for the store
AGAIN = 0.1  # seconds before a command is posted again, growing
LONGEST_AGAIN = 2.0
MOST_ROWS = 1000
MOST_BYTES = 1024 * 1024  # bytes in one command, so that runs in the same commit do not wait
MOST_WAITING = 16 * 1024 * 1024  # bytes of waiting lines; beyond, the service with most of them loses its oldest
MOST_CHANGES = 100  # changes of one service that may wait
ROW_BYTES = 300  # memory of a row besides its text
LATEST = 1e11  # latest time that fits into a row's number
Future = asyncio.Future[None]


class _Waiting(msgspec.Struct, frozen=True):
    order: int  # order of arrival among the rows of all services
    row: ServiceRow
    size: int
    dropped: int = 0  # number of rows that this mark replaces

    @property
    def kind(self) -> str:
        return "mark" if self.dropped else "line" if self.row[-1] is None else "change"


class _Queue:
    """The rows of one service that wait to be stored, in order, with a mark where some were dropped."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.rows: deque[_Waiting] = deque()
        self._last_number = 0
        self.changes = 0  # kept apart from lines, which may flood
        self.size = 0  # bytes of the lines

    def add(self, order: int, at: float, stream: str, text: str, change: bytes | None = None) -> None:
        at = min(max(at, 0.0), LATEST) if math.isfinite(at) else 0.0
        # Grows across restarts, unless the clock was set back.
        number = self._last_number = max(self._last_number + 1, int(at * 1e6))
        size = ROW_BYTES + len(text.encode()) + len(change or b"")
        self.rows.append(_Waiting(order, (self._service, number, at, stream, text, change), size))
        self._count(self.rows[-1], 1)

    def _count(self, row: _Waiting, by: int) -> None:
        if row.kind == "change":
            self.changes += by
        elif row.kind == "line":
            self.size += by * row.size

    def drop(self, kind: str, most: int) -> None:
        """Drop the oldest rows of a kind; one mark replaces them, in the place of the last."""
        gone = [row for row in self.rows if row.dropped]
        gone += islice((row for row in self.rows if row.kind == kind), most)
        last, dropped = max(gone, key=lambda row: row.order), sum(row.dropped or 1 for row in gone)
        were = "1 line was" if dropped == 1 else f"{dropped} lines were"
        text = f"{were} left out: the store was too slow"
        mark = _Waiting(last.order, (*last.row[:3], "status", text, None), ROW_BYTES, dropped)
        for row in gone:
            self._count(row, -1)
        orders = {row.order for row in gone}
        rest = (row for row in self.rows if row.order not in orders)
        self.rows = deque(sorted([*rest, mark], key=lambda row: row.order))

    def take(self, most: int, most_bytes: int) -> list[_Waiting]:
        """Remove and return the oldest rows in order, at least one if any waits."""
        taken: list[_Waiting] = []
        while self.rows and (not taken or (len(taken) < most and most_bytes > 0)):
            taken.append(self.rows.popleft())
            self._count(taken[-1], -1)
            most_bytes -= taken[-1].size
        return taken


class _PostedCommand(msgspec.Struct):
    """A command on its way into the store."""

    command: NoteServices
    waiters: list[Future]
    again: asyncio.TimerHandle | None = None
    failures: int = 0


class ServiceBook(Handover):
    """The records of one engine. Call it on the engine's event loop, after `load`."""

    def __init__(self, post: Callable[[str, object], None]) -> None:
        """`post` adds a command to the engine's next pass. The engine calls `noted` or `failed` later."""
        self._send = post
        self._kept: dict[str, Kept] = {}
        self._unsaved: dict[str, Kept | None] = {}
        self._waiters: list[Future] = []  # callers that wait for the unsaved records
        self._queues: dict[str, _Queue] = {}
        self._size = 0  # bytes in all queues
        self._order = count()
        self._flight: _PostedCommand | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # loop time of the next command
        self._posted = -math.inf  # loop time of the last command
        self._urgent = False  # whether anything but lines waits
        self._hurry = 0  # flushes under way
        self._empty = asyncio.Event()
        self._empty.set()
        self.dropped = 0  # rows dropped because the store was too slow

    async def load(self, reader: Reader) -> None:
        self._kept = {service.id: service.kept async for service in every_record(reader, KeptService)}

    @property
    def services(self) -> Set[str]:
        """The services that have a stored record."""
        return self._kept.keys()

    async def recall(self, path: str) -> Kept | None:
        return self._kept.get(path)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        self._kept[path] = _sound(kept, Kept)
        return self._save(path, self._kept[path])

    def forget(self, path: str) -> Awaitable[None]:
        self._kept.pop(path, None)
        return self._save(path, None)

    def _save(self, path: str, kept: Kept | None) -> Awaitable[None]:
        self._unsaved[path] = kept
        loop = asyncio.get_running_loop()
        waiter: Future = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(PATIENCE, _resolve, waiter)
        waiter.add_done_callback(lambda _: timer.cancel())
        self._wake(urgent=True)
        return waiter

    def line(self, service: str, stream: str, text: str, at: float) -> None:
        """Record a line of a service; never blocks."""
        self._add(service, at, stream, text if text.isascii() else _sound(text, str))
        self._wake()

    def change(self, change: Change, service: str | None = None) -> None:
        """Record a change of a service under this name, else under its path."""
        change = _sound(change, Change)
        name = change.path if service is None else service
        queue = self._add(name, change.at, "status", in_words(change), msgspec.json.encode(change))
        if queue.changes > MOST_CHANGES:
            self.dropped += 1
            queue.drop("change", 1)
        self._wake(urgent=True)

    def _add(self, service: str, at: float, stream: str, text: str, change: bytes | None = None) -> _Queue:
        queue = self._queues.get(service) or self._queues.setdefault(service, _Queue(service))
        self._size -= queue.size
        queue.add(next(self._order), at, stream, text, change)
        self._size += queue.size
        if self._size > MOST_WAITING:
            self._shed()
        return queue

    def _shed(self) -> None:
        """Drop the older half of the lines of the service with most of them."""
        if self.dropped == 0:
            logger.warning("services print more than the store takes: the oldest lines are left out")
        largest = max(self._queues.values(), key=lambda queue: queue.size)
        lines = (sum(row.kind == "line" for row in largest.rows) + 1) // 2
        self._size -= largest.size
        largest.drop("line", lines)
        self._size += largest.size
        self.dropped += lines

    async def flush(self, limit: float = PATIENCE) -> bool:
        """Wait up to `limit` seconds, while the engine runs, until everything is stored; return whether it is."""
        self._hurry += 1
        if self._has_more:
            self._wake()
        try:
            await asyncio.wait_for(self._empty.wait(), limit)
        except TimeoutError:
            logger.warning("some records of services could not be stored")
            return False
        finally:
            self._hurry -= 1
        return True

    @property
    def _has_more(self) -> bool:
        return bool(self._unsaved) or any(queue.rows for queue in self._queues.values())

    def _wake(self, urgent: bool = False) -> None:
        """Schedule a command: now, or at the pace of lines."""
        self._urgent |= urgent
        self._empty.clear()
        if self._flight is not None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() if self._urgent or self._hurry else max(loop.time(), self._posted + PACE)
        if due < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due, self._timer = due, loop.call_at(due, self._post)

    def _post(self) -> None:
        self._due, self._timer, self._urgent = math.inf, None, False
        command = NoteServices(list(self._unsaved.items()), self._take_rows())
        self._flight = _PostedCommand(command, self._waiters)
        self._unsaved, self._waiters = {}, []
        self._posted = asyncio.get_running_loop().time()
        self._send("", command)

    def _take_rows(self) -> list[ServiceRow]:
        """Take the oldest rows of every service, in order; each leaves the rest of its fair share to the others."""
        taken: list[_Waiting] = []
        rows, size = MOST_ROWS, MOST_BYTES
        waiting = sorted((queue for queue in self._queues.values() if queue.rows), key=lambda queue: len(queue.rows))
        for left, queue in zip(range(len(waiting), 0, -1), waiting, strict=True):
            self._size -= queue.size
            found = queue.take(rows // left, size // left)
            self._size += queue.size
            rows, size = rows - len(found), size - sum(row.size for row in found)
            taken += found
        return [row.row for row in sorted(taken, key=lambda row: row.order)]

    def failed(self) -> None:
        """Post the command again, a moment after the engine dropped all waiting commands."""
        if (flight := self._flight) is not None:
            if flight.again is not None:
                flight.again.cancel()
            delay = min(AGAIN * 2**flight.failures, LONGEST_AGAIN)
            flight.failures = min(flight.failures + 1, 10)
            flight.again = asyncio.get_running_loop().call_later(delay, self._send, "", flight.command)

    def noted(self, command: NoteServices) -> None:
        """Continue after a command was stored."""
        flight = self._flight
        if flight is None or flight.command is not command:
            return
        if flight.again is not None:
            flight.again.cancel()
        self._flight = None
        for waiter in flight.waiters:
            _resolve(waiter)
        if self._has_more:
            self._wake()
        else:
            self._empty.set()


def _resolve(waiter: Future) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _sound(value: T, kind: type[T]) -> T:
    """Replace lone surrogates, which no store takes; a file name may contain some."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return msgspec.json.decode(text.encode(errors="replace"), type=kind)
    return value


def in_words(change: Change) -> str:
    """Return the text of a change of a service."""
    before, after = change.before, change.after
    if after is None:
        return "removed"
    if before is None:
        return "added"
    parts = [_stands(after, change.at)]
    if after.last_exit is not None and after.last_exit != before.last_exit:
        parts.insert(0, _ended(after.last_exit))
    elif after.reason and not after.exhausted and after.status is not Status.PENDING:
        parts.append(after.reason)
    return "; ".join(parts)


def _ended(exit: Exit) -> str:
    if exit.code is not None:
        return f"ended with {exit}"
    return f"ended by {exit}" if exit.signal is not None else f"ended: {exit}"


def _stands(child: ChildInfo, at: float) -> str:
    if child.status is Status.PENDING and child.next_try_at is not None:
        return f"next try in {brief(max(0.0, child.next_try_at - at))}"
    if child.exhausted:
        return f"given up after {child.restarts} {'restart' if child.restarts == 1 else 'restarts'}"
    if child.status in (Status.STARTING, Status.RUNNING) and child.pid is not None:
        return f"{child.status} (pid {child.pid})"
    return child.status.value

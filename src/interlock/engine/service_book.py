"""The stored records of services: what outlasts them, their lines, and their changes.

Records go through the engine as one command at a time. The next is made when the last one is stored; a void one is
posted again. Rows have numbers, so that the store recognises a repeated one. Only `keep` and `forget` wait for the
store, and not for long.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interlock.engine.backlog import Backlog, Waiting
from interlock.engine.service_text import in_words
from interlock.model.child_info import Change, Kept
from interlock.model.command import NoteServices, ServiceRow
from interlock.ports.handover import Handover
from interlock.ports.store import Reader

if TYPE_CHECKING:
    from interlock.engine.engine import Engine

T = TypeVar("T")
logger = logging.getLogger("interlock.services")

PACE = 0.05  # seconds between two commands with nothing but lines
PATIENCE = 5.0  # seconds to wait for the store
AGAIN = 0.1  # seconds before a void command is posted again; longer each time
LONGEST_AGAIN = 2.0
NO_WORD = 30.0  # seconds without an answer from a working engine after which a command counts as lost
MOST_ROWS = 1000
MOST_BYTES = 1024 * 1024  # in one command, so that runs in the same commit do not wait
MOST_WAITING = 16 * 1024 * 1024
"""bytes of lines that may wait; beyond that, the service with most of them loses its oldest"""
LATEST = 1e11  # the latest time from which a row can have a number

Future = asyncio.Future[None]


class _Flight(msgspec.Struct):
    """A command on its way into the store."""

    command: NoteServices
    waiters: list[Future]
    overdue: asyncio.TimerHandle | None = None
    refused: int = 0  # how often it was void


class ServiceBook(Handover):
    """The records for one engine. Calls come from its event loop, after `load`."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        engine.on_noted = self._noted
        self._kept: dict[str, Kept] = {}
        self._unsaved: dict[str, Kept | None] = {}
        self._waiters: list[Future] = []  # callers that wait for the unsaved records
        self._backlogs: dict[str, Backlog] = {}
        self._size = 0  # bytes in all backlogs
        self._order = count()
        self._flight: _Flight | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # loop time of the next command
        self._posted = -math.inf  # loop time of the last command
        self._urgent = False  # whether more than lines waits
        self._hurry = 0  # flushes under way
        self._empty = asyncio.Event()
        self._empty.set()
        self.dropped = 0  # rows dropped because the store was too slow

    async def load(self, reader: Reader) -> None:
        self._kept = await reader.kept()

    # ── records that outlast a service ──────────────────────────────────────────────────────────────────────────────

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

    # ── lines and changes ───────────────────────────────────────────────────────────────────────────────────────────

    def line(self, service: str, stream: str, text: str, at: float) -> None:
        """Record a line of a service; never blocks."""
        backlog = self._backlog(service)
        before = backlog.size
        text = text if text.isascii() else _sound(text, str)
        backlog.add_line(next(self._order), _in_range(at), stream, text)
        self._size += backlog.size - before
        if self._size > MOST_WAITING:
            self._shed()
        self._wake()

    def change(self, change: Change, service: str | None = None) -> None:
        """Record a change of a service, under this name or else its path."""
        change = _sound(change, Change)
        name = change.path if service is None else service
        order, text, data = next(self._order), in_words(change), msgspec.json.encode(change)
        self.dropped += self._backlog(name).add_change(order, _in_range(change.at), text, data)
        self._wake(urgent=True)

    def _backlog(self, service: str) -> Backlog:
        backlog = self._backlogs.get(service)
        if backlog is None:
            backlog = self._backlogs[service] = Backlog(service)
        return backlog

    def _shed(self) -> None:
        if self.dropped == 0:
            logger.warning("services print more than can be stored: the oldest lines are left out")
        largest = max(self._backlogs.values(), key=lambda backlog: backlog.size)
        self._size -= largest.size
        self.dropped += largest.shed()
        self._size += largest.size

    # ── on its way into the store ───────────────────────────────────────────────────────────────────────────────────

    async def flush(self, limit: float = PATIENCE) -> bool:
        """Wait up to `limit` seconds, while the engine runs, until everything is stored; False if it is not."""
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
        return bool(self._unsaved) or any(self._backlogs.values())

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
        self._flight = _Flight(command, self._waiters)
        self._unsaved, self._waiters = {}, []
        self._posted = asyncio.get_running_loop().time()
        self._hand_in(self._flight)

    def _take_rows(self) -> list[ServiceRow]:
        """Take the oldest rows of every service, in order; what one leaves of its fair share goes to the others."""
        taken: list[Waiting] = []
        rows, size = MOST_ROWS, MOST_BYTES
        waiting = sorted((backlog for backlog in self._backlogs.values() if backlog), key=len)
        for left, backlog in zip(range(len(waiting), 0, -1), waiting, strict=True):
            before = backlog.size
            found = backlog.take(rows // left, size // left)
            self._size -= before - backlog.size
            rows, size = rows - len(found), size - sum(one.size for one in found)
            taken += found
        return [one.row for one in sorted(taken, key=lambda one: one.order)]

    def _hand_in(self, flight: _Flight) -> None:
        if self._flight is flight:
            self._watch(flight)
            self._engine.post("", flight.command)

    def _watch(self, flight: _Flight) -> None:
        if flight.overdue is not None:
            flight.overdue.cancel()
        flight.overdue = asyncio.get_running_loop().call_later(NO_WORD, self._missed, flight)

    def _missed(self, flight: _Flight) -> None:
        if self._engine.available:
            self._hand_in(flight)
        else:
            self._watch(flight)

    def _noted(self, command: NoteServices, stored: bool) -> None:
        flight = self._flight
        if flight is None or flight.command is not command:
            return
        if flight.overdue is not None:
            flight.overdue.cancel()
        if not stored:
            delay = min(AGAIN * 2**flight.refused, LONGEST_AGAIN)
            flight.refused = min(flight.refused + 1, 10)
            flight.overdue = asyncio.get_running_loop().call_later(delay, self._hand_in, flight)
            return
        self._flight = None
        for waiter in flight.waiters:
            _resolve(waiter)
        if self._has_more:
            self._wake()
        else:
            self._empty.set()


def _in_range(at: float) -> float:
    return min(max(at, 0.0), LATEST) if math.isfinite(at) else 0.0


def _resolve(waiter: Future) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _sound(value: T, kind: type[T]) -> T:
    """Replace lone surrogates, which no store takes; a file name may contain some."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_replaced(msgspec.to_builtins(value)), kind)
    return value


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name: _replaced(one) for name, one in value.items()}
    return [_replaced(one) for one in value] if isinstance(value, list) else value

"""What the routes of services stand on: the scheduler, asked for the tree and what is done to it, and their log in the
store."""

import asyncio
from collections.abc import Iterator
from difflib import get_close_matches

from interlock.api.cursors import SERVICE_LOGS, cursor_of, read_cursor
from interlock.api.feed import Feed, Subscriber, Wish
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.model import request as r
from interlock.model.access import Caller
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.error import UnknownChild
from interlock.model.reload_report import Reloaded
from interlock.model.run_view import ServiceLine, ServiceLogPage
from interlock.ports.store import Reader

SERVICES, WORKERS = "services", "workers"
"""the children of the top that have below them what can be acted on by its name"""


class _Alarm:
    """Takes nothing, so that whoever listens through it is woken by the first word."""

    def write_through(self, chunk: bytes) -> bool:
        return False


class Tree:
    def __init__(self, reader: Reader, connection: Connection, feed: Feed) -> None:
        self._reader = reader
        self._connection = connection
        self._feed = feed

    async def whole(self) -> ChildInfo:
        return (await ask(self._connection, r.AskTree(0))).root

    async def services(self) -> list[ChildInfo]:
        """Services and groups of them, each before what is in it."""
        return list(_below(await self.whole(), SERVICES))

    async def service(self, name: str) -> ChildInfo:
        """A service, a group of them, or a worker."""
        return await self._find(name, WORKERS, SERVICES)

    async def _find(self, name: str, *places: str) -> ChildInfo:
        top = await self.whole()
        known = {one.name: one for place in places for one in _below(top, place)}
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise UnknownChild(name, f"; did you mean {close[0]!r}?" if close else "")
        return known[name]

    async def act(self, name: str, action: ServiceAction, caller: Caller) -> ChildInfo:
        """Done when this returns. It is asked for once: whether an action whose answer is lost has happened, nobody
        knows."""
        return (await ask(self._connection, r.ActOnService(0, name, action, caller.name))).service

    async def reload(self, caller: Caller) -> Reloaded:
        return (await ask(self._connection, r.Reload(0, caller.name))).reloaded

    async def logs(self, name: str, cursor: str | None, limit: int, last: bool, wait: float) -> ServiceLogPage:
        """A page of what is kept; if that has no line, the first that come within `wait` seconds."""
        page = await self._page(name, cursor, limit, last)
        # A service that is no more still has its log; one without any may never have been.
        if not page.lines and not await self._reader.service_log(name, 0, 1):
            await self._find(name, SERVICES)
        end = asyncio.get_running_loop().time() + wait
        while not page.lines and (left := end - asyncio.get_running_loop().time()) > 0:
            listener = Subscriber(Wish(service=name, types=frozenset({"service", "service_log"})), _Alarm())
            await self._feed.position()
            self._feed.join(listener)
            listener.go_live()
            try:
                # What is stored from here on is told; what was stored before is found.
                page = await self._page(name, cursor, limit, last)
                if not page.lines:
                    await asyncio.wait_for(listener.over.wait(), left)
            except TimeoutError:
                break
            finally:
                self._feed.leave(listener)
            if listener.over.is_set() and not listener.cut:
                # Nothing was told: the server stops.
                break
        return page

    async def _page(self, name: str, cursor: str | None, limit: int, last: bool) -> ServiceLogPage:
        after = read_cursor(SERVICE_LOGS, cursor) or 0
        rows = await self._reader.service_log(name, after, limit, last)
        return ServiceLogPage(
            lines=[ServiceLine(row.at, row.stream, row.text) for row in rows],
            next=cursor_of(SERVICE_LOGS, rows[-1].position if rows else after),
        )


def _below(top: ChildInfo, name: str) -> Iterator[ChildInfo]:
    for child in top.children:
        if child.name == name:
            yield from _descendants(child)


def _descendants(parent: ChildInfo) -> Iterator[ChildInfo]:
    for child in parent.children:
        yield child
        yield from _descendants(child)

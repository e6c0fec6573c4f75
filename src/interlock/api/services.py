"""Operations on services: the scheduler knows the tree and acts on it, the store has the log."""

import asyncio
from collections.abc import Iterator
from difflib import get_close_matches

import msgspec

from interlock.api.call import Handlers, HttpCall, handlers_of, seconds_of
from interlock.api.cursors import SERVICE_LOGS, cursor_of, read_cursor
from interlock.api.feed import Feed, Subscriber, Wish
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.error import UnknownChild
from interlock.interface.bodies import ServiceList
from interlock.interface.run_view import ServiceLine, ServiceLogPage
from interlock.interface.server_operations import ReadService, ReadServiceLogs, ReadServices
from interlock.model.child_info import ChildInfo
from interlock.ports.store import Reader
from interlock.wire.service_request import AskTree

SERVICES, WORKERS = "services", "workers"  # the children of the top whose descendants are found by name


class _Alarm:
    """Takes nothing, so the first event wakes its subscriber."""

    def write_through(self, chunk: bytes) -> bool:
        return False


class ServiceHandlers:
    def __init__(self, reader: Reader, connection: Connection, feed: Feed) -> None:
        self._reader = reader
        self._connection = connection
        self._feed = feed
        self.handlers: Handlers = handlers_of(self)

    async def _below(self, *places: str) -> list[ChildInfo]:
        """Return all descendants of these children of the top."""
        top = await ask(self._connection, AskTree(0))
        return [
            descendant
            for name in places
            for child in top.children
            if child.name == name
            for descendant in _descendants(child)
        ]

    async def services(self, call: HttpCall[ReadServices]) -> ServiceList:
        return ServiceList(services=[msgspec.structs.replace(one, children=[]) for one in await self._below(SERVICES)])

    async def service(self, call: HttpCall[ReadService]) -> ChildInfo:
        return await self._find(call.request.name, WORKERS, SERVICES)

    async def service_logs(self, call: HttpCall[ReadServiceLogs]) -> ServiceLogPage:
        wait = seconds_of(call.request.wait)
        reading = self._logs(call.request, wait)
        return await (call.while_connected(reading) if wait else reading)

    async def _find(self, name: str, *places: str) -> ChildInfo:
        known = {one.name: one for one in await self._below(*places)}
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise UnknownChild(name, f"; did you mean {close[0]!r}?" if close else "")
        return known[name]

    async def _logs(self, query: ReadServiceLogs, wait: float) -> ServiceLogPage:
        """Return a page of stored lines; if it is empty, the first lines that come within `wait` seconds."""
        page = await self._page(query)
        # A removed service keeps its log; a service without any must exist.
        if not page.lines and not await self._reader.service_log(query.name, 0, 1):
            await self._find(query.name, SERVICES)
        end = asyncio.get_running_loop().time() + wait
        while not page.lines and (left := end - asyncio.get_running_loop().time()) > 0:
            listener = Subscriber(Wish(service=query.name, types=frozenset({"service", "service_log"})), _Alarm())
            await self._feed.position()
            self._feed.join(listener)
            listener.go_live()
            try:
                # The listener hears of lines stored from here on; earlier ones are read.
                page = await self._page(query)
                if not page.lines:
                    await asyncio.wait_for(listener.over.wait(), left)
            except TimeoutError:
                break
            finally:
                self._feed.leave(listener)
            if listener.over.is_set() and not listener.cut:
                # The server stops.
                break
        return page

    async def _page(self, query: ReadServiceLogs) -> ServiceLogPage:
        after = read_cursor(SERVICE_LOGS, query.cursor) or 0
        rows = await self._reader.service_log(query.name, after, query.limit, query.last)
        return ServiceLogPage(
            lines=[ServiceLine(row.at, row.stream, row.text) for row in rows],
            next=cursor_of(SERVICE_LOGS, rows[-1].position if rows else after),
        )


def _descendants(parent: ChildInfo) -> Iterator[ChildInfo]:
    for child in parent.children:
        yield child
        yield from _descendants(child)

"""The event stream."""

from typing import Any

from interlock.api.auth import Scope
from interlock.api.call import HttpCall, Send
from interlock.api.cursors import read_event_cursor
from interlock.api.feed import TYPES, Feed, Subscriber, Wish
from interlock.api.protocol import connection_of
from interlock.api.sse import hello
from interlock.error import BadRequest, InterlockError
from interlock.interface.server_operations import ReadEvents
from interlock.model.access import EVERY_TENANT

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventAnswer:
    """Sends a subscriber its events until one of both sides ends it."""

    def __init__(self, feed: Feed, wish: Wish, after: int | None) -> None:
        self._feed = feed
        self._wish = wish
        self._after = after

    async def send_to(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        connection = connection_of(scope)
        subscriber = Subscriber(self._wish, connection)
        connection.when_lost(subscriber.over.set)

        async def write(data: bytes) -> None:
            await send({"type": "http.response.body", "body": data, "more_body": True})

        try:
            await self._catch_up(subscriber, write)
            subscriber.go_live()
            await subscriber.over.wait()
        except InterlockError:
            # The store cannot be read now. The reader reconnects, and resumes.
            pass
        finally:
            self._feed.leave(subscriber)
        if subscriber.cut:
            # A reader that does not read would not see a proper end either.
            self._feed.cut += 1
            connection.abort()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _catch_up(self, subscriber: Subscriber, write: Any) -> None:
        """Send the events stored after the position that the reader knows, then join the live readers."""
        feed = self._feed
        if self._after is None:
            await feed.position()
            subscriber.seen = feed.join(subscriber)
            await write(hello(subscriber.seen))
            return
        # A position beyond the last comes from an earlier store; new events are sent all the same.
        at = min(self._after, await feed.newest())
        await write(hello(at))
        at = await self._send_stored(subscriber, write, at, None)
        await feed.position()
        joined = feed.join(subscriber)
        subscriber.seen = max(at, joined)
        await self._send_stored(subscriber, write, at, joined)
        if self._wish.run is not None and not subscriber.over.is_set():
            await write(hello(subscriber.seen))

    async def _send_stored(self, subscriber: Subscriber, write: Any, at: int, until: int | None) -> int:
        more = until is None or at < until
        while more and not subscriber.over.is_set():
            data, at, more = await self._feed.stored(subscriber, at, until)
            if data:
                await write(data)
        return at


async def open_stream(feed: Feed, call: HttpCall[ReadEvents]) -> EventAnswer:
    if call.scope["http_version"] == "1.0":
        raise BadRequest("request: a stream needs HTTP/1.1")
    query, tenant = call.request, call.request.tenant
    start = None if query.after is None else read_event_cursor("after", query.after)
    if last := call.headers.get(b"last-event-id"):
        start = read_event_cursor("Last-Event-ID", last.decode("latin-1"))
    own = call.caller.tenant
    if own != EVERY_TENANT:
        # Events of other tenants do not exist for the caller, nor those of services, which belong to none.
        tenant = own if tenant in (None, own) else ""
    wish = Wish(query.run, query.job, tenant, frozenset(query.types) or TYPES, query.service)
    return EventAnswer(feed, wish, start)

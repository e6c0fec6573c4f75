"""The route of the event stream."""

from typing import Annotated, Any, Literal

from litestar import get
from litestar.params import QueryParameter
from litestar.response.base import ASGIResponse

from interlock.api.backend import Backend
from interlock.api.cursors import read_event_cursor
from interlock.api.feed import TYPES, Feed, Subscriber, Wish
from interlock.api.protocol import connection_of
from interlock.api.runs import Asked, Text, backend_of, caller_of
from interlock.api.sse import hello
from interlock.model.access import EVERY_TENANT, Permission
from interlock.model.error import BadRequest, InterlockError


class EventStream(ASGIResponse):
    """Sends what a subscriber is given until one of both sides ends it."""

    def __init__(self, feed: Feed, wish: Wish, after: int | None) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._feed = feed
        self._wish = wish
        self._after = after

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
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
            # The store cannot be read now. The reader comes again, and resumes.
            pass
        finally:
            self._feed.leave(subscriber)
        if subscriber.cut:
            # One that does not read would not see a proper end either.
            self._feed.cut += 1
            connection.abort()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _catch_up(self, subscriber: Subscriber, write: Any) -> None:
        """Tell what is stored since the position the reader knows, then join those who are told what is new."""
        feed = self._feed
        if self._after is None:
            await feed.position()
            subscriber.seen = feed.join(subscriber)
            await write(hello(subscriber.seen))
            return
        # A position beyond the last is one of a store that is no more: what is new here is to be told all the same.
        at = min(self._after, await feed.newest())
        await write(hello(at))
        more = True
        while more and not subscriber.over.is_set():
            data, at, more = await feed.stored(subscriber, at)
            if data:
                await write(data)
        await feed.position()
        joined = feed.join(subscriber)
        subscriber.seen = max(at, joined)
        more = at < joined
        while more and not subscriber.over.is_set():
            data, at, more = await feed.stored(subscriber, at, joined)
            if data:
                await write(data)


@get(
    "/api/v1/events",
    summary="Events as they happen",
    operation_id="events",
    tags=["events"],
    media_type="text/event-stream",
)
async def events(
    request: Asked,
    run: Text = None,
    job: Text = None,
    tenant: Text = None,
    service: Text = None,
    kind: Annotated[
        list[Literal["run", "log", "progress", "service", "service_log"]] | None, QueryParameter(name="type")
    ] = None,
    after: Annotated[str | None, QueryParameter(max_length=32)] = None,
) -> ASGIResponse:
    """Server-sent events: what happens to runs, what they log, and their progress; what happens to services, and what
    they print.

    The `id` of an event is a cursor. A stream that is opened with `Last-Event-ID`, or with `after`, first sends
    everything stored after that event. `gap` says that more happened than could be told, and where to
    resume for it. A reader that does not take what it is sent is cut off, and may resume. Services are of no tenant:
    they are told of to those who may see every one, and not where a run, a job or a tenant is asked for.
    """
    caller = caller_of(request, Permission.READ)
    if request.scope["http_version"] == "1.0":
        raise BadRequest("request: a stream needs HTTP/1.1")
    backend: Backend = backend_of(request)
    start = None if after is None else read_event_cursor("after", after)
    if last := request.headers.get("last-event-id"):
        start = read_event_cursor("Last-Event-ID", last)
    if caller.tenant != EVERY_TENANT:
        # Another tenant's events are as if there were none, and so are those of services, which have none.
        tenant = caller.tenant if tenant in (None, caller.tenant) else ""
    wish = Wish(run, job, tenant, frozenset(kind) if kind else TYPES, service)
    return EventStream(backend.feed, wish, start)


HANDLERS = [events]

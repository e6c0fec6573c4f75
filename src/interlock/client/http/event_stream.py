"""Follow the events of a server through every break of the stream, without loss or repetition."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypedDict

import msgspec

from interlock.client.http.exchange import Exchange, FailedExchange, HttpRequest, Response, RetryPatience, media_type
from interlock.client.http.request import filled, request_of
from interlock.client.http.sse import EventParser, ServerSentEvent
from interlock.fields import json_form
from interlock.interface.run_builder import check_options
from interlock.interface.run_operations import ReadRun
from interlock.interface.run_view import EVENT_NAMES, Event, GapEvent, HelloEvent, RunDetail, RunEvent
from interlock.interface.server_operations import ReadEvents
from interlock.model.state import TERMINAL, State

SILENCE = 45.0  # seconds without a byte before a stream is taken for dead; the server sends one at least every 15

PENDING_PAUSE = 0.25  # seconds between two looks at a run whose output is not scanned yet
START = "start"  # cursor before the first event
RUN = EVENT_NAMES[RunEvent]
_KINDS: dict[str, Any] = {name: kind for kind, name in EVENT_NAMES.items()}


class EventOptions(TypedDict, total=False):
    run: str | None
    job: str | None
    tenant: str | None
    service: str | None
    types: Iterable[str]
    after: str | None  # id of an event, or `start`
    complete: bool  # read again what the server left out, instead of yielding a `GapEvent`


class EventStream:
    """The position of a stream: the last event that was yielded, after which a new connection resumes.

    A stream of one run begins with its first event, and ends when the run has ended and everything of it has come. The
    server therefore sends events of type `run` whichever types the caller wants. Lines that were held back come after
    the end of a run: when its output is scanned, if it did not succeed, or when they are released. So for a run that
    has ended, everything has come with the second `hello`, which the server sends after the stored events.
    """

    def __init__(self, exchange: Exchange, asked: EventOptions) -> None:
        check_options(asked, EventOptions)
        fields: dict[str, Any] = {**asked}
        self._complete = fields.pop("complete", False)
        types = fields.pop("types", ())
        types = [types] if isinstance(types, str) else list(types)
        self._hides_run = fields.get("run") is not None and bool(types) and RUN not in types
        self._query = filled(ReadEvents, **fields, types=[*types, RUN] if self._hides_run else types)
        self._cursor = self._query.after
        self._is_settled = False  # whether the run has ended, and no scan holds its output back
        self._hellos = 0  # of this connection
        self._exchange = exchange
        self._resumes = False  # whether the server continues at `_cursor`; otherwise it repeats what is stored after it
        self._greeted = False
        self._patience = RetryPatience(exchange.policy, endless=True)

    async def events(self) -> AsyncIterator[tuple[str | None, Event]]:
        """Yield each event with its id, until the caller stops or the server refuses."""
        exchange = self._exchange
        while True:
            await self._look_at_run()
            request = self._request()
            stream = await exchange.transport.open(request)
            broken: Response | FailedExchange = FailedExchange("lost", EOFError())
            if isinstance(stream, (Response, FailedExchange)):
                exchange.note(stream)
                broken = stream
            else:
                try:
                    if media_type(stream) != "text/event-stream":
                        raise exchange.not_ours(request, 200, "something instead of events")
                    exchange.reached = self._resumes = True
                    self._hellos = 0
                    parser = EventParser()
                    while self._resumes and isinstance(data := await stream.read(), bytes) and data:
                        for message in parser.feed(data):
                            event = self._take(request, message)
                            if event is not None and not (self._hides_run and isinstance(event, RunEvent)):
                                yield message.id, event
                            if self._query.run is not None and await self._is_over(event):
                                return
                            if not self._resumes:
                                break
                finally:
                    await stream.close()
            wait = self._patience.pause(broken, exchange.reached)
            if wait is None:
                raise exchange.not_ours(request, exchange.checked(request, broken).status, "no stream")
            await exchange.transport.pause(wait)

    async def _look_at_run(self) -> None:
        """Refuse an unknown run, which would never end. Wait for the scan of one that did not succeed."""
        if self._query.run is None:
            return
        run = await self._fetch_run(self._query.run)
        while run.state in TERMINAL - {State.SUCCEEDED} and run.facets.get("output", {}).get("status") == "pending":
            await self._exchange.transport.pause(PENDING_PAUSE)
            run = await self._fetch_run(run.id)
        self._is_settled = run.state in TERMINAL
        self._cursor = self._cursor or START

    async def _fetch_run(self, run_id: str) -> RunDetail:
        return await self._exchange.fetch(request_of(ReadRun(run_id)), RunDetail, endless=True)

    async def _is_over(self, event: Event | None) -> bool:
        """Return whether everything of the run has come. If more may come after its end, read on from there."""
        if self._is_settled:
            return self._hellos > 1
        if not isinstance(event, RunEvent) or event.state not in TERMINAL:
            return False
        self._resumes = False
        return event.state is State.SUCCEEDED or "output" not in (await self._fetch_run(event.run_id)).facets

    def _request(self) -> HttpRequest:
        headers = {"Accept": "text/event-stream"}
        if self._resumes and self._cursor is not None:
            headers["Last-Event-ID"] = self._cursor
        query = msgspec.structs.replace(self._query, after=None if self._resumes else self._cursor)
        within = max(self._exchange.policy.timeout, SILENCE)
        return msgspec.structs.replace(request_of(query), headers=headers, within=within, alone=True)

    def _take(self, request: HttpRequest, message: ServerSentEvent) -> Event | None:
        """Note the new position; return the event if the caller is to see it."""
        event = self._decode(request, message)
        if isinstance(event, GapEvent) and self._complete:
            self._cursor, self._resumes = event.after, False
            return None
        if message.id:
            self._cursor = message.id
        elif isinstance(event, GapEvent):
            self._cursor = event.until
        if not isinstance(event, HelloEvent):
            self._patience.restart()
            return event
        self._hellos += 1
        if self._cursor is None:
            self._cursor = event.cursor
        greeted, self._greeted = self._greeted, True
        return None if greeted else event

    def _decode(self, request: HttpRequest, message: ServerSentEvent) -> Event | None:
        """Return the event; None if this client does not know its kind."""
        kind = _KINDS.get(message.name)
        if kind is None:
            return None
        try:
            found: Event = json_form.decode(message.data, kind)
            return found
        except msgspec.DecodeError as error:
            what = f"unexpected content in the event {message.name!r} ({error})"
            raise self._exchange.not_ours(request, 200, what) from error

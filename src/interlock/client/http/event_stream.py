"""Follow the events of a server through every break of the stream, without loss and without repeats."""

from collections.abc import Generator, Iterable
from typing import Any, TypedDict
from urllib.parse import urlencode

import msgspec

from interlock.client.http.exchange import (
    Failure,
    Iteration,
    Open,
    Pause,
    Policy,
    Read,
    Request,
    Response,
    Step,
    Tell,
    checked,
    not_ours,
)
from interlock.client.http.sse import EventParser, ServerSentEvent
from interlock.client.submission import check_text
from interlock.model.run_view import EVENT_NAMES, Event, GapEvent, HelloEvent

SILENCE = 45.0
"""seconds without a sign of life, which comes every 15, after which a stream is taken for dead"""

_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {
    name: msgspec.json.Decoder(kind) for kind, name in EVENT_NAMES.items()
}


class EventFilter(TypedDict, total=False):
    """Which events to hear of, and from where on."""

    run: str | None
    job: str | None
    tenant: str | None
    service: str | None
    types: Iterable[str]
    after: str | None
    """the id of an event, or `start`"""
    complete: bool


class EventStream:
    """Where a stream stands: what was told last, and so where to go on after a break."""

    def __init__(self, policy: Policy, asked: EventFilter) -> None:
        if unknown := asked.keys() - EventFilter.__annotations__.keys():
            raise TypeError(f"events() got an unexpected argument {min(unknown)!r}")
        self._policy = policy
        self._complete = asked.get("complete", False)
        types = asked.get("types", ())
        self._query: dict[str, Any] = {"type": [types] if isinstance(types, str) else list(types)}
        for name in ("run", "job", "tenant", "service", "after"):
            text = asked.get(name)
            if text is not None:
                self._query[name] = [text]
        for name, texts in self._query.items():
            for text in texts:
                check_text(name, text)
        self._cursor: str | None = self._query.pop("after", [None])[0]
        self._greeted = False
        self._opened = False
        self._failures = 0
        """in a row: breaks, and attempts to open, since something was told"""

    def events(self) -> Iteration:
        """Yield pairs of an event's id and the event, until the caller stops or the server refuses."""
        told_to_resume = False
        while True:
            request = self._request(told_to_resume)
            answer: Response | Failure = yield Open(request)
            if isinstance(answer, Failure) and answer.reused:
                continue
            if isinstance(answer, Response) and answer.status == 200:
                self._check_type(request, answer)
                self._opened = told_to_resume = True
                if (yield from self._listen(request)):
                    told_to_resume = False
                pause = self._policy.backoff(self._failures)
            else:
                pause = self._pause(request, answer)
            self._failures += 1
            yield Pause(pause)

    def _request(self, resuming: bool) -> Request:
        query, headers = dict(self._query), {"Accept": "text/event-stream"}
        if self._cursor is not None:
            if resuming:
                headers["Last-Event-ID"] = self._cursor
            else:
                query["after"] = self._cursor
        text = urlencode(query, doseq=True)
        path = f"/api/v1/events?{text}" if text else "/api/v1/events"
        return Request("GET", path, None, headers, within=max(self._policy.timeout, SILENCE), alone=True)

    def _pause(self, request: Request, answer: Response | Failure) -> float:
        """Seconds before the next attempt. Nobody there at the start is an error; who was there comes back."""
        again = self._opened or self._failures < self._policy.retries
        pause = self._policy.pause(answer, self._failures) if again else None
        if pause is None:
            answer = checked(request, answer, self._policy.address)
            raise not_ours(request, answer, self._policy.address, "no stream")
        return pause

    def _check_type(self, request: Request, answer: Response) -> None:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            raise not_ours(request, answer, self._policy.address, "something instead of events")

    def _listen(self, request: Request) -> Generator[Step | Tell, Any, bool]:
        """Until the stream breaks; true if it is left on purpose, to be told what a gap left out."""
        parser = EventParser()
        while True:
            data: bytes | Failure = yield Read()
            if isinstance(data, Failure) or not data:
                return False
            for message in parser.feed(data):
                event = self._read(request, message)
                if isinstance(event, GapEvent) and self._complete:
                    self._cursor = event.after
                    return True
                self._advance(message, event)
                if event is not None and not self._known(event):
                    yield Tell((message.id, event))

    def _read(self, request: Request, message: ServerSentEvent) -> Event | None:
        """The event; None if it is of a kind this client does not know."""
        decoder = _DECODERS.get(message.name)
        if decoder is None:
            return None
        try:
            return decoder.decode(message.data)
        except msgspec.DecodeError as error:
            answer = Response(200, {}, b"")
            what = f"unexpected content in the event {message.name!r} ({error})"
            raise not_ours(request, answer, self._policy.address, what) from error

    def _advance(self, message: ServerSentEvent, event: Event | None) -> None:
        """Note where the stream now stands."""
        if message.id:
            self._cursor = message.id
        elif isinstance(event, GapEvent):
            self._cursor = event.until
        elif isinstance(event, HelloEvent) and self._cursor is None:
            self._cursor = event.cursor
        if not isinstance(event, HelloEvent):
            self._failures = 0

    def _known(self, event: Event) -> bool:
        """Whether the caller has heard this: the greeting is repeated with every connection."""
        if not isinstance(event, HelloEvent):
            return False
        greeted, self._greeted = self._greeted, True
        return greeted

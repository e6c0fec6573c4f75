"""A link to the scheduler: each request carries a number, and so does its answer."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec

from interlock import error as e
from interlock.client.handle import Ending, RunAccess
from interlock.client.stream import chunks_of
from interlock.fields import payload
from interlock.fields.secret import mask
from interlock.interface.run_view import Chunk, HistoryEntry, LogLine, RunDetail, RunInfo, entries_of, origin_of
from interlock.model.explanation import Explanation
from interlock.model.run import RunStats
from interlock.pace import Pace
from interlock.ports.bus import Bus, Endpoint, Peer
from interlock.task_set import TaskSet
from interlock.wire import frames
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.claim import present_claim
from interlock.wire.event_request import SendEvent
from interlock.wire.operation import Declared, Order

T = TypeVar("T")

PATIENCE = 90.0  # seconds for which a request is sent again to a scheduler that restarts; more than its stop takes
PACE = Pace()
STEADY = 1.0  # seconds after which the end of a link counts as a new loss


def _check_sendable(message: m.Message) -> None:
    """Raise here, where the caller waits, if a message cannot be encoded. A submit was checked field by field."""
    if not isinstance(message, r.Submit):
        try:
            frames.encode([message])
        except UnicodeEncodeError as error:
            raise e.BadValue(type(message).__name__.lower(), error.object, "a text that is valid Unicode") from error


def _value(request: r.Request[T], answer: m.Message) -> T:
    """Return the answer as the request declares it."""
    value = answer.value if isinstance(answer, r.ValueAnswer) else answer
    try:
        return cast(T, msgspec.convert(value, request.answer))
    except msgspec.ValidationError as error:
        kinds = f"{type(request).__name__} was answered with {type(answer).__name__}"
        raise e.InterlockError(f"link: {kinds} ({error})") from error


class Connection(Endpoint, RunAccess):
    """One link, which is replaced when it breaks. Requests that are safe to repeat survive that."""

    socket = ""  # of the scheduler

    def __init__(
        self, bus: Bus, patience: float = PATIENCE, outlasts_stop: bool = False, silence: float | None = None
    ) -> None:
        """With `outlasts_stop`, a request that is refused because the scheduler is stopping waits for the next one. A
        link on which nothing comes for the seconds of `silence` is left: another scheduler may lead."""
        self._bus = bus
        self._patience = patience
        self._outlasts_stop = outlasts_stop
        self._silence = silence
        self._fault = ""  # of the last try to connect
        self._heard_at = 0.0  # loop time of the last message
        self._tasks = TaskSet()
        self._peer: Peer | None = None
        self._connecting: asyncio.Lock = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[m.Message]] = {}
        self._count = 0
        self._closed = False
        self.on_news: Callable[[r.News], None] | None = None
        """called with the news that a scheduler sends after a `WatchNews`"""

    @property
    def has_link(self) -> bool:
        return self._peer is not None

    @property
    def fault(self) -> str:
        """Why there is no link."""
        return self._fault or f"no scheduler answers at {self._bus}"

    def now(self) -> float:
        """Return the time from which the deadlines of new runs count."""
        return time.time()

    async def close(self) -> None:
        self._closed = True
        self._tasks.cancel()
        if self._peer is not None:
            self._peer.close()

    async def ask(self, message: r.Request[T]) -> T:
        """Send a request and return its answer, or raise the error that the scheduler reports."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        in_doubt: e.InterlockError | None = None  # what was answered if the outcome is unknown
        delay = PACE.first
        while True:
            asked_at = loop.time()
            try:
                if self._peer is None:
                    await self.open()
                answer = await self._deliver(message)
                if isinstance(answer, m.Problem):
                    raise e.rebuild(answer.code, answer.text, answer.retry_after)
            except (e.ConnectionLost, e.NotRunning, e.Draining, e.OutcomeUnknown, e.StoreUnavailable) as error:
                if isinstance(error, e.StoreUnavailable) and in_doubt is None:
                    raise
                in_doubt = error if isinstance(error, e.OutcomeUnknown) else in_doubt
                if lost_at is None or loop.time() - asked_at > STEADY:
                    lost_at, delay = loop.time(), PACE.first
                # After a lost link or commit, and only then, nobody knows whether the request was carried out.
                is_safe = self._outlasts_stop and in_doubt is None and not isinstance(error, e.ConnectionLost)
                if isinstance(error, e.Draining) and error.retry_after is None:
                    is_safe = False  # somebody has drained the lane, for nobody knows how long
                is_safe = is_safe or (message.repeatable and not isinstance(error, e.Draining))
                if not is_safe or self._closed or loop.time() - lost_at > self._patience:
                    if in_doubt is not None:
                        raise in_doubt from None
                    raise
                await asyncio.sleep(delay)
                delay = PACE.after(delay)
                continue
            return _value(message, answer)

    async def _send(self, request: Declared[T]) -> T:
        """Check a request as HTTP does, and send it for the attempt whose code this is, if any."""
        from interlock.client.http.request import request_of

        http = request_of(request)
        assert isinstance(request, r.Request)
        if isinstance(request, Order):
            request = request.by(parent=present_claim(), key=http.headers.get("Idempotency-Key", ""))
        return await self.ask(request)

    # ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ending(self, run_id: str, limit: float | None) -> Ending:
        try:
            report = await asyncio.wait_for(self.ask(r.Ask(0, run_id, True)), limit)
        except TimeoutError as error:
            raise e.WaitTimeout(run_id, limit or 0.0) from error
        result = None if report.result is None else payload.decode(report.result)
        return Ending(run_id, report.state, report.reason, report.error, result, report.fields.get("facets", {}))

    async def endings(self, run_ids: Iterable[str]) -> AsyncGenerator[Ending, None]:
        waits = [asyncio.ensure_future(self.ending(run_id, None)) for run_id in dict.fromkeys(run_ids)]
        try:
            for ended in asyncio.as_completed(waits):
                yield await ended
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def send_event(self, run_id: str, name: str, value: Any = None) -> str:
        """Send an event to a workflow; return the run of the event."""
        own, claim = os.urandom(16).hex(), present_claim()
        request = SendEvent(0, name, payload.encode_result(value), run_id, own_key=own, parent=claim)
        return (await self.ask(request)).id

    async def get(self, run_id: str) -> RunDetail:
        report = await self.ask(r.Ask(0, run_id, False))
        fields, detail = report.fields, report.detail
        assert detail is not None
        info = msgspec.convert(fields | {"origin": origin_of(fields.get("origin")), "internals": fields}, RunInfo)
        given = None if detail.payload is None else payload.decode(detail.payload)
        return RunDetail(
            **msgspec.structs.asdict(info),
            payload=mask(given, detail.secrets, detail.secret_names),
            result=None if report.result is None else payload.decode(report.result),
            stats=detail.stats,
        )

    async def explain(self, run_id: str) -> Explanation:
        return await self.ask(r.AskExplanation(0, run_id))

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return entries_of(run_id, await self.ask(r.AskHistory(0, run_id)))

    async def logs(self, run_id: str) -> list[LogLine]:
        return [LogLine(*line) for line in await self.ask(r.AskLogs(0, run_id))]

    def stream(self, run_id: str, after: str | None = None) -> AsyncIterator[Chunk]:
        from interlock.client.http.local_events import local_events  # most programs stream nothing

        return chunks_of(lambda asked: local_events(self.socket, asked), run_id, after)

    async def stats(self, run_id: str) -> RunStats:
        return (await self.get(run_id)).stats

    # ── the link ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Connect now, so that an absent scheduler is an error at once."""
        async with self._connecting:
            if self._peer is None:
                try:
                    peer = await self._bus.connect(self)
                except e.NotRunning as error:
                    self._fault = str(error)
                    raise
                peer.send([m.Greeting(m.PROTOCOL)])
                self._peer = peer
                if self._silence is not None:
                    self._tasks.begin(self._listen_for_life(peer, self._silence))

    async def _listen_for_life(self, peer: Peer, silence: float) -> None:
        """Ask for a sign of life three times in the longest silence, and leave the link if none comes."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while self._peer is peer:
            if loop.time() - self._heard_at >= silence:
                self.closed(peer)  # the link itself may take long to end
                peer.close()
                return
            peer.send([r.AskStatus(0)])
            await asyncio.sleep(silence / 3)

    async def _deliver(self, request: r.Request[T]) -> m.Message:
        self._count += 1
        number = self._count
        message = msgspec.structs.replace(request, request=number)
        _check_sendable(message)
        future: asyncio.Future[m.Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            if self._peer is None:
                raise e.ConnectionLost("the question")
            self._peer.send([message])
            return await future
        except asyncio.CancelledError:
            if self._peer is not None:
                self._peer.send([r.Forget(number)])
            raise
        finally:
            self._waiting.pop(number, None)

    def received(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        if self._silence is not None:
            self._heard_at = asyncio.get_running_loop().time()
        for message in messages:
            if isinstance(message, r.News):
                if self.on_news is not None:
                    self.on_news(message)
                continue
            number = getattr(message, "request", 0)
            if (future := self._waiting.pop(number, None)) is not None:
                if not future.done():
                    future.set_result(message)
            elif isinstance(message, m.Problem) and number == 0:
                self._fail(e.rebuild(message.code, message.text))

    def closed(self, peer: Peer) -> None:
        if self._peer is peer:
            self._peer = None
            self._fail(e.ConnectionLost("the question"))

    def _fail(self, error: e.InterlockError) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

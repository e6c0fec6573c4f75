"""How a stream of events is followed through everything that may break it; it is played by hand."""

from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import FailedExchange, Response
from interlock.interface.run_view import GapEvent, HelloEvent, LogEvent
from tests.client.scripted import Clock, Open, Pause, Played, Read, Tell, policy

OPENED = Response(200, {"content-type": "text/event-stream; charset=utf-8"}, b"")
LINE = LogEvent(run_id="r", job_id="j", tenant="t", at=1.0, attempt=1, level="info", text="x")


def sent(event: Any, name: str, cursor: str | None = None) -> bytes:
    head = "" if cursor is None else f"id: {cursor}\n"
    return f"{head}event: {name}\ndata: {msgspec.json.encode(event).decode()}\n\n".encode()


class Play:
    """A stream played by hand: what is sent to it, what it tells, and where it goes next."""

    def __init__(self, asked: Any = None) -> None:
        self.client = Played(policy(Clock()))
        self.iteration = self.client.events(**asked or {})
        self.step: Any = next(self.iteration)
        self.told: list[Any] = []
        self.pauses: list[float] = []

    @property
    def asked(self) -> Any:
        """The path of the request that is made now, and the position it resumes at."""
        assert isinstance(self.step, Open)
        assert self.client.transport.open_streams == 0, "the one before is closed"
        return self.step.request.path, self.step.request.headers.get("Last-Event-ID")

    def give(self, answer: Any) -> "Play":
        self.step = self.iteration.send(answer)
        while isinstance(self.step, (Tell, Pause)):
            if isinstance(self.step, Tell):
                self.told.append(self.step.value)
            else:
                self.pauses.append(self.step.seconds)
            self.step = self.iteration.send(None)
        return self

    def give_for_ever(self, answer: Any) -> None:
        while True:
            self.give(answer)

    def open(self) -> "Play":
        assert isinstance(self.step, Open)
        self.give(OPENED)
        assert isinstance(self.step, Read)
        return self


@pytest.mark.parametrize("broken", [b"", FailedExchange("lost", OSError()), FailedExchange("silent", OSError())])
def test_a_broken_stream_goes_on_where_it_was(broken: Any) -> None:
    play = Play({"job": "a", "types": ("log", "run"), "after": "e3"})
    assert play.asked == ("/api/v1/events?job=a&type=log&type=run&after=e3", None)
    play.open().give(sent(LINE, "log", "e5") + b"id: e6\nevent: log\n").give(broken)
    assert play.told == [("e5", LINE)]
    assert play.asked == ("/api/v1/events?job=a&type=log&type=run", "e5")


def test_the_greeting_is_told_once_and_says_where_to_resume() -> None:
    play = Play()
    assert play.asked == ("/api/v1/events", None)
    hello = HelloEvent(cursor="e41")
    play.open().give(sent(hello, "hello")).give(b"")
    assert play.told == [(None, hello)]
    assert play.asked == ("/api/v1/events", "e41")
    play.open().give(sent(HelloEvent(cursor="e41"), "hello") + sent(LINE, "log", "e42"))
    assert play.told == [(None, hello), ("e42", LINE)]


def test_events_of_unknown_kinds_are_left_out_and_still_count() -> None:
    play = Play().open().give(b"id: e9\nevent: news\ndata: whatever\n\n").give(b"")
    assert play.told == []
    assert play.asked == ("/api/v1/events", "e9")


def test_a_gap_is_told_or_read_again() -> None:
    gap = GapEvent(after="e5", until="e90")
    play = Play().open().give(sent(LINE, "log", "e5") + sent(gap, "gap")).give(b"")
    assert play.told == [("e5", LINE), (None, gap)]
    assert play.asked == ("/api/v1/events", "e90")
    play = (
        Play({"complete": True, "job": "j"})
        .open()
        .give(sent(LINE, "log", "e5") + sent(gap, "gap") + sent(LINE, "log", "e91"))
    )
    assert play.told == [("e5", LINE)]
    assert play.asked == ("/api/v1/events?job=j&after=e5", None)
    play.open().give(sent(LINE, "log", "e6")).give(b"")
    assert play.asked == ("/api/v1/events?job=j", "e6")
    # A sign of life carries the cursor too; without one the stream resumes behind the gap, not before it.
    play = Play().open().give(sent(LINE, "log", "e5") + sent(gap, "gap") + b": still there\n\n").give(b"")
    assert play.asked == ("/api/v1/events", "e90")
    play.open().give(b"id: e95\n: still there\n\n").give(b"")
    assert play.asked == ("/api/v1/events", "e95")


def test_pauses_grow_until_something_is_told() -> None:
    play = Play().open().give(sent(LINE, "log", "e1"))
    for _ in range(4):
        play.give(b"").open().give(sent(HelloEvent(cursor="e1"), "hello"))
    assert play.pauses[3] > play.pauses[0] * 2
    play.give(sent(LINE, "log", "e2")).give(b"")
    assert play.pauses[4] <= 0.05


def test_a_server_that_was_there_is_waited_for_and_one_that_never_was_is_not() -> None:
    away = FailedExchange("unreachable", OSError())
    play = Play()
    with pytest.raises(il.InterlockError, match="http://host:1") as caught:
        play.give_for_ever(away)
    assert caught.value.code == "not_running"
    assert 0.5 < sum(play.pauses) <= 2.0
    play = Play().open().give(b"")
    for _ in range(100):
        play.give(away)
    assert max(play.pauses) <= 2.0


def test_a_refusal_ends_the_stream() -> None:
    problem = {"content-type": "application/problem+json"}
    refusal = Response(401, problem, b'{"code": "unauthorized", "detail": "a token is needed"}')
    with pytest.raises(il.InterlockError, match="a token is needed"):
        Play().give(refusal)
    with pytest.raises(il.InterlockError, match="a token is needed"):
        Play().open().give(b"").give(refusal)


@pytest.mark.parametrize(
    "answer",
    [
        Response(200, {"content-type": "application/json"}, b"{}"),
        Response(200, {"content-type": "text/html"}, b""),
        Response(204, {}, b""),
    ],
)
def test_what_is_no_stream_is_an_error(answer: Response) -> None:
    with pytest.raises(il.InterlockError, match=r"GET http://host:1/api/v1/events was answered with status 20"):
        Play().give(answer)


def test_an_event_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(il.InterlockError, match="event 'log'"):
        Play().open().give(b"event: log\ndata: {\n\n")


@pytest.mark.parametrize("asked", [{"after": -1}, {"after": True}, {"run": 5}, {"types": [5]}])
def test_a_wish_that_makes_no_sense_is_refused(asked: Any) -> None:
    with pytest.raises(il.InterlockError) as caught:
        Played(policy()).events(**asked)
    assert caught.value.code == "bad_value"

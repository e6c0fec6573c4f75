"""When a request is made again, after how long, and what is raised in the end; nothing is sent here."""

from typing import Any

import pytest

import interlock as il
from interlock.client.http.exchange import Exchange, FailedExchange, HttpRequest, Response, retry_after
from tests.client.scripted import ByHand, Clock, Pause, policy, steps

REQUEST = HttpRequest("GET", "/api/v1/runs/r1")


def play(
    answers: list[Response | FailedExchange], request: HttpRequest = REQUEST, reached: bool = False, **options: Any
) -> tuple[Any, list[float]]:
    """Make a request that gets these answers, the last of them for ever: its result or error, and its pauses."""
    clock = Clock()
    exchange = Exchange(policy(clock, **options), ByHand(clock))
    exchange.reached = reached
    operation = steps(exchange.ask(request))
    pauses: list[float] = []
    given: Response | FailedExchange | None = None
    left = list(answers)
    try:
        while True:
            step = operation.send(given)
            given = None
            if isinstance(step, Pause):
                pauses.append(step.seconds)
            else:
                given = left.pop(0) if len(left) > 1 else left[0]
    except StopIteration as end:
        return end.value, pauses
    except il.InterlockError as error:
        return error, pauses


def status(number: int, kind: str = "application/problem+json", body: bytes = b"", **headers: str) -> Response:
    content = body or b'{"code": "draining", "detail": "it stops"}'
    return Response(number, {"content-type": kind} | {k.replace("_", "-"): v for k, v in headers.items()}, content)


def failure(kind: Any) -> FailedExchange:
    return FailedExchange(kind, OSError("why"))


OK = status(200, "application/json", b"{}")


@pytest.mark.parametrize(
    "trouble", [failure("unreachable"), failure("lost"), failure("silent"), *map(status, (429, 502, 503, 504))]
)
def test_who_is_away_is_asked_again(trouble: Response | FailedExchange) -> None:
    answer, pauses = play([trouble, trouble, OK])
    assert answer is OK
    assert len(pauses) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        failure("denied"),
        failure("insecure"),
        failure("garbled"),
        *map(status, (301, 400, 401, 403, 404, 409, 413, 500)),
    ],
)
def test_what_repeating_does_not_mend_is_raised_at_once(trouble: Response | FailedExchange) -> None:
    error, pauses = play([trouble, OK])
    assert isinstance(error, il.InterlockError)
    assert pauses == []


@pytest.mark.behaviour("RUN-17", "RUN-28")
@pytest.mark.parametrize("trouble", [failure("lost"), failure("silent"), status(503)])
def test_a_server_that_was_there_may_be_away_for_longer_than_a_stop_takes(trouble: Response | FailedExchange) -> None:
    error, pauses = play([trouble, failure("unreachable")])
    assert error.code == "not_running"
    assert 87.5 < sum(pauses) <= 90.0
    error, pauses = play([failure("unreachable")], reached=True)
    assert 87.5 < sum(pauses) <= 90.0
    away = [failure("unreachable")] * (len(pauses) - 1)
    assert play([trouble, *away, OK])[0] is OK, "it comes back just in time"


@pytest.mark.behaviour("RUN-28")
def test_who_is_refused_by_a_server_that_stops_waits_for_the_next() -> None:
    stopping = 30 + 17  # seconds of the drain, and for workers to end after it
    _, pauses = play([status(503)], reached=True)
    assert sum(pauses) > stopping + 30, "time to start is left"


def test_a_server_that_never_answered_is_an_error_soon_that_says_where() -> None:
    for trouble in (failure("unreachable"), status(502, "text/html")):
        error, pauses = play([trouble])
        assert "http://host:1" in str(error)
        assert 0.5 < sum(pauses) <= 2.0
    assert 50 < sum(play([failure("unreachable")], first_contact=60.0)[1]) <= 60.0


@pytest.mark.parametrize("reached", [False, True])
def test_without_patience_the_first_answer_counts(reached: bool) -> None:
    error, pauses = play([status(503)], reached=reached, patience=0.0, first_contact=0.0)
    assert (error.code, str(error), pauses) == ("draining", "it stops", [])


def test_pauses_double_up_to_two_seconds_and_are_spread() -> None:
    _, pauses = play([failure("unreachable")], reached=True)
    wholes = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 100]
    for pause, whole in zip(pauses, wholes, strict=False):
        assert whole / 2 <= pause <= whole
    assert len(set(pauses)) == len(pauses)


def test_a_request_that_may_have_taken_effect_is_never_repeated() -> None:
    once = HttpRequest("POST", "/api/v1/reload", once=True)
    unknown = status(503, body=b'{"code": "outcome_unknown", "detail": "it may have been stored"}')
    for trouble in (failure("lost"), failure("silent"), status(504), unknown):
        error, pauses = play([trouble, OK], once)
        assert isinstance(error, il.InterlockError)
        assert pauses == []
    assert play([failure("unreachable"), OK], once)[0] is OK


def test_the_server_says_how_long_to_leave_it_alone() -> None:
    _, pauses = play([status(503, retry_after="7"), status(503, retry_after="0"), OK])
    assert pauses[0] == 7.0
    assert pauses[1] <= 0.1
    error, pauses = play([status(503, retry_after="3600")])
    assert (error.code, pauses) == ("draining", [])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0), ("5", 5), ("0.5", 0.5), ("-3", 0), ("soon", 0), ("nan", 0), ("inf", 0), ("", 0),
        ("Thu, 01 Jan 1970 00:16:50 GMT", 0),
    ],
)  # fmt: skip
def test_how_long_is_given_in_seconds(value: str | None, seconds: float) -> None:
    assert retry_after(value) == seconds


def test_there_is_no_retry_that_would_begin_too_late() -> None:
    clock = Clock()
    operation = steps(Exchange(policy(clock), ByHand(clock)).ask(REQUEST, until=clock.at + 0.02))
    operation.send(None)
    with pytest.raises(il.InterlockError) as caught:
        operation.send(failure("unreachable"))
    assert caught.value.code == "not_running"


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (failure("unreachable"), "not_running", "no scheduler answers at http://host:1; start one with: interlock up"),
        (failure("denied"), "forbidden", "http://host:1 cannot be opened (why)"),
        (failure("insecure"), "internal", "http://host:1: no secure connection (why)"),
        (failure("silent"), "connection_lost", "GET http://host:1/api/v1/runs/r1 was not answered in time"),
        (failure("lost"), "connection_lost", "GET http://host:1/api/v1/runs/r1: the connection broke"),
        (failure("garbled"), "internal", "is not HTTP"),
        (status(404, body=b'{"code": "unknown_run", "detail": "run: x"}'), "unknown_run", "run: x"),
        (status(418, body=b'{"code": "new_one", "detail": "hm"}'), "internal", "hm (new_one)"),
        (
            status(400, body=b'{"code": "bad_va'),
            "internal",
            "/api/v1/runs/r1 was answered with status 400 and unexpected",
        ),
        (status(400, body=b'{"code": 5, "detail": "x"}'), "internal", "status 400 and unexpected content"),
        (status(502, "text/html", b"<h1>Bad"), "internal", "status 502 and an answer that is not ours (text/html)"),
        (status(301, "", b"x"), "internal", "status 301 and an answer that is not ours (of no type)"),
    ],
)
def test_what_is_raised_in_the_end(answer: Response | FailedExchange, code: str, says: str) -> None:
    error, _ = play([answer], HttpRequest("GET", "/api/v1/runs/r1?wait=30s"), patience=0.0, first_contact=0.0)
    assert error.code == code
    assert says in str(error)
    assert "\n" not in str(error)

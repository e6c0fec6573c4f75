"""What the operations ask and how they read the answers; they are played by hand, and nothing is sent."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.handle import Ending
from interlock.client.http.exchange import ClientPolicy, FailedExchange, HttpRequest, Response
from interlock.interface.run_view import LogLine, LogPage, RunPage
from interlock.model.run import CALL_KEY
from interlock.model.state import TERMINAL
from interlock.wire.request import NewRun
from tests.client.faulty import DETAIL
from tests.client.scripted import NOW, Clock, Pause, Played, Tell, answered, policy, returned


def submitted(job: str, payload: Any = None, **options: Any) -> tuple[dict[str, Any], str | None]:
    """The body of a submit and the key in its head."""
    operation = Played(policy()).submit(job, payload, **options)
    request = next(operation)
    assert isinstance(request, HttpRequest)
    assert (request.method, request.path) == ("POST", "/api/v1/runs")
    assert returned(operation, answered(DETAIL, 201)).id == "r1"
    return msgspec.json.decode(request.body or b""), request.headers.get("Idempotency-Key")


def test_a_submit_says_only_what_it_was_told() -> None:
    body, key = submitted("echo", {"value": 1})
    assert body == {"job": "echo", "payload": {"value": 1}}
    assert key is not None
    assert key.startswith(CALL_KEY)
    assert len(key) == len(CALL_KEY) + 32


def test_every_submit_has_a_key_of_its_own_unless_it_needs_none() -> None:
    keys = {submitted("echo")[1] for _ in range(100)}
    assert len(keys) == 100
    body, key = submitted("echo", idempotency_key="☃ mine")
    assert (body["idempotency_key"], key) == ("☃ mine", None)
    body, key = submitted("echo", occurrence=NOW)
    assert (body["occurrence"], key) == (NOW, None)


def test_a_repeated_submit_is_the_very_same_request() -> None:
    operation = Played(policy()).submit("echo", {"value": 1})
    first = next(operation)
    assert isinstance(operation.send(FailedExchange("lost", OSError())), Pause)
    assert operation.send(None) == first


def test_times_travel_so_that_clocks_that_differ_do_no_harm() -> None:
    assert submitted("echo", delay="5s")[0] == {"job": "echo", "delay": 5.0}
    assert submitted("echo", delay=0)[0]["delay"] == 0.0
    assert submitted("echo", deadline="1m")[0]["deadline"] == 60.0
    assert submitted("echo", delay="5s", deadline="1m")[0]["deadline"] == 60.0
    assert submitted("echo", at=NOW + 9)[0] == {"job": "echo", "at": NOW + 9}
    when = datetime.fromtimestamp(NOW, UTC)
    assert submitted("echo", deadline=when + timedelta(minutes=2))[0]["deadline"] == 120.0
    assert (
        submitted("echo", at=when + timedelta(minutes=1), deadline=when + timedelta(minutes=2))[0]["deadline"] == 60.0
    )
    assert submitted("echo", deadline=when - timedelta(minutes=2))[0]["deadline"] == 0.0


def test_names_travel() -> None:
    names = {"tenant": "acme", "lane": "slow", "session": "s-1"}
    assert submitted("echo", None, **names)[0] == {"job": "echo", **names}
    assert "tenant" not in submitted("echo", tenant=None)[0]
    assert submitted("echo", tenant="default")[0]["tenant"] == "default"


@pytest.mark.parametrize(
    ("job", "payload", "options", "code"),
    [
        (5, None, {}, "bad_value"),
        ("echo", {"value": {1, 2}}, {}, "not_json"),
        ("echo", {"value": "x" * 2**20}, {}, "payload_too_large"),
        ("echo", None, {"delay": "soon"}, "bad_duration"),
        ("echo", None, {"delay": 1, "at": 2.0}, "bad_value"),
        ("echo", None, {"tenant": 5}, "bad_value"),
        ("echo", None, {"deadline": datetime(2030, 1, 1)}, "bad_value"),  # noqa: DTZ001 - refused for that
    ],
)
def test_what_cannot_be_submitted_is_not_sent(job: Any, payload: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        next(Played(policy()).submit(job, payload, **options))
    assert caught.value.code == code


@pytest.mark.parametrize("client", [il.Client("http://localhost:1"), il.AsyncClient("http://localhost:1")])
def test_an_option_that_does_not_exist_is_a_mistake_in_the_program(client: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: client.submit("echo", tennant="x").send(None),
        lambda: client.trigger("echo", tennant="x").send(None),
        lambda: client.runs(tennant="x"),
        lambda: client.act_on_many("hold", tennant="x").send(None),
        lambda: client.events(tennant="x"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="nexpected keyword argument 'tennant'"):
            call()


def batch(runs: Any) -> tuple[list[dict[str, Any]], str | None]:
    operation = Played(policy()).submit_many(runs)
    request = next(operation)
    assert isinstance(request, HttpRequest)
    assert request.path == "/api/v1/runs/batch"
    bodies = msgspec.json.decode(request.body or b"")["runs"]
    ids = [str(number) for number in range(len(bodies))]
    assert [one.id for one in returned(operation, answered({"ids": ids}, 201))] == ids
    return bodies, request.headers.get("Idempotency-Key")


def test_a_batch_takes_pairs_and_runs() -> None:
    due = il.run("b", {"x": 1}, now=NOW, at=NOW + 5, deadline="9s", tenant="acme", idempotency_key="k")
    bodies, key = batch([("a", None), due])
    assert bodies == [
        {"job": "a"},
        {"job": "b", "payload": {"x": 1}, "tenant": "acme", "idempotency_key": "k", "deadline": 9.0, "at": NOW + 5},
    ]
    assert key is not None
    assert batch([due, due])[1] is None


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (["ab"], r"runs\[0\]: 'str' is not a pair"),
        ([("a", None), ("b",)], r"runs\[1\]"),
        ([("a", {"password": "hunter2"}, 1)], r"runs\[0\]: 'tuple' is not a pair"),
        ([NewRun("a", b"x" * 2**20)] * 17, "submit: 17,825,792 bytes"),
    ],
)
def test_a_batch_that_makes_no_sense_is_not_sent(runs: Any, says: str) -> None:
    with pytest.raises(il.InterlockError, match=says) as caught:
        next(Played(policy()).submit_many(runs))
    assert "hunter2" not in str(caught.value)


# ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b"])
def test_what_can_be_no_id_is_of_no_run(run_id: str) -> None:
    with pytest.raises(il.InterlockError) as caught:
        next(Played(policy()).get(run_id))
    assert caught.value.code == "unknown_run"


def test_an_id_is_quoted() -> None:
    request = next(Played(policy()).get("echo:1700? ☃"))
    assert isinstance(request, HttpRequest)
    assert request.path == "/api/v1/runs/echo:1700%3F%20%E2%98%83"


def as_it_stands(state: il.State, **changes: Any) -> Response:
    return answered(msgspec.structs.replace(DETAIL, state=state, **changes))


def known(policy: ClientPolicy) -> Played:
    """Operations of a client that the server has answered."""
    operations = Played(policy)
    operation = operations.get("r1")
    next(operation)
    returned(operation, as_it_stands(il.State.RUNNING))
    return operations


def test_a_wait_asks_again_and_again() -> None:
    clock = Clock()
    operation = known(policy(clock, timeout=10.0)).ending("r1", None)
    request = next(operation)
    for _ in range(100):
        assert request == HttpRequest("GET", "/api/v1/runs/r1?wait=30.000s", within=40.0, alone=True)
        clock.at += 30
        request = operation.send(as_it_stands(il.State.RUNNING))
    assert returned(operation, as_it_stands(il.State.SUCCEEDED)) == Ending(
        "r1", il.State.SUCCEEDED, "done", None, {"sum": 3}
    )


def test_a_wait_with_a_limit_ends_in_time() -> None:
    clock = Clock()
    operation = known(policy(clock)).ending("r1", 31.5)
    assert next(operation) == HttpRequest("GET", "/api/v1/runs/r1?wait=30.000s", within=35.0, alone=True)
    clock.at += 30
    request = operation.send(as_it_stands(il.State.RUNNING))
    assert request == HttpRequest("GET", "/api/v1/runs/r1?wait=1.500s", within=6.5, alone=True)
    clock.at += 1.5
    with pytest.raises(il.WaitTimeout, match=r"r1 has not ended within 31\.5s"):
        operation.send(as_it_stands(il.State.RUNNING))


def test_a_wait_of_no_time_looks_once() -> None:
    operation = Played(policy()).ending("r1", 0.0)
    request = next(operation)
    assert isinstance(request, HttpRequest)
    assert request.path == "/api/v1/runs/r1"
    with pytest.raises(il.WaitTimeout):
        operation.send(as_it_stands(il.State.RUNNING))


def test_a_server_that_does_not_wait_is_not_asked_without_a_pause() -> None:
    operation = known(policy()).ending("r1", None)
    next(operation)
    assert operation.send(as_it_stands(il.State.RUNNING)) == Pause(0.5)


def test_a_wait_goes_on_however_long_a_server_that_was_there_is_away() -> None:
    operation = Played(policy(patience=2.0)).ending("r1", None)
    next(operation)
    request = operation.send(as_it_stands(il.State.RUNNING))
    for trouble in [FailedExchange("lost", OSError())] + [FailedExchange("unreachable", OSError())] * 100:
        assert isinstance(operation.send(trouble), Pause)
        assert operation.send(None) == request
    assert returned(operation, as_it_stands(il.State.SUCCEEDED)).result == {"sum": 3}


def test_a_wait_for_a_server_that_never_was_there_is_an_error() -> None:
    clock = Clock()
    operation = Played(policy(clock)).ending("r1", None)
    next(operation)

    def never_there() -> None:
        while True:
            assert isinstance(operation.send(FailedExchange("unreachable", OSError())), Pause)
            operation.send(None)

    with pytest.raises(il.InterlockError, match=r"run r1: .* http://host:1") as caught:
        never_there()
    assert caught.value.code == "not_running"
    assert 50.5 < clock.at <= 52.0


def test_a_server_that_does_not_come_back_within_the_limit_is_an_error_that_names_the_run() -> None:
    clock = Clock()
    operation = known(policy(clock, patience=0.0)).ending("r1", 60.0)
    next(operation)
    assert isinstance(operation.send(FailedExchange("lost", OSError())), Pause)
    clock.at += 59.99
    operation.send(None)
    with pytest.raises(il.InterlockError, match="run r1: no scheduler answers"):
        operation.send(FailedExchange("unreachable", OSError()))


def test_a_crowd_that_waits_looks_now_and_then_instead_of_holding_connections() -> None:
    operations = Played(policy())
    seated: list[Any] = [operations.ending("r1", None) for _ in range(256)]
    assert all(next(one).alone for one in seated)
    operation = operations.ending("r1", None)
    request = next(operation)
    assert isinstance(request, HttpRequest)
    assert (request.path, request.alone) == ("/api/v1/runs/r1", False)
    assert operation.send(as_it_stands(il.State.RUNNING)) == Pause(257 / 200)
    for one in seated:
        returned(one, as_it_stands(il.State.FAILED))
    request = operation.send(None)
    assert isinstance(request, HttpRequest)
    assert request.alone


@pytest.mark.parametrize("state", sorted(TERMINAL - {il.State.SUCCEEDED}))
def test_the_end_of_a_run_that_did_not_succeed_is_an_error(state: il.State) -> None:
    with pytest.raises(il.RunEnded, match=rf"r1 ended as {state}: ValueError: no") as caught:
        Ending("r1", state, "failed", "Traceback …\nValueError: no\n", None).unpack()
    assert (caught.value.state, caught.value.__cause__) == (state, None)
    assert type(caught.value).__name__ == f"Run{state.rpartition('_')[2].title()}"
    with pytest.raises(il.RunEnded, match="because"):
        Ending("r1", state, "because", " \n", None).unpack()
    with pytest.raises(il.RunEnded) as caught:
        Ending("r1", state, "failed", None, None, {"failure": {"types": ["a.B", "KeyError"]}}).unpack()
    cause = caught.value.__cause__
    assert isinstance(cause, il.RemoteError)
    assert (str(cause), cause.type, cause.types, cause.message) == ("a.B", "a.B", ("a.B", "KeyError"), "")


# ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def runs_page(count: int, following: str | None) -> Response:
    return answered(RunPage(runs=[DETAIL] * count, next=following))


def test_pages_are_followed_to_the_end() -> None:
    iteration = Played(policy()).runs(state=["failed", il.State.RUNNING], job="a&b", live=True)
    request = next(iteration)
    assert isinstance(request, HttpRequest)
    assert request.path == "/api/v1/runs?job=a%26b&state=failed&state=running&live=true&limit=200"
    step: Any = iteration.send(runs_page(2, "c 1"))
    assert isinstance(step, Tell)
    assert isinstance(iteration.send(None), Tell)
    request = iteration.send(None)
    assert isinstance(request, HttpRequest)
    assert request.path.endswith("&limit=200&cursor=c+1")
    step = iteration.send(runs_page(0, "c2"))
    assert step.path.endswith("cursor=c2")
    assert isinstance(iteration.send(runs_page(1, None)), Tell)
    with pytest.raises(StopIteration):
        iteration.send(None)


def test_no_more_runs_are_told_than_are_wanted() -> None:
    iteration = Played(policy()).runs(limit=202, since=NOW, until=datetime.fromtimestamp(NOW, UTC))
    request: Any = next(iteration)
    assert request.path == "/api/v1/runs?since=1000000.0&until=1000000.0&limit=200"
    step: Any = iteration.send(runs_page(200, "c1"))
    for _ in range(200):
        assert isinstance(step, Tell)
        step = iteration.send(None)
    assert "limit=200&cursor=c1" in step.path
    assert isinstance(iteration.send(runs_page(200, "c2")), Tell)
    assert isinstance(iteration.send(None), Tell)
    with pytest.raises(StopIteration):
        iteration.send(None)
    few: Any = next(Played(policy()).runs(limit=3))
    assert few.path == "/api/v1/runs?limit=3"


@pytest.mark.parametrize(
    "asked", [{"limit": 0}, {"limit": True}, {"job": 5}, {"state": [5]}, {"since": "today"}, {"tenant": "\ud800"}]
)
def test_a_filter_that_makes_no_sense_is_refused_before_the_first_run(asked: dict[str, Any]) -> None:
    with pytest.raises(il.InterlockError, match=next(iter(asked))):
        il.Client("http://localhost:1").runs(**asked)
    with pytest.raises(il.InterlockError, match=next(iter(asked))):
        il.AsyncClient("http://localhost:1").runs(**asked)


def test_the_pages_of_a_log_are_put_together() -> None:
    lines = [LogLine(float(number), 1, "info", "text") for number in range(3)]
    operation = Played(policy()).logs("r1")
    next(operation)
    request: Any = operation.send(answered(LogPage(lines=lines[:2], next="2")))
    assert request.path == "/api/v1/runs/r1/logs?cursor=2"
    assert returned(operation, answered(LogPage(lines=lines[2:], next=None))) == lines


def test_readiness_is_an_answer_even_when_it_says_no() -> None:
    operation = Played(policy()).ready()
    next(operation)
    found = {"ready": False, "checks": {"store": {"ok": False, "detail": "full"}}}
    assert msgspec.to_builtins(returned(operation, answered(found, 503))) == found
    operation = Played(policy(patience=0.0)).ready()
    next(operation)
    with pytest.raises(il.InterlockError, match="too many"):
        operation.send(
            Response(503, {"content-type": "application/problem+json"}, b'{"code":"overloaded","detail":"too many"}')
        )


def test_what_is_not_metrics_is_an_error() -> None:
    operation = Played(policy()).metrics()
    next(operation)
    with pytest.raises(il.InterlockError, match="something instead of metrics"):
        operation.send(Response(200, {"content-type": "text/html"}, b"<html>"))

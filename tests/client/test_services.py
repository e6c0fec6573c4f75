"""What the clients ask about services and how they read the answers: played by hand, and over HTTP."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.client.http.exchange import FailedExchange, HttpRequest, Response
from interlock.interface.run_view import ServiceLine, ServiceLogPage
from interlock.model.child_info import ChildInfo, Exit, Status
from tests.client.faces import KINDS, face
from tests.client.faulty import Faulty, Reply
from tests.client.scripted import Clock, Pause, Played, Tell, answered, policy
from tests.helpers.places import clean_folder
from tests.helpers.server import Server
from tests.helpers.services import declare, say

WEB = ChildInfo(
    path="services/shop/web",
    name="web",
    kind="process",
    status=Status.RUNNING,
    pid=7,
    since=1.5,
    last_exit=Exit(at=1.0, signal=9),
)
SHOP = ChildInfo(
    path="services/shop", name="shop", kind="supervisor", status=Status.RUNNING, strategy="one_for_all", children=[WEB]
)
LINES = [ServiceLine(float(number), "stdout", f"line {number}") for number in range(5)]


def page(lines: list[ServiceLine], following: str) -> Response:
    return answered(ServiceLogPage(lines=lines, next=following))


def refused(code: str, status: int = 503, **more: Any) -> Response:
    body = msgspec.json.encode({"code": code, "detail": "so it is"} | more)
    return Response(status, {"content-type": "application/problem+json"}, body)


LOST = refused("connection_lost")

# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a/", "a/.."])
def test_what_can_be_no_name_is_of_no_service(name: str) -> None:
    operations = Played(policy())
    calls: list[Callable[[], Any]] = [
        lambda: next(operations.service(name)),
        lambda: next(operations.act(name, "stop")),
        lambda: operations.service_logs(name, False, None),
    ]
    for begin in calls:
        with pytest.raises(il.InterlockError) as caught:
            begin()
        assert caught.value.code == "unknown_child"
        assert (": 'b'" in str(caught.value)) is (name == "a/b"), "the name that was meant"


# ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "trouble",
    [
        FailedExchange("lost", OSError()),
        FailedExchange("silent", TimeoutError()),
        LOST,
        Response(502, {}, b""),
        Response(504, {}, b""),
    ],
)
def test_an_action_that_may_have_happened_is_not_repeated(trouble: Any) -> None:
    operation = Played(policy()).act("web", "restart")
    next(operation)
    with pytest.raises(il.InterlockError) as caught:
        operation.send(trouble)
    # A server of ours that has lost the scheduler says so in words of its own.
    assert str(caught.value).endswith("; it may have been done, or still be under way") or trouble == LOST


@pytest.mark.parametrize(
    "trouble",
    [
        FailedExchange("unreachable", OSError()),
        refused("not_running"),
        refused("draining"),
        Response(429, {"content-type": "text/plain"}, b""),
    ],
)
def test_an_action_that_nobody_has_heard_of_is_repeated(trouble: Any) -> None:
    operation = Played(policy()).act("web", "restart")
    request = next(operation)
    assert isinstance(operation.send(trouble), Pause)
    assert operation.send(None) == request


def test_every_fault_of_the_files_is_told() -> None:
    operation = Played(policy()).reload()
    next(operation)
    faults = ["web.yaml:1: this", "web.yaml:7: that"]
    with pytest.raises(il.InterlockError) as caught:
        operation.send(refused("bad_config", 422, detail="2 faults", faults=faults))
    assert str(caught.value).splitlines() == ["2 faults", *faults]
    operation = Played(policy()).reload()
    next(operation)
    with pytest.raises(il.InterlockError) as caught:
        operation.send(refused("bad_config", 422, detail=faults[0], faults=faults[:1]))
    assert (str(caught.value), caught.value.code) == (faults[0], "bad_config")


# ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def told(iteration: Any, first: Any) -> tuple[list[ServiceLine], Any]:
    """Return the lines after this answer, and the next step; None at the end."""
    found, step = [], first
    try:
        step = iteration.send(first)
        while isinstance(step, Tell):
            found.append(step.value)
            step = iteration.send(None)
    except StopIteration:
        return found, None
    return found, step


def test_all_lines_are_read_page_by_page() -> None:
    iteration = Played(policy()).service_logs("web", False, None)
    assert next(iteration) == HttpRequest("GET", "/api/v1/services/web/logs")
    found, request = told(iteration, page(LINES[:3], "s2"))
    assert (found, request) == (LINES[:3], HttpRequest("GET", "/api/v1/services/web/logs?cursor=s2"))
    found, request = told(iteration, page(LINES[3:], "s4"))
    assert (found, request) == (LINES[3:], HttpRequest("GET", "/api/v1/services/web/logs?cursor=s4"))
    assert told(iteration, page([], "s4")) == ([], None)


def test_no_old_line_at_all() -> None:
    iteration = Played(policy()).service_logs("web", True, 0)
    assert next(iteration) == HttpRequest("GET", "/api/v1/services/web/logs?limit=1&last=true")
    found, request = told(iteration, page(LINES[4:], "s4"))
    assert (found, request) == ([], HttpRequest("GET", "/api/v1/services/web/logs?cursor=s4"))


def test_what_comes_is_waited_for_through_everything() -> None:
    clock = Clock()
    iteration = Played(policy(clock, patience=1.0, timeout=10.0)).service_logs("web", True, 2)
    next(iteration)
    found, request = told(iteration, page(LINES[:2], "s1"))
    assert (found, request) == (LINES[:2], HttpRequest("GET", "/api/v1/services/web/logs?cursor=s1"))
    _, request = told(iteration, page([], "s1"))
    waiting = HttpRequest("GET", "/api/v1/services/web/logs?cursor=s1&wait=30s", within=40.0, alone=True)
    assert request == waiting
    for trouble in [FailedExchange("lost", OSError())] + [FailedExchange("unreachable", OSError())] * 50:
        assert isinstance(iteration.send(trouble), Pause)
        assert iteration.send(None) == waiting
    clock.at += 30
    assert told(iteration, page([], "s1")) == ([], waiting)
    assert told(iteration, page([], "s1")) == ([], Pause(0.5)), "a server that does not wait is not asked at once"
    assert iteration.send(None) == waiting
    found, request = told(iteration, page(LINES[2:4], "s3"))
    assert (found, request) == (LINES[2:4], HttpRequest("GET", "/api/v1/services/web/logs?cursor=s3"))


def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    iteration = Played(policy(first_contact=0.0)).service_logs("web", True, None)
    next(iteration)
    with pytest.raises(il.InterlockError) as caught:
        iteration.send(FailedExchange("unreachable", OSError()))
    assert caught.value.code == "not_running"


@pytest.mark.parametrize("last", [-1, 10_001, True, "5", 1.5])
def test_a_number_of_lines_that_is_none(last: Any) -> None:
    for client in (il.Client("http://localhost:1"), il.AsyncClient("http://localhost:1")):
        with pytest.raises(il.InterlockError, match="last: "):
            client.service_logs("web", last=last)


# ── both clients ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_an_action_whose_answer_is_lost_is_asked_for_once(kind: str) -> None:
    with Faulty(Reply(then="close")) as server, face(kind, server.url) as client:
        with pytest.raises(il.InterlockError) as caught:
            client("act", "web", "restart")
        assert caught.value.code == "connection_lost"
    assert len(server.asked) == 1


# ── with a real server ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def kept() -> Iterator[Server]:
    with clean_folder() as place:
        options = (str(declare(place)), "--http", "local", "--workers", "0", "--drain", "0s")
        with Server(place, *options) as server:
            yield server


@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_told_as_they_come(kind: str, kept: Server) -> None:
    with face(kind, f"unix:{kept.http_socket}") as client:
        lines = client("service_logs", "talk", follow=True, last=None)
        assert next(line for line in lines if line.stream == "stdout").text == "hello"
        say(kept.folder, f"for {kind}\n")
        assert next(line for line in lines if line.stream == "stdout" and kind in line.text).text == f"for {kind}"
        lines.close()
        assert [line.text for line in client("service_logs", "talk", last=1)] == [f"for {kind}"]

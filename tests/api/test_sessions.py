"""Sessions over HTTP: list them, act on them, follow it as events; kill -9 keeps all of it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.conftest import sound
from tests.api.tokens import as_
from tests.helpers.http import Answer, Http, ends, path_with
from tests.helpers.places import clean_folder, tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS, SESSIONS = "/api/v1/runs", "/api/v1/sessions"
KEYS = ["chat:1", "a/b", "../x", "..", ".", "é ☃/?#%2F", "\U0001f600" * 128, "x\ny"]


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place, sound(Server(place, "--drain", "1s", "--http", "local")) as running:
        yield running


def path(key: str, action: str = "") -> str:
    part = quote(key, safe=":").replace(".", "%2E")
    return f"{SESSIONS}/{part}/{action}".rstrip("/")


def act(http: Http, key: str, action: str, **query: object) -> Answer:
    return http.post(path_with(path(key, action), query))


def submit(http: Http, key: str, place: Path, name: str, **options: Any) -> str:
    """A run that works until told to go."""
    given = {"debounce": "0s"} | options
    return http.submit("hold", {"folder": str(place), "name": name}, session=key, session_options=given)


def running(http: Http, run_id: str) -> str:
    wait_until(lambda: http.get(f"{RUNS}/{run_id}").json["state"] == "running", "it runs")
    return run_id


def listed(http: Http, **query: object) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in http.get(path_with(SESSIONS, query)).json["sessions"]}


@pytest.mark.behaviour("SES-5", "SES-7", "SES-10")
def test_the_life_of_a_session_through_kill_9(own: Server) -> None:
    http, key = own.local, "chat/ü:1"
    first = running(http, submit(http, key, own.folder, "first", cap=7))
    second, third = (submit(http, key, own.folder, name) for name in ("second", "third"))
    assert act(http, key, "pause").json["acted"] is True
    assert act(http, key, "pause").json["acted"] is False
    shown = act(http, key, "reset").json["session"]
    assert (shown["active"], shown["waiting"], shown["generation"], shown["paused"]) == (0, 0, 1, True)
    for run_id in (second, third):
        ended = http.ended(run_id)
        assert (ended["state"], ended["reason"], ended["actor"]) == ("cancelled", "lane_cleared", "local")
    tell_to_go(own.folder, "first")
    assert http.ended(first)["state"] == "succeeded"
    assert act(http, key, "stopall").json["acted"] is False
    idle = http.get(path(key)).json
    assert key not in listed(http)
    asyncio.run(own.restart())
    assert http.get(path(key)).json == idle
    assert (idle["generation"], idle["paused"], idle["cap"], idle["active"]) == (1, True, 7, 0)
    stale = http.submit("echo", {"value": 1}, session=key, stamp="2026-01-01T00:00:00Z")
    assert http.ended(stale)["reason"] == "message_stale"
    fresh = http.submit("echo", {"value": 2}, session=key)
    shown = listed(http)[key]
    assert (shown["waiting"], shown["cutoff"], shown["paused"]) == (1, None, True)
    assert http.get(f"{RUNS}/{fresh}").json["state"] == "scheduled"
    assert act(http, key, "resume").json["acted"] is True
    assert http.ended(fresh)["result"] == 2


@pytest.mark.behaviour("SES-5")
def test_stop_and_stopall(http: Http, server: Server) -> None:
    assert act(http, "s", "stop").json["acted"] is False
    first = running(http, submit(http, "s", server.folder, "first", max_concurrent=2))
    second = running(http, submit(http, "s", server.folder, "second"))
    third = submit(http, "s", server.folder, "third")
    assert act(http, "s", "stop").json["acted"] is True
    assert http.ended(first)["state"] == "cancelled"
    running(http, third)
    assert http.get(f"{RUNS}/{second}").json["state"] == "running"
    fourth = submit(http, "s", server.folder, "fourth")
    stopped = act(http, "s", "stopall").json
    assert (stopped["acted"], stopped["session"]["waiting"]) == (True, 0)
    for run_id in (second, third, fourth):
        ended = http.ended(run_id)
        assert (ended["state"], ended["reason"], ended["actor"]) == ("cancelled", "stopped", "local")


@pytest.mark.parametrize("key", KEYS)
def test_any_key_works_in_a_path(http: Http, key: str) -> None:
    for action, paused in (("pause", True), ("resume", False)):
        acted = act(http, key, action).json
        assert (acted["acted"], acted["session"]["key"], acted["session"]["paused"]) == (True, key, paused)
        assert http.get(path(key)).json == acted["session"]


@pytest.mark.parametrize("given", ["é" * 257, "x" * 513])
def test_a_key_of_more_than_512_bytes_is_refused(http: Http, given: str) -> None:
    for answer in (act(http, given, "stop"), http.get(path(given))):
        assert (answer.status, answer.code) == (400, "bad_value")
        assert answer.json["detail"].startswith("session: ")


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("POST", f"{SESSIONS}//stop", 404, "not_found"),
        ("POST", f"{SESSIONS}/a/halt", 404, "not_found"),
        ("GET", f"{SESSIONS}/%FF", 404, "not_found"),
        ("GET", f"{SESSIONS}/a/stop", 405, "method_not_allowed"),
        ("POST", f"{SESSIONS}/a/stop?tenant=a%20b", 400, "bad_value"),
        ("POST", f"{SESSIONS}/a/stop?tenants=a", 400, "unknown_field"),
    ],
)
def test_bad_requests_are_refused(http: Http, method: str, target: str, status: int, code: str) -> None:
    answer = http.ask(method, target)
    assert (answer.status, answer.code) == (status, code)


def test_a_session_of_a_tenant_without_runs_is_idle(http: Http) -> None:
    assert act(http, "s", "stop", tenant="nobody").json["acted"] is False
    shown = http.get(path("s"), tenant="nobody").json
    assert (shown["tenant"], shown["active"], shown["waiting"], shown["oldest_wait"]) == ("nobody", 0, 0, None)


@pytest.mark.behaviour("SEC-2")
def test_a_token_acts_on_the_sessions_of_its_tenant(guarded: Server) -> None:
    clerk, guest, boss = as_(guarded, "clerk"), as_(guarded, "guest"), as_(guarded, "boss")
    run_id = clerk.submit("echo", session="own", delay="1h")
    assert act(clerk, "own", "pause").json["session"]["tenant"] == "red"
    assert [http_paused(guest), http_paused(boss, tenant="red"), http_paused(boss)] == [True, True, False]
    assert act(clerk, "own", "stop", tenant="blue").code == "forbidden"
    clerk.post(f"{RUNS}/{run_id}/cancel")


def http_paused(http: Http, **query: object) -> bool:
    paused: bool = http.get(path_with(path("own"), query)).json["paused"]
    return paused


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SES-5", "LAN-7")
def test_acts_on_sessions_and_lanes_are_events_of_those_who_may_see_them(guarded: Server) -> None:
    boss, clerk, stranger = (as_(guarded, name) for name in ("boss", "clerk", "stranger"))
    types = {"type": ["session", "lane"]}
    with ExitStack() as stack:
        live = {http: stack.enter_context(http.events(**types)) for http in (boss, clerk, stranger)}
        start = live[boss].position
        boss.post("/api/v1/lanes", {"id": "told", "limit": 1})
        act(clerk, "told", "stop")
        act(clerk, "told", "pause")
        act(clerk, "told", "resume")
        act(stranger, "other", "reset")
        expected = {
            boss: [("lane", "create", "boss"), ("session", "pause", "clerk"), ("session", "resume", "clerk"),
                   ("session", "reset", "stranger")],
            clerk: [("session", "pause", "clerk"), ("session", "resume", "clerk")],
            stranger: [("session", "reset", "stranger")],
        }  # fmt: skip
        for http, told in expected.items():
            again = stack.enter_context(http.events(after=start, **types))
            for stream in (live[http], again):
                found = [stream.next() for _ in told]
                assert [(one.name, one.data["action"], one.data["actor"]) for one in found] == told
        assert found[0].data["after"]["generation"] == 1
        assert found[0].data["tenant"] == "blue"


@pytest.mark.behaviour("SES-11")
@pytest.mark.parametrize("case", ["waiting", "executing", "interrupted", "dropped", "debouncing", "ahead"])
def test_a_cancelled_run_ends_with_an_event_without_a_result(http: Http, server: Server, case: str) -> None:
    key, place = f"end:{case}", server.folder
    with http.events(type="run") as stream:
        if case == "ahead":
            run_id = http.submit("echo", session=key, delay="1h")
        elif case == "debouncing":
            run_id = http.submit("echo", session=key, session_options={"debounce": "1h"})
        else:
            run_id = running(http, submit(http, key, place, case, cap=1))
        others = []
        if case in ("waiting", "dropped"):
            others = [run_id]
            run_id = submit(http, key, place, case)
        if case == "interrupted":
            others = [submit(http, key, place, f"{case}.next", mode="interrupt")]
        elif case == "dropped":
            others.append(submit(http, key, place, case))
        else:
            http.post(f"{RUNS}/{run_id}/cancel", {"reason": "enough"})
        last = stream.until(ends([run_id]))[-1].data
    reason = {"interrupted": "interrupted by a later run", "dropped": "queue_dropped"}.get(case, "enough")
    assert (last["state"], last["transitions"][-1]["reason"]) == ("cancelled", reason)
    ended = http.ended(run_id)
    assert (ended["state"], ended["reason"], ended["result"]) == ("cancelled", reason, None)
    assert http.get(f"{RUNS}/{run_id}/history").json["entries"][-1] == last["transitions"][-1]
    for other in others:
        http.post(f"{RUNS}/{other}/cancel")
        http.ended(other)

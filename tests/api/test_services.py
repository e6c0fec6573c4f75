"""The tree and the services over HTTP: looking, acting, logs, reload; and who may."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import sound
from tests.helpers.http import Http, Raw, head, path_with, seconds_of
from tests.helpers.places import clean_folder
from tests.helpers.processes import alive, look, wait_until
from tests.helpers.server import Server
from tests.helpers.services import declare, say

SERVICES = "/api/v1/services"
OPTIONS = ("--drain", "1s", "--workers", "1", "--http", "127.0.0.1:0")


@pytest.fixture(scope="module")
def kept() -> Iterator[Server]:
    with clean_folder() as place, sound(Server(place, str(declare(place)), *OPTIONS)) as server:
        wait_until(lambda: status(server.local, "broken") == "pending", "the services have been started")
        yield server


@pytest.fixture
def http(kept: Server) -> Http:
    return kept.local


def service(http: Http, name: str) -> dict[str, Any]:
    answer = http.get(f"{SERVICES}/{name}")
    assert answer.status in (200, 404), answer
    found: dict[str, Any] = answer.json
    return found


def status(http: Http, name: str) -> str | None:
    return service(http, name).get("status")


def act(http: Http, action: str, name: str) -> dict[str, Any]:
    answer = http.post(f"{SERVICES}/{name}/{action}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-1")
def test_the_tree_has_everything_that_is_kept_up(http: Http) -> None:
    top = http.get("/api/v1/tree").json
    assert (top["path"], top["kind"], top["status"]) == ("", "supervisor", "running")
    parts = {child["name"]: child for child in top["children"]}
    assert {"engine", "gateway", "services", "workers"} <= parts.keys()
    assert alive(parts["gateway"]["pid"])
    shop, steady, broken = parts["services"]["children"]
    assert [one["path"] for one in shop["children"]] == ["services/shop/talk"]
    assert (shop["kind"], shop["strategy"], steady["kind"], steady["children"]) == (
        "supervisor", "one_for_one", "process", [],
    )  # fmt: skip
    assert alive(steady["pid"])
    assert (broken["pid"], broken["last_exit"]["code"]) == (None, 1)
    assert seconds_of(broken["next_try_at"]) > seconds_of(broken["last_exit"]["at"]) + 3000


def test_a_service_is_found_by_its_name(http: Http) -> None:
    assert service(http, "talk")["path"] == "services/shop/talk"
    assert [one["name"] for one in service(http, "shop")["children"]] == ["talk"]


@pytest.mark.parametrize(
    ("method", "path", "query", "code"),
    [
        ("GET", "/api/v1/tree", {"x": 1}, "unknown_field"),
        ("GET", f"{SERVICES}/steady/logs", {"limit": 0}, "bad_value"),
        ("GET", f"{SERVICES}/steady/logs", {"limit": 10_001}, "bad_value"),
        ("GET", f"{SERVICES}/steady/logs", {"cursor": "l5"}, "bad_cursor"),
        ("GET", f"{SERVICES}/steady/logs", {"cursor": ""}, "bad_cursor"),
        ("GET", f"{SERVICES}/steady/logs", {"last": "perhaps"}, "bad_value"),
        ("GET", f"{SERVICES}/steady/logs", {"wait": "soon"}, "bad_duration"),
        ("GET", f"{SERVICES}/steady/logs", {"wait": "6m"}, "bad_value"),
        ("GET", f"{SERVICES}/{'x' * 257}", {}, "bad_value"),
        ("POST", f"{SERVICES}/steady/kill", {}, "not_found"),
        ("POST", f"{SERVICES}/a%2Fb/stop", {}, "unknown_child"),
        ("GET", f"{SERVICES}/steady/stop", {}, "method_not_allowed"),
        ("POST", SERVICES, {}, "method_not_allowed"),
        ("GET", "/api/v1/reload", {}, "method_not_allowed"),
    ],
)
def test_what_cannot_be_asked(http: Http, method: str, path: str, query: dict[str, object], code: str) -> None:
    assert http.ask(method, path_with(path, query)).code == code


# ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-11")
def test_a_service_is_stopped_and_started(http: Http) -> None:
    first = service(http, "steady")["pid"]
    stopped = act(http, "stop", "steady")
    assert (stopped["status"], stopped["pid"], alive(first)) == ("stopped", None, False)
    assert act(http, "stop", "steady")["status"] == "stopped", "stopping twice is no error"
    started = act(http, "start", "steady")
    assert (started["status"], alive(started["pid"])) == ("running", True)
    again = act(http, "restart", "steady")
    assert again["status"] == "running"
    assert again["pid"] != started["pid"]
    assert not alive(started["pid"])
    assert service(http, "steady")["pid"] == again["pid"]


@pytest.mark.behaviour("SUP-8")
def test_a_service_is_suspended_and_resumed(http: Http) -> None:
    pid = service(http, "steady")["pid"]
    assert act(http, "suspend", "steady")["status"] == "suspended"
    wait_until(lambda: (found := look(pid)) is not None and found.state == "T", "it stands still")
    resumed = act(http, "resume", "steady")
    assert (resumed["status"], resumed["pid"]) == ("running", pid)


def test_a_group_is_acted_on_as_a_whole(http: Http) -> None:
    assert act(http, "stop", "shop")["children"][0]["status"] == "stopped"
    assert act(http, "start", "shop")["children"][0]["status"] == "running"


def test_what_is_not_possible_as_it_stands(http: Http) -> None:
    act(http, "stop", "steady")
    answer = http.post(f"{SERVICES}/steady/suspend")
    assert act(http, "start", "steady")["status"] == "running"
    assert (answer.status, answer.code) == (409, "wrong_status")
    assert "services/steady" in answer.json["detail"]


def test_a_service_that_does_not_stay_up_is_no_error_of_the_request(http: Http) -> None:
    before = service(http, "broken")["last_exit"]["at"]
    found = act(http, "start", "broken")
    assert found["status"] in ("pending", "failed")
    assert found["last_exit"]["at"] > before
    assert found["reason"]


# ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def page(http: Http, name: str, **query: object) -> dict[str, Any]:
    answer = http.get(path_with(f"{SERVICES}/{name}/logs", query))
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [line["text"] for line in found["lines"] if line["stream"] != "status"]


def test_what_a_service_prints_is_kept(kept: Server, http: Http) -> None:
    cursor = page(http, "talk", last="true", limit=1)["next"]
    say(kept.folder, "one\ntwo\n\tthree ☃\n")
    found: list[dict[str, Any]] = []
    while len(found) < 3:
        more = page(http, "talk", cursor=cursor, wait="30s")
        assert more["lines"], "it was not told in time"
        found, cursor = found + more["lines"], more["next"]
    assert [(line["stream"], line["text"]) for line in found] == [
        ("stdout", "one"), ("stdout", "two"), ("stdout", "\tthree ☃"),
    ]  # fmt: skip
    assert page(http, "talk", cursor=cursor) == {"lines": [], "next": cursor}
    assert page(http, "talk", last="true", limit=3)["lines"] == found
    assert page(http, "talk", last="true", limit=3)["next"] == cursor


def test_what_happens_to_a_service_is_in_its_log(http: Http) -> None:
    cursor = page(http, "steady", last="true", limit=1)["next"]
    act(http, "restart", "steady")
    wait_until(
        lambda: any("running" in line["text"] for line in page(http, "steady", cursor=cursor)["lines"]), "it is told"
    )
    assert {line["stream"] for line in page(http, "steady", cursor=cursor)["lines"]} == {"status"}


def test_a_wait_without_a_line_ends_in_time(http: Http) -> None:
    cursor = page(http, "talk", last="true", limit=1)["next"]
    assert page(http, "talk", cursor=cursor, wait="50ms") == {"lines": [], "next": cursor}
    assert page(http, "talk", cursor=cursor, wait="0s") == {"lines": [], "next": cursor}


def test_many_who_wait_are_all_told(kept: Server, http: Http) -> None:
    cursor = page(http, "talk", last="true", limit=1)["next"]
    found: list[list[str]] = []

    def wait() -> None:
        found.append(texts(page(http, "talk", cursor=cursor, wait="30s")))

    threads = [threading.Thread(target=wait) for _ in range(10)]
    for thread in threads:
        thread.start()
    wait_until(lambda: readers(http) == 10, "all of them wait")
    say(kept.folder, "for everybody\n")
    for thread in threads:
        thread.join()
    assert found == [["for everybody"]] * 10


def readers(http: Http) -> int:
    (number,) = re.findall(r"^interlock_event_readers (\d+)", http.get("/metrics").body.decode(), re.M)
    return int(number)


def test_whoever_hangs_up_is_not_waited_for(kept: Server, http: Http) -> None:
    cursor = page(http, "talk", last="true", limit=1)["next"]
    with Raw(kept.http_socket) as raw:
        raw.send(head("GET", f"{SERVICES}/talk/logs?cursor={cursor}&wait=300s"))
        wait_until(lambda: readers(http) == 1, "it waits")
    wait_until(lambda: readers(http) == 0, "it is let go")


# ── reload ──────────────────────────────────────────────────────────────────────────────────────────────────────────


# ── its own server ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SUP-7")
def test_a_log_goes_on_over_a_crash_of_the_server(folder: Path) -> None:
    with Server(folder, str(declare(folder)), "--http", "local", "--workers", "0", "--drain", "0s") as server:
        http = server.local
        wait_until(lambda: status(http, "talk") == "running", "it runs")
        wait_until(lambda: "hello" in texts(page(http, "talk")), "it is stored")
        before = page(http, "talk")
        server.kill()
        server.start()
        wait_until(lambda: "hello" in texts(page(http, "talk", cursor=before["next"])), "it says hello again")
        assert page(http, "talk")["lines"][: len(before["lines"])] == before["lines"]


def test_a_server_that_stops_answers_those_who_wait_for_a_line(folder: Path) -> None:
    with Server(folder, str(declare(folder)), "--http", "127.0.0.1:0", "--workers", "0", "--drain", "0s") as server:
        wait_until(lambda: status(server.http, "broken") == "pending", "the services have been started")
        with Raw(server.url) as raw:
            raw.send(head("GET", f"{SERVICES}/steady/logs?cursor=s999999999999&wait=300s"))
            wait_until(lambda: readers(server.http) == 1, "it waits")
            assert server.stop() == 0
            answer = raw.answer()
            assert (answer.status, answer.json["lines"]) == (200, [])
            assert raw.ended()
    assert "Traceback" not in server.said, server.said

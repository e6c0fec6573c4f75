"""Dead letters over HTTP: listed, shown, replayed with and without other arguments, and dropped by those who may."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import as_
from tests.helpers.dead import POISON, bury
from tests.helpers.http import Http, path_with
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("REC-4")

LETTERS = "/api/v1/dead-letters"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with with_tokens(stores=[partial(bury, many=1100)]) as running:
        yield running


def listed(http: Http, **query: object) -> list[str]:
    answer = http.get(path_with(LETTERS, query))
    assert answer.status == 200, answer.body
    return [one["id"] for one in answer.json["letters"]]


def test_a_letter_is_shown_with_its_request_error_and_history(own: Server) -> None:
    shown: dict[str, Any] = as_(own, "boss").get(f"{LETTERS}/red-one").json
    assert shown.pop("at").endswith("Z")
    run, (first,) = shown.pop("run"), shown.pop("history")
    assert (run["payload"], run["error"]) == ({"left": 1, "password": "•••"}, "boom")
    assert first["after"] == "pending"
    assert shown == {
        "id": "red-one", "run_id": "red-one", "job_id": "add", "tenant": "red", "code": "failed", "error": "boom",
        "replayed_as": None, "worker_id": None, "raw": None,
    }  # fmt: skip
    poison = as_(own, "boss").get(f"{LETTERS}/{POISON}").json
    assert (poison["run"], poison["raw"], poison["worker_id"], poison["history"]) == (None, "wQ==", "w-1", [])


def test_a_list_is_counted_on_its_first_page(own: Server) -> None:
    boss = as_(own, "boss")
    first = boss.get(path_with(LETTERS, {"limit": 1000})).json
    assert first["counts"] == {"timeout": 1100, "failed": 2, "orphaned": 1, "safety_denied": 1, "poison": 1}
    second = boss.get(path_with(LETTERS, {"limit": 1000, "cursor": first["next"]})).json
    assert (len(first["letters"]), len(second["letters"]), second["next"]) == (1000, 105, None)
    assert second["counts"] is None


@pytest.mark.behaviour("SEC-2")
def test_a_token_counts_and_acts_on_the_letters_of_its_tenant(own: Server) -> None:
    clerk, guest, stranger = (as_(own, name) for name in ("clerk", "guest", "stranger"))
    assert stranger.get(LETTERS).json["counts"] == {"safety_denied": 1}
    assert clerk.get(f"{LETTERS}/{POISON}").code == "unknown_letter"
    assert clerk.post(f"{LETTERS}/replay", {"tenant": "blue"}).status == 403
    assert guest.post(f"{LETTERS}/drop", {"all": True}).code == "forbidden"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("gone-run/replay", {}, 400, "unknown_job"),
        ("red-two/replay", {"payload": {"left": "many"}}, 400, "bad_payload"),
        ("red-two/replay", {"payload": {"other": 1}}, 400, "bad_payload"),
        (f"{POISON}/replay", {}, 400, "bad_value"),
        ("replay", {}, 400, "bad_value"),
        ("drop", {}, 400, "bad_value"),
        ("replay", {"job": "gone"}, 400, "unknown_job"),
    ],
)
def test_what_cannot_be_replayed_or_dropped(own: Server, path: str, body: Any, status: int, code: str) -> None:
    refused = as_(own, "boss").post(f"{LETTERS}/{path}", body)
    assert (refused.status, refused.code) == (status, code)


def test_many_are_replayed_by_a_filter(own: Server) -> None:
    clerk = as_(own, "clerk")
    bulk = clerk.post(f"{LETTERS}/replay", {"code": "timeout"})
    assert bulk.status == 202
    end = time.monotonic() + 60
    while (found := clerk.get(f"/api/v1/bulk/{bulk.json['id']}").json)["ended_at"] is None:
        assert time.monotonic() < end
    assert (found["done"], found["letters"]["code"], found["tenant"]) == (1100, "timeout", "red")
    assert listed(clerk, code="timeout", replayed="false") == []


def test_letters_are_dropped_and_their_runs_stay(own: Server) -> None:
    boss, chief = as_(own, "boss"), as_(own, "chief")
    assert boss.ask("DELETE", f"{LETTERS}/{POISON}").json == {"dropped": 1, "more": False}
    assert boss.ask("DELETE", f"{LETTERS}/{POISON}").status == 404
    found = [chief.post(f"{LETTERS}/drop", {"code": "timeout"}).json for _ in range(3)]
    assert [(one["dropped"], one["more"]) for one in found] == [(1000, True), (100, False), (0, False)]
    assert chief.post(f"{LETTERS}/drop", {"all": True}).json["dropped"] == 3
    assert listed(boss) == ["blue-one"], "of another tenant"
    assert chief.get("/api/v1/runs/red-one").status == 200

"""Deliveries over HTTP: listed, shown, and delivered again by those who may."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import as_
from tests.helpers.owed import DELIVERED, FAILED, PENDING, URL, owe
from tests.helpers.server import Server

DELIVERIES = "/api/v1/deliveries"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with with_tokens(stores=[owe]) as running:
        yield running


@pytest.mark.behaviour("CON-7")
def test_a_delivery_is_shown_without_its_secrets(own: Server) -> None:
    shown: dict[str, Any] = as_(own, "boss").get(f"{DELIVERIES}/{FAILED}").json
    assert shown.pop("created_at").endswith("Z")
    assert shown.pop("ended_at").endswith("Z")
    assert shown == {
        "id": FAILED, "run_id": "red-run", "job_id": "echo", "tenant": "red", "event": "run.failed", "target": URL,
        "state": "failed", "tries": 3, "next_at": None, "status": 503, "answer": "busy", "error": "answered 503",
    }  # fmt: skip


@pytest.mark.behaviour("CON-7")
@pytest.mark.parametrize("name", [DELIVERED, FAILED])
def test_a_redelivery_is_owed_from_now_on(own: Server, name: str) -> None:
    before = time.time()
    again = as_(own, "clerk").post(f"{DELIVERIES}/{name}/redeliver")
    assert again.status == 200
    assert (again.json["state"], again.json["tries"], again.json["status"], again.json["error"]) == (
        "pending",
        0,
        None,
        "",
    )
    shown = as_(own, "boss").get(f"{DELIVERIES}/{name}").json
    assert (shown["state"], shown["ended_at"], shown["created_at"]) == ("pending", None, again.json["created_at"])
    assert again.json["next_at"] >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before))


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", f"{DELIVERIES}/{'x' * 65}", 400, "bad_value"),
        ("POST", f"{DELIVERIES}/{PENDING}", 405, "method_not_allowed"),
    ],
)
def test_bad_requests_are_refused(own: Server, method: str, target: str, status: int, code: str) -> None:
    answer = as_(own, "boss").ask(method, target)
    assert (answer.status, answer.code) == (status, code)

"""Deliveries over HTTP: listed, shown, and delivered again by those who may."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import as_
from tests.helpers.owed import FAILED, URL, owe
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

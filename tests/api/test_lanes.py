"""Lanes over HTTP: create, set, pause, resume and drain them; a restart keeps all of it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import sound
from tests.helpers.http import Answer, Http
from tests.helpers.places import clean_folder
from tests.helpers.server import Server

LANES = "/api/v1/lanes"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with clean_folder() as place, sound(Server(place, "--drain", "1s", "--http", "local")) as running:
        yield running


def shown(http: Http, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in http.get(LANES).json["lanes"] if one["id"] == name)
    return found


def change(http: Http, name: str, **values: Any) -> Answer:
    return http.ask("PATCH", f"{LANES}/{name}", values)


@pytest.mark.behaviour("LAN-2", "LAN-7", "LAN-8")
def test_the_life_of_a_lane(own: Server) -> None:
    http = own.local
    made = http.post(LANES, {"id": "gpu", "limit": 2, "rate": "100/s", "burst": 5})
    assert made.status == 200
    assert made.json == {
        "id": "gpu", "limit": 2, "rate": "100/s", "burst": 5, "status": "open", "active": 0, "waiting": 0,
        "oldest_wait": None, "declared": None,
    }  # fmt: skip
    assert http.post(LANES, {"id": "gpu", "limit": 9}).json == made.json
    assert http.post(f"{LANES}/gpu/pause").json["status"] == "paused"
    run_id = http.submit("echo", {"value": 1}, lane="gpu")
    assert http.post(f"{LANES}/gpu/drain").json["waiting"] == 1
    refused = http.post("/api/v1/runs", {"job": "echo", "payload": {"value": 2}, "lane": "gpu"})
    assert (refused.status, refused.code) == (503, "draining")
    assert change(http, "gpu", rate=None).json["rate"] is None
    assert change(http, "main", limit=7).json["declared"] == {"limit": 30, "rate": None, "burst": 1}
    before = {name: shown(http, name) | {"oldest_wait": None} for name in ("gpu", "main")}
    asyncio.run(own.restart())
    assert {name: shown(http, name) | {"oldest_wait": None} for name in ("gpu", "main")} == before
    assert before["gpu"]["status"] == "draining"
    assert http.get(f"/api/v1/runs/{run_id}").json["state"] == "scheduled"
    assert http.post(f"{LANES}/gpu/resume").json["status"] == "open"
    assert http.ended(run_id)["state"] == "succeeded"
    assert change(http, "main", limit=30).json["limit"] == 30


@pytest.mark.behaviour("LAN-1", "LAN-8")
@pytest.mark.parametrize("limit", [0, -1, "many", 1.5, None, 10**9])
@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_bad_limit_is_refused(http: Http, method: str, limit: object) -> None:
    refused = change(http, "main", limit=limit) if method == "PATCH" else http.post(LANES, {"id": "x", "limit": limit})
    assert (refused.status, refused.code) == (400, "bad_value")
    assert refused.json["detail"].startswith("limit: ")


@pytest.mark.behaviour("LAN-8")
@pytest.mark.parametrize("rate", ["0/s", "0.0/s", "-1/s", "10", "10/w", "", "0.000000001/d"])
@pytest.mark.parametrize("method", ["PATCH", "POST"])
def test_a_bad_rate_is_refused(http: Http, method: str, rate: str) -> None:
    body = {"id": "x", "limit": 1, "rate": rate}
    refused = change(http, "main", rate=rate) if method == "PATCH" else http.post(LANES, body)
    assert (refused.status, refused.code) == (400, "bad_value")
    assert refused.json["detail"].startswith(f"rate: '{rate}' is not a rate of at least one a year")


@pytest.mark.behaviour("LAN-2")
@pytest.mark.parametrize("name", ["", "a b", "a/b", "-x", "x" * 65, 5])
def test_a_bad_name_is_refused(http: Http, name: object) -> None:
    refused = http.post(LANES, {"id": name, "limit": 1})
    assert (refused.status, refused.code) == (400, "bad_value")
    assert refused.json["detail"].startswith("id: ")

"""Workers over HTTP: list, drain, resume and remove them; and who may."""

from typing import Any

import pytest

from tests.helpers.http import Http
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

WORKERS = "/api/v1/workers"


def listed(http: Http) -> list[dict[str, Any]]:
    return list(http.get(WORKERS).json["workers"])


def only(http: Http) -> dict[str, Any]:
    wait_until(lambda: len(listed(http)) == 1, "the worker has joined")
    return listed(http)[0]


@pytest.mark.behaviour("ROU-10")
def test_a_worker_is_shown_drained_and_resumed(server: Server, http: Http) -> None:
    found = only(http)
    assert found["id"].startswith("w1-")
    assert {name: found[name] for name in ("pool", "region", "drained", "slots", "labels", "tenants")} == {
        "pool": "default", "region": None, "drained": False, "slots": 64, "labels": {}, "tenants": None,
    }  # fmt: skip
    assert found["jobs"] > 5
    assert abs(found["skew"]) < 5
    place = f"{WORKERS}/{found['id']}"
    assert http.get(place).json.keys() == found.keys()
    assert http.get(WORKERS, pool="default").json["workers"][0]["id"] == found["id"]
    assert http.get(WORKERS, pool="gpu").json == {"workers": []}
    try:
        drained = http.post(f"{place}/drain").json
        assert (drained["state"], drained["drained"]) == ("draining", True)
        run_id = http.submit("echo", {"value": 1})
        reasons = http.get(f"/api/v1/runs/{run_id}/explanation").json
        assert [one["obstacle"] for one in reasons["workers"]] == ["draining"]
    finally:
        assert http.post(f"{place}/resume").json["drained"] is False
    assert http.ended(run_id)["state"] == "succeeded"

"""Tenants over HTTP, in both clients and on the command line: their figures, refusals and reloads."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.api.conftest import with_tokens
from tests.api.tokens import TOKENS, as_
from tests.helpers.http import Http
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, interlock

TENANTS = "/api/v1/tenants"
DOCUMENTS = """\
kind: Tenant
id: red
max_running: 1
max_waiting: {waiting}
lanes: [main, team]
labels: {{team: data}}
---
kind: Tenant
id: blue
rate: 1/h
over_limit: refuse
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    def declare(place: Path) -> str:
        (place / "tenants.yaml").write_text(DOCUMENTS.format(waiting=2))
        return "tenants.yaml"

    with with_tokens(files=declare) as running:
        yield running


def figures(http: Http) -> dict[str, tuple[int, int, int]]:
    found = http.get(TENANTS).json["tenants"]
    return {one["id"]: (one["running"], one["waiting"], one["refused"]) for one in found}


@pytest.mark.behaviour("ROU-8", "ROU-7", "OBS-1")
def test_limits_refusals_and_a_reload(own: Server) -> None:
    boss, clerk, stranger = (as_(own, name) for name in ("boss", "clerk", "stranger"))
    hold: dict[str, Any] = {"job": "hold", "payload": {"folder": str(own.folder), "name": "held"}}
    runs = [clerk.submit(**hold)]
    wait_until(lambda: figures(boss)["red"] == (1, 0, 0), "the first has the only slot")
    runs += [clerk.submit(**hold) for _ in range(2)]
    assert clerk.get(f"/api/v1/runs/{runs[1]}").json["facets"]["labels"] == {"team": "data"}
    refused = clerk.post("/api/v1/runs", hold)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "tenant_limit", "1")
    assert refused.json["detail"] == "tenant: 'red' is at its max_waiting of 2; try again in 1s"
    answer = clerk.post("/api/v1/runs", hold | {"lane": "cron"})
    assert (answer.status, answer.code) == (403, "forbidden")
    assert answer.json["detail"] == "lane: 'cron' is not a lane of tenant 'red'; use one of main, team"
    explanation = clerk.get(f"/api/v1/runs/{runs[1]}/explanation").json
    assert [(one["kind"], one["holders"]) for one in explanation["reasons"][:1]] == [("tenant_limit", runs[:1])]

    stranger.submit("echo")
    refused = stranger.post("/api/v1/jobs/echo/trigger", {})
    assert (refused.status, refused.code) == (429, "tenant_limit")
    assert 3500 <= int(refused.headers["retry-after"]) <= 3600
    with (
        il.Client(str(own.http.address), token=TOKENS["stranger"].text) as client,
        pytest.raises(il.TenantLimit, match="is at its rate of 1/h") as caught,
    ):
        client.submit("echo")  # nobody waits for an hour
    assert caught.value.retry_after is not None
    assert 3500 <= caught.value.retry_after <= 3600

    assert figures(boss) == {"red": (1, 2, 1), "blue": (0, 0, 2)}
    assert figures(clerk) == {"red": (1, 2, 1)}
    text = boss.get("/metrics").body.decode()
    assert 'interlock_tenant_running{tenant="red"} 1' in text
    assert 'interlock_tenant_waiting{tenant="red"} 2' in text

    (own.folder / "tenants.yaml").write_text(DOCUMENTS.format(waiting=3).replace("max_running: 1", "max_running: 3"))
    assert boss.post("/api/v1/reload").status == 200
    wait_until(lambda: figures(boss)["red"] == (3, 0, 1), "the others start")
    (own.folder / "tenants.yaml").write_text("kind: Tenant\nid: red\nlanes: [mian]\n")
    refused = boss.post("/api/v1/reload")
    assert (refused.status, refused.code) == (422, "bad_config")
    assert refused.json["faults"][0].startswith("tenants.yaml:3: lanes[0]: 'mian' is not declared; use one of main, ")
    assert boss.post("/api/v1/runs/cancel", {"tenant": "red"}).status == 202
    assert {clerk.ended(run_id)["state"] for run_id in runs} == {"cancelled"}


def test_the_command_prints_rows_json_and_a_table(own: Server) -> None:
    given = {"INTERLOCK_URL": str(own.http.address), "INTERLOCK_TOKEN": TOKENS["guest"].text}
    (row,) = [line.split("\t") for line in interlock(own.folder, "tenants", **given).stdout.splitlines()]
    assert (row[0], row[5:7], row[8]) == ("red", ["", "wait"], "main, team")
    (found,) = json.loads(interlock(own.folder, "tenants", "--json", **given).stdout)["tenants"]
    with il.Client(str(own.http.address), token=TOKENS["guest"].text) as client:
        (one,) = client.tenants()
    assert (one.id, one.max_running, one.labels) == (found["id"], found["max_running"], found["labels"])

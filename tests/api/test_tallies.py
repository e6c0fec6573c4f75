"""Tallies over HTTP: sums of what has ended, by lane or by job, and nothing of other tenants."""

from typing import Any

import pytest

import interlock as il
from tests.api.tokens import as_
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

TALLIES = "/api/v1/tallies"


@pytest.mark.behaviour("OBS-4")
def test_ended_runs_are_summed_by_lane_and_by_job(server: Server) -> None:
    http = server.http
    for _ in range(3):
        http.ended(http.submit("echo", tenant="summed"))
    http.ended(http.submit("fatal", tenant="summed"))

    def by_job() -> dict[str, Any]:
        return {tally["job"]: tally for tally in http.get(TALLIES, tenant="summed").json["tallies"]}

    wait_until(lambda: sum(sum(tally["states"].values()) for tally in by_job().values()) == 4, "all are counted")
    assert by_job()["fatal"]["states"] == {"failed": 1}
    echo = by_job()["echo"]
    assert (echo["lane"], echo["tenant"], echo["states"], echo["took"]["count"]) == (
        None,
        "summed",
        {"succeeded": 3},
        3,
    )
    assert 0 < echo["took"]["p50"] <= echo["took"]["p95"] <= echo["took"]["most"]
    lanes = http.get(TALLIES, by="lane", lane="main").json["tallies"]
    assert {tally["lane"] for tally in lanes} == {"main"}
    with il.Client(server.url) as client:
        assert sum(tally.took.count for tally in client.tallies(job="echo", tenant="summed")) == 3
    assert http.get(TALLIES, by="lane", job="echo").json["tallies"] == []
    assert http.get(TALLIES, lane="main").json["tallies"] == []


@pytest.mark.behaviour("SEC-2")
def test_tallies_of_other_tenants_do_not_exist(guarded: Server) -> None:
    boss, stranger = as_(guarded, "boss"), as_(guarded, "stranger")
    for tenant in ("blue", "red"):
        boss.ended(boss.submit("echo", tenant=tenant))

    def tenants(name: str) -> set[str]:
        return {tally["tenant"] for tally in as_(guarded, name).get(TALLIES).json["tallies"]}

    wait_until(lambda: {"blue", "red"} <= tenants("boss"), "both are counted")
    assert tenants("stranger") == {"blue"}
    assert stranger.get(TALLIES, tenant="red").json["tallies"] == []
    assert stranger.get(TALLIES, by="lane").code == "forbidden"

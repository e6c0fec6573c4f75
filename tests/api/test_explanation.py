"""Explanations over HTTP and on the command line."""

import json
from pathlib import Path

import pytest

from tests.api.tokens import as_
from tests.cli.asking import ask, refused
from tests.cli.terminal import Terminal, in_a_terminal
from tests.helpers.http import Answer, Http
from tests.helpers.places import tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("RUN-21")

RUNS = "/api/v1/runs"


def explained(http: Http, run_id: str) -> Answer:
    return http.get(f"{RUNS}/{run_id}/explanation")


def test_from_a_delay_to_its_end(server: Server) -> None:
    http = server.http
    run_id = http.submit("echo", {"value": 1}, delay="1h")
    found = explained(http, run_id).json
    assert (found["run_id"], found["state"], found["end"]) == (run_id, "prerun", None)
    assert [one["kind"] for one in found["reasons"]] == ["scheduled_time"]
    assert found["next_at"] == found["reasons"][0]["at"] == http.get(f"{RUNS}/{run_id}").json["due_at"]
    http.post(f"{RUNS}/{run_id}/cancel", {"reason": "not needed"})
    found = explained(http, run_id).json
    assert (found["state"], found["reasons"][0]["kind"]) == ("cancelled", "ended")
    assert (found["end"]["reason"], found["end"]["outcome"], found["end"]["attempts"]) == ("not needed", "cancelled", 0)


@pytest.mark.behaviour("SEC-2")
def test_a_token_of_one_tenant_sees_no_ids_of_workers(guarded: Server, folder: Path) -> None:
    boss, red = as_(guarded, "boss"), as_(guarded, "guest")
    wait_until(lambda: boss.get("/api/v1/workers").json["workers"], "a worker has joined")
    (worker,) = [one["id"] for one in boss.get("/api/v1/workers").json["workers"]]
    boss.post("/api/v1/lanes", {"id": "shut", "limit": 1})
    boss.post("/api/v1/lanes/shut/pause")
    waits = boss.submit("echo", {"value": 1}, tenant="red", lane="shut")
    holds = boss.submit("hold", {"folder": str(folder), "name": "seen"}, tenant="red")
    wait_until(lambda: boss.get(f"{RUNS}/{holds}").json["state"] == "running", "it runs")
    for run_id in (waits, holds):
        assert worker in json.dumps(explained(boss, run_id).json)
        found = json.dumps(explained(red, run_id).json)
        assert "#1" in found
        assert worker not in found
    tell_to_go(folder, "seen")
    boss.post(f"{RUNS}/{waits}/cancel")


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_command(server: Server) -> None:
    runs = [server.http.submit("echo", {"value": 1}, delay="1h") for _ in range(2)]
    ended = ask(server, "explain", runs[0])
    assert (ended.returncode, ended.stderr) == (0, "")
    sentence, reason = ended.stdout.splitlines()
    assert sentence.startswith("The run ")
    assert reason.split("\t")[0] == "scheduled_time"
    found = json.loads(ask(server, "explain", runs[1], "--json").stdout)
    assert (found["run_id"], found["reasons"][0]["kind"]) == (runs[1], "scheduled_time")
    refused(server, "explain", "nothing", exit_code=3, says="'nothing'", code="unknown_run")
    refused(server, "explain", runs[0][:4], exit_code=2, says="is ambiguous: it begins", code="bad_value")
    drawn = Terminal.plain(in_a_terminal(server.folder, "explain", runs[0], COLUMNS="80", NO_COLOR="1"))
    assert runs[0] in drawn
    assert "scheduled_time" in drawn
    assert max(map(len, drawn.splitlines())) <= 80

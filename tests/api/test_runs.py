"""Runs as they are submitted, looked at and stopped over HTTP; and what a probe is told."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import sound
from tests.helpers.http import Http, Raw, head, seconds_of
from tests.helpers.places import tell_to_go
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

RUNS = "/api/v1/runs"
BATCH = "/api/v1/runs/batch"


def detail(http: Http, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"{RUNS}/{run_id}").json
    return found


def states(http: Http, run_id: str) -> list[str]:
    return [entry["after"] for entry in http.get(f"{RUNS}/{run_id}/history").json["entries"]]


def wait_for_state(http: Http, run_id: str, state: str) -> None:
    wait_until(lambda: detail(http, run_id)["state"] == state, f"the run is {state}")


# ── submitting ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-17")
def test_a_submit_is_answered_with_where_the_run_is(http: Http) -> None:
    answer = http.post(RUNS, {"job": "echo", "payload": {"value": {"deep": [1, None, "ü"]}}})
    assert answer.status == 201
    created = answer.json
    assert (created["job_id"], created["state"], created["previous"]) == ("echo", "pending", None)
    assert created["created_at"] == created["scheduled_at"]
    assert answer.headers["location"] == f"{RUNS}/{answer.json['id']}"
    run = http.get(answer.headers["location"], wait="30s").json
    assert (run["state"], run["result"]) == ("succeeded", {"deep": [1, None, "ü"]})
    assert run["payload"] == {"value": {"deep": [1, None, "ü"]}}
    assert run["stats"]["attempts"] == 1


def test_a_submit_that_waits_is_answered_with_the_result(http: Http) -> None:
    answer = http.post(RUNS, {"job": "add", "payload": {"left": 2, "right": 3}}, wait="30s")
    assert (answer.status, answer.json["state"], answer.json["result"]) == (201, "succeeded", 5)
    failed = http.post(RUNS, {"job": "fail", "payload": {"text": "so be it"}}, wait="30s")
    assert (failed.status, failed.json["state"], failed.json["result"]) == (201, "failed", None)
    assert "so be it" in failed.json["error"]


def test_a_wait_that_ends_first_shows_the_run_as_it_stands(server: Server) -> None:
    hold = {"folder": str(server.folder), "name": "outlasts"}
    answer = server.http.post(RUNS, {"job": "hold", "payload": hold}, wait="50ms")
    assert (answer.status, answer.json["ended_at"], answer.json["result"]) == (201, None, None)
    run_id = answer.json["id"]
    assert server.http.get(f"{RUNS}/{run_id}", wait="0s").json["ended_at"] is None
    tell_to_go(server.folder, "outlasts")
    assert server.http.ended(run_id)["state"] == "succeeded"


def test_every_field_of_a_submit_arrives(http: Http) -> None:
    fields = {"tenant": "green", "lane": "cron", "session": "s 1", "idempotency_key": "every field"}
    labels = {"team": "red", "at": "home"}
    run_id = http.submit("echo", {"value": 1}, **fields, labels=labels, delay="1h", deadline="30m")
    run = detail(http, run_id)
    assert run["facets"] == {"labels": labels}
    assert {name: run[name] for name in fields} == fields
    assert run["state"] == "prerun"
    created, due, end = (seconds_of(run[name]) for name in ("created_at", "due_at", "deadline_at"))
    assert due == pytest.approx(created + 3600, abs=30)
    assert end == pytest.approx(due + 1800, abs=1)
    options = {"mode": "interrupt", "debounce": "2s", "rate": "30/m"}
    sent = {"session": "s 2", "session_options": options, "stamp": "2026-01-31T12:00:00Z"}
    given = {"options": {"mode": "interrupt", "debounce": 2.0, "rate": 0.5}, "stamp": "2026-01-31T12:00:00.000Z"}
    assert detail(http, http.submit("echo", **sent))["facets"]["session"].items() >= given.items()
    triggered = http.post("/api/v1/jobs/echo/trigger", sent).json["id"]
    assert detail(http, triggered)["facets"]["session"].items() >= given.items()
    timed = detail(http, http.submit("echo", at=4e9))
    assert (timed["due_at"], timed["state"]) == ("2096-10-02T07:06:40.000Z", "prerun")


@pytest.mark.behaviour("RUN-6")
def test_a_submit_that_is_repeated_is_the_same_run(http: Http) -> None:
    body: dict[str, Any] = {"job": "echo", "payload": {"value": {"a": 1, "b": 2}}}
    first = http.post(RUNS, body, {"Idempotency-Key": "again"})
    same = http.post(RUNS, {"job": "echo", "payload": {"value": {"b": 2, "a": 1}}}, {"Idempotency-Key": "again"})
    in_body = http.post(RUNS, body | {"idempotency_key": "again"})
    assert [first.status, same.status, in_body.status] == [201, 201, 201]
    assert first.json["id"] == same.json["id"] == in_body.json["id"]
    assert first.json["created_at"] == same.json["created_at"]
    http.ended(first.json["id"])
    ended = http.post(RUNS, body, {"Idempotency-Key": "again"}).json
    assert (ended["id"], ended["state"]) == (first.json["id"], "succeeded"), "after its end as well"
    assert states(http, first.json["id"]).count("dispatched") == 1


@pytest.mark.behaviour("RUN-6")
def test_a_batch_that_is_repeated_is_the_same_runs(http: Http) -> None:
    runs = [{"job": "echo", "payload": {"value": number}} for number in range(20)]
    runs[7]["idempotency_key"] = "its own"
    first = http.post(BATCH, {"runs": runs}, {"Idempotency-Key": "many"})
    assert first.status == 201
    assert http.post(BATCH, {"runs": runs}, {"Idempotency-Key": "many"}).json == first.json
    keys = [detail(http, run_id)["idempotency_key"] for run_id in first.json["ids"]]
    assert keys == [f"many/{place}" if place != 7 else "its own" for place in range(20)]
    alone = http.post(RUNS, runs[3], {"Idempotency-Key": "many/3"})
    assert alone.json["id"] == first.json["ids"][3]


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pages_while_new_runs_come(http: Http) -> None:
    """Every run that was there is on one page, once, and those that came since are on none of the later ones."""
    there = [http.submit("echo", session="pages", delay="1h") for _ in range(23)]
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = http.get(RUNS, session="pages", limit=5, **cursor).json
        found += [run["id"] for run in page["runs"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
        http.submit("echo", session="pages", delay="1h")
        # One that has been passed changes its state meanwhile, and so does one that has not.
        http.post(f"{RUNS}/{found[-1]}/cancel")
        http.post(f"{RUNS}/{there[0]}/cancel")
    assert found == list(reversed(there))


def test_a_list_has_no_payloads(http: Http) -> None:
    run_id = http.submit("echo", {"value": "in the payload"}, session="bare")
    http.ended(run_id)
    (run,) = http.runs(session="bare")
    assert "in the payload" not in str(run)
    assert {name: value for name, value in detail(http, run_id).items() if name in run} == run


# ── history, logs, progress ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-20")
def test_logs_in_pages(http: Http) -> None:
    run_id = http.submit("chatter", {"lines": 25})
    http.ended(run_id)
    whole = http.get(f"{RUNS}/{run_id}/logs").json
    assert [line["text"].split()[0] for line in whole["lines"]] == [str(number) for number in range(25)]
    assert {(line["level"], line["attempt"]) for line in whole["lines"]} == {("info", 1)}
    assert whole["next"] is None
    for limit in (1, 7, 25):
        found: list[Any] = []
        cursor: dict[str, Any] = {}
        while True:
            page = http.get(f"{RUNS}/{run_id}/logs", limit=limit, **cursor).json
            assert len(page["lines"]) <= limit
            found += page["lines"]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
        assert found == whole["lines"]


# ── probes and trouble ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("OBS-3")
def test_probes(http: Http) -> None:
    assert http.get("/healthz").json == {"alive": True}
    ready = http.get("/readyz")
    assert (ready.status, ready.json["ready"]) == (200, True)
    assert {name: check["ok"] for name, check in ready.json["checks"].items()} == {"store": True, "scheduler": True}


@pytest.mark.behaviour("OBS-1", "OBS-3")
def test_metrics(http: Http) -> None:
    http.ended(http.submit("echo"))
    answer = http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = [line for line in answer.body.decode().splitlines() if line and not line.startswith("#")]
    assert len(samples) > 10
    for line in samples:
        name, _, value = line.rpartition(" ")
        assert name.startswith("interlock_")
        assert float(value) >= 0 or value == "NaN"


@pytest.mark.behaviour("OBS-3")
def test_a_scheduler_that_stands_still_is_not_ready(folder: Path) -> None:
    with sound(Server(folder, "--http", "127.0.0.1:0")) as server:
        http = server.http
        run_id = http.submit("echo")
        http.ended(run_id)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            answer = http.get("/readyz")
            assert (answer.status, answer.json["ready"]) == (503, False)
            assert answer.json["checks"]["store"]["ok"] is True
            assert answer.json["checks"]["scheduler"]["ok"] is False
            assert http.get("/healthz").status == 200
            # What is stored can be looked at all the same.
            assert detail(http, run_id)["state"] == "succeeded"
            assert http.get("/metrics").code == "connection_lost"
        finally:
            os.kill(server.pid, signal.SIGCONT)
        wait_until(lambda: http.get("/readyz").status == 200, "it is ready again")
        assert http.ended(http.submit("echo", {"value": 2}))["result"] == 2


def test_a_gateway_that_is_killed_is_replaced_and_nobody_is_refused(folder: Path) -> None:
    with sound(Server(folder, "--http", "127.0.0.1:0")) as server:
        http = server.http
        run_id = http.submit("hold", {"folder": str(folder), "name": "goes-on"})
        wait_for_state(http, run_id, "running")
        first = server.gateway()
        with http.events() as stream:
            os.kill(first, signal.SIGKILL)
            waiting = [Raw(server.url) for _ in range(20)]
            with pytest.raises((EOFError, ConnectionResetError)):
                stream.next()
        for raw in waiting:
            raw.send(head("GET", f"{RUNS}/{run_id}"))
        for raw in waiting:
            answer = raw.answer()
            assert (answer.status, answer.json["state"]) == (200, "running")
            raw.close()
        assert server.gateway() != first
        assert server.local.get("/readyz").status == 200
        tell_to_go(folder, "goes-on")
        assert http.ended(run_id)["attempt"] == 1, "the run was none the wiser"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_stops_answers_those_who_wait(folder: Path, number: signal.Signals) -> None:
    with Server(folder, "--http", "127.0.0.1:0", "--drain", "0s") as server:
        run_id = server.http.submit("echo", delay="1h")
        with Raw(server.url) as raw, server.http.events() as stream:
            raw.send(head("GET", f"{RUNS}/{run_id}?wait=300s"))
            wait_until(lambda: server.http.get("/readyz").status == 200, "it answers others meanwhile")
            server.send(number)
            assert server.ended() == 0
            answer = raw.answer()
            assert (answer.status, answer.json["state"]) == (200, "prerun")
            assert raw.ended()
            assert stream.raw.ended()
    assert "Traceback" not in server.said, server.said


def test_a_crash_just_after_the_start_leaves_no_gateway_behind(folder: Path) -> None:
    """The gateway takes longer to start than the scheduler: it must notice that there is none any more."""
    server = Server(folder, "--http", "127.0.0.1:0", "--workers", "0")
    for _ in range(3):
        server.start()
        server.kill()
    with server:
        assert server.http.get("/healthz").status == 200
        assert server.gateway()

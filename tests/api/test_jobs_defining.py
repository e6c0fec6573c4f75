"""Jobs that are put and removed over HTTP, one or many; and who may do what with jobs."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import as_
from tests.helpers.http import Answer, Http, path_with, seconds_of
from tests.helpers.scheduled import declare_jobs
from tests.helpers.server import Server

JOBS = "/api/v1/jobs"
WELL = {"run": {"process": ["true"]}}


@pytest.fixture(scope="module")
def timed() -> Iterator[Server]:
    """One that asks for tokens at its port; its owner comes in by the socket."""
    with with_tokens("--workers", "1", files=declare_jobs) as running:
        yield running


@pytest.fixture
def http(timed: Server) -> Http:
    return timed.local


def put(http: Http, job_id: str, **definition: Any) -> Answer:
    return http.ask("PUT", f"{JOBS}/{job_id}", definition)


def ids(http: Http) -> list[str]:
    return [one["id"] for one in http.get(path_with(JOBS, {"limit": 1000})).json["jobs"]]


# ── one ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-12")
def test_a_job_is_put_changed_and_removed(http: Http) -> None:
    definition = {
        "id": "weekly", "kind": "Job", "schedule": {"cron": "0 6 * * 1", "tz": "Europe/Paris", "jitter": "1m"},
        "run": {"shell": "cat; exit $CODE"}, "env": {"CODE": "0"}, "payload": {"own": 9}, "lane": "cron",
        "constraints": {"max_concurrent_runs": 2}, "retry": {"max_retries": 1, "on": ["OSError"]},
    }  # fmt: skip
    answer = put(http, "weekly", **definition)
    first = answer.json
    assert answer.status == 200
    assert (first["id"], first["source"], first["kind"], first["lane"]) == ("weekly", "api", "process", "cron")
    assert (first["schedule"]["jitter"], first["max_concurrent_runs"], first["last_run"]) == (60.0, 2, None)
    assert seconds_of(first["next_at"]) > time.time()
    run = http.post(path_with(f"{JOBS}/weekly/trigger", {"wait": "30s"})).json
    assert (run["state"], run["payload"], run["job_version"]) == ("succeeded", {"own": 9}, first["version"])
    same = put(http, "weekly", **definition).json
    assert (same["version"], same["next_at"]) == (first["version"], first["next_at"])
    changed = put(http, "weekly", **definition | {"env": {"CODE": "3"}, "retry": {"max_retries": 0}}).json
    assert (changed["next_at"], changed["version"] != first["version"]) == (first["next_at"], True)
    assert changed["last_run"]["id"] == run["id"]
    assert http.post(path_with(f"{JOBS}/weekly/trigger", {"wait": "30s"})).json["exit_code"] == 3
    removed = http.ask("DELETE", f"{JOBS}/weekly")
    assert (removed.status, removed.json["version"]) == (200, changed["version"])
    assert (http.get(f"{JOBS}/weekly").status, http.ask("DELETE", f"{JOBS}/weekly").status) == (404, 404)
    assert http.post("/api/v1/runs", {"job": "weekly"}).code == "unknown_job"
    assert len(http.get(f"{JOBS}/weekly/log").json["runs"]) == 2, "its log is kept"


def test_a_job_is_put_with_a_function(http: Http) -> None:
    found = put(http, "pid", run={"function": "os:getpid"}, schedule={"every": "1h", "wait": "30m"})
    assert (found.status, found.json["kind"], found.json["schedule_text"]) == (200, "function", "every 1h after 30m")
    run = http.post(path_with(f"{JOBS}/pid/trigger", {"wait": "30s"})).json
    assert (run["state"], type(run["result"])) == ("succeeded", int)


@pytest.mark.parametrize(
    ("definition", "faults"),
    [
        ({}, ["run"]),
        ({"run": {}}, ["run"]),
        ({"run": {"process": []}}, ["run.process"]),
        ({"run": {"process": ["true"], "shell": "true"}}, ["run"]),
        ({"run": {"function": "nowhere"}}, ["run.function: 'nowhere'"]),
        (WELL | {"schedule": {"every": "1m", "cron": "* * * * *"}}, ["schedule"]),
        (WELL | {"schedule": {"every": "1m", "wait": "60s"}}, ["schedule.wait"]),
        (WELL | {"schedule": {"cron": "61 * * * *"}}, ["schedule.cron"]),
        (WELL | {"schedule": {"cron": "0 0 31 2 *"}}, ["schedule.cron"]),
        (WELL | {"schedule": {"cron": "0 0 * * *", "tz": "Mars/Olympus"}}, ["schedule.tz"]),
        (WELL | {"shedule": {"every": "1m"}}, ["did you mean 'schedule'?"]),
        (WELL | {"constraints": {"max_concurrent_runs": 0}}, ["constraints.max_concurrent_runs"]),
        (WELL | {"constraints": {"max_memory": 1}}, ["max_memory"]),
        (WELL | {"id": "another"}, ["id: 'another'"]),
        (WELL | {"kind": "Service"}, ["kind"]),
        ({"run": {}, "lane": "a b", "deadline": "soon", "retry": {"jitter": 7}}, ["run", "lane", "deadline", "retry"]),
    ],
)
def test_a_job_with_faults_is_not_defined(http: Http, definition: dict[str, Any], faults: list[str]) -> None:
    answer = put(http, "faulty", **definition)
    assert answer.status in (400, 422), answer
    told = answer.json.get("faults") or [answer.json["detail"]]
    assert len(told) == len(faults), "all of them at once"
    for fault in faults:
        assert any(fault in one for one in told), (fault, told)
    assert http.get(f"{JOBS}/faulty").code == "unknown_job"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 415, "unsupported_media_type"),
        (b"{", 400, "bad_json"),
        (b"[]", 400, "bad_value"),
        (b"\xff", 400, "bad_json"),
    ],
)
def test_a_body_that_is_no_job(http: Http, body: bytes, status: int, code: str) -> None:
    headers = {"Content-Type": ""} if not body else {}
    answer = http.ask("PUT", f"{JOBS}/faulty", body, headers)
    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize("job_id", ["a b", "é", "-x", "x" * 128 + "y"])
def test_a_name_that_is_none(http: Http, job_id: str) -> None:
    from urllib.parse import quote

    assert put(http, quote(job_id), **WELL).status in (400, 422)
    assert job_id not in ids(http)


def test_an_at_in_the_past_is_refused(http: Http) -> None:
    answer = put(http, "late", **WELL | {"schedule": {"at": "2020-01-01T00:00:00Z"}})
    assert (answer.status, answer.code) == (409, "bad_schedule")
    assert "2020-01-01" in answer.json["detail"]


@pytest.mark.parametrize(("job_id", "where"), [("nightly", "jobs.yaml:2"), ("echo", "python")])
def test_what_is_declared_is_changed_where_it_is_declared(http: Http, job_id: str, where: str) -> None:
    before = http.get(f"{JOBS}/{job_id}").json
    for answer in (put(http, job_id, **WELL), http.ask("DELETE", f"{JOBS}/{job_id}")):
        assert (answer.status, answer.code) == (409, "job_declared")
        assert f"{job_id!r} is declared" in answer.json["detail"]
        assert where in answer.json["detail"]
    assert http.get(f"{JOBS}/{job_id}").json == before


# ── many ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_jobs_are_put_at_once(http: Http) -> None:
    many = [WELL | {"id": f"many{number}", "schedule": {"cron": "0 4 1 1 *"}} for number in range(1500)]
    before = ids(http)
    answer = http.post(JOBS, {"jobs": many})
    assert (answer.status, answer.json) == (200, {"ids": [one["id"] for one in many]})
    found: list[str] = []
    cursor = None
    while cursor is not None or not found:
        page = http.get(path_with(JOBS, {"limit": 1000} | ({"cursor": cursor} if cursor else {}))).json
        found += [one["id"] for one in page["jobs"]]
        cursor = page["next"]
    assert found == [*before, *answer.json["ids"]]


@pytest.mark.behaviour("LAN-2")
def test_a_job_in_a_lane_that_is_not_declared_is_refused(http: Http) -> None:
    answer = http.post(JOBS, {"jobs": [WELL | {"id": "lost1"}, WELL | {"id": "lost2", "lane": "mian"}]})
    assert (answer.status, answer.code) == (400, "bad_value")
    assert answer.json["detail"].startswith("lane: 'mian' is not declared")
    assert "did you mean 'main'?" in answer.json["detail"]
    assert http.get(f"{JOBS}/lost1").status == 404


def test_of_many_all_or_none_are_defined(http: Http) -> None:
    bad = WELL | {"schedule": {"cron": "0 0 31 2 *"}, "lane": "a b"}
    many = [WELL | {"id": "some1"}, bad | {"id": "some2"}, WELL, WELL | {"id": "some1"}]
    answer = http.post(JOBS, {"jobs": many})
    assert (answer.status, answer.code, answer.json["detail"]) == (422, "bad_config", "4 faults")
    places = [fault.partition(":")[0] for fault in answer.json["faults"]]
    assert places == ["jobs[1]", "jobs[1]", "jobs[2]", "jobs[3]"]
    assert "'some1' given twice; jobs[0] has it too" in answer.json["faults"][3]
    declared = http.post(JOBS, {"jobs": [WELL | {"id": "some1"}, WELL | {"id": "nightly"}]})
    assert (declared.status, declared.code) == (409, "job_declared")
    assert http.get(f"{JOBS}/some1").status == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"jobs": []}, "bad_value"),
        ({"jobs": [{}] * 10_001}, "bad_value"),
        ({"jobs": [5]}, "bad_value"),
        ({"job": []}, "unknown_field"),
        ({}, "missing_field"),
        ([], "bad_value"),
    ],
)
def test_what_is_no_list_of_jobs(http: Http, body: Any, code: str) -> None:
    answer = http.post(JOBS, body)
    assert (answer.status, answer.code) == (400, code)


# ── who may ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("SEC-2")
def test_who_may_not_pause_may_not_submit_what_the_schedule_is_to_create(timed: Server) -> None:
    soon = {"job": "nightly", "occurrence": time.time() + 1e6}
    answer = as_(timed, "porter").post("/api/v1/runs", soon)
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "'nightly' has a schedule" in answer.json["detail"]
    assert as_(timed, "clerk").post("/api/v1/runs", soon).status == 201, "an occurrence of its own tenant is no harm"
    assert as_(timed, "boss").post("/api/v1/runs", soon).status == 201


def test_a_tenant_sees_only_its_own_runs_of_a_job(timed: Server, http: Http) -> None:
    put(http, "shared", **WELL)
    run = as_(timed, "clerk").post(path_with(f"{JOBS}/shared/trigger", {"wait": "30s"})).json
    assert (run["tenant"], run["state"]) == ("red", "succeeded")
    for name in ("clerk", "guest", "boss"):
        asks = as_(timed, name)
        assert asks.get(f"{JOBS}/shared").json["last_run"]["id"] == run["id"]
        assert [one["id"] for one in asks.get(f"{JOBS}/shared/log").json["runs"]] == [run["id"]]
    held = as_(timed, "clerk").post(f"{JOBS}/gated/trigger").json["id"]
    stranger = as_(timed, "stranger")
    assert [as_(timed, name).get(f"{JOBS}/gated").json["live"] for name in ("clerk", "stranger")] == [1, 0]
    http.post(f"/api/v1/runs/{held}/cancel")
    found = stranger.get(f"{JOBS}/shared").json
    assert (found["last_run"], stranger.get(f"{JOBS}/shared/log").json["runs"]) == (None, [])
    forbidden = stranger.post(f"{JOBS}/shared/trigger", {"tenant": "red"})
    assert (forbidden.status, forbidden.code) == (403, "forbidden")

"""Jobs and the timetable over HTTP: looking, times, running, pausing, making up for; and what cannot be asked."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import sound
from tests.helpers.http import Http, path_with, seconds_of
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until
from tests.helpers.scheduled import declare_jobs
from tests.helpers.server import Server

JOBS = "/api/v1/jobs"
HOUR = 3600.0


@pytest.fixture(scope="module")
def timed() -> Iterator[Server]:
    with clean_folder() as place:
        server = Server(place, str(declare_jobs(place)), "--drain", "1s", "--workers", "1", "--http", "127.0.0.1:0")
        with sound(server) as running:
            yield running
            (place / "go").touch()


@pytest.fixture
def http(timed: Server) -> Http:
    return timed.http


@pytest.fixture
def place(timed: Server) -> Path:
    return timed.folder


def job(http: Http, job_id: str) -> dict[str, Any]:
    answer = http.get(f"{JOBS}/{job_id}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def act(http: Http, job_id: str, action: str, body: Any = None, **query: object) -> Any:
    answer = http.post(path_with(f"{JOBS}/{job_id}/{action}", query), body)
    assert answer.status in (200, 201), answer
    return answer.json


def times(http: Http, path: str, **query: object) -> list[float]:
    answer = http.get(path_with(path, query))
    assert answer.status == 200, answer
    return [seconds_of(one) for one in answer.json["times"]]


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_last_run_is_shown_with_its_job(http: Http) -> None:
    run = act(http, "manual", "trigger", wait="30s")
    last = job(http, "manual")["last_run"]
    assert (last["id"], last["state"], last["ended_at"]) == (run["id"], "succeeded", run["ended_at"])


def backfilled(http: Http) -> list[str]:
    return [run["id"] for run in http.runs(job="hourly") if run["origin"] == "backfill"]


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "code"),
    [
        ("GET", JOBS, {"pausd": "true"}, None, "unknown_field"),
        ("GET", f"{JOBS}/{'x' * 129}", {}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"count": 0}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"count": 101}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"after": -1}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"after": "noon"}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"after": "nan"}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"after": "1e11"}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/next", {"after": "0" * 65}, None, "bad_value"),
        ("GET", "/api/v1/next", {"every": "1m", "after": ""}, None, "bad_value"),
        ("GET", f"{JOBS}/manual/next", {}, None, "bad_schedule"),
        ("GET", f"{JOBS}/nightly/log", {"limit": 0}, None, "bad_value"),
        ("GET", f"{JOBS}/nightly/log", {"limit": 201}, None, "bad_value"),
        ("GET", "/api/v1/next", {}, None, "bad_value"),
        ("GET", "/api/v1/next", {"cron": "61 * * * *"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"cron": "0 0 31 2 *"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"cron": "* * * * * *"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"cron": "0 * * * *", "tz": "Mars/Olympus"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"cron": "0 * * * *", "every": "1m"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"every": "1m", "wait": "1m"}, None, "bad_value"),
        ("GET", "/api/v1/next", {"every": "soon"}, None, "bad_duration"),
        ("GET", "/api/v1/next", {"every": "1m", "count": 0}, None, "bad_value"),
        ("GET", "/api/v1/next", {"at": "tomorrow"}, None, "bad_value"),
        ("GET", "/api/v1/timetable", {"for": "soon"}, None, "bad_duration"),
        ("GET", "/api/v1/timetable", {"for": "0s"}, None, "bad_value"),
        ("GET", "/api/v1/timetable", {"for": "32d"}, None, "bad_value"),
        ("GET", "/api/v1/timetable", {"limit": 0}, None, "bad_value"),
        ("GET", "/api/v1/timetable", {"hours": 24}, None, "unknown_field"),
        ("POST", f"{JOBS}/manual/trigger", {"wait": "6m"}, None, "bad_value"),
        ("POST", f"{JOBS}/manual/trigger", {}, {"at": 5}, "unknown_field"),
        ("POST", f"{JOBS}/manual/trigger", {}, {"payload": [1]}, "bad_value"),
        ("POST", f"{JOBS}/manual/trigger", {}, b"{", "bad_json"),
        ("POST", f"{JOBS}/add/trigger", {}, {"payload": {"a": "x"}}, "bad_payload"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 2.0, "to": 1.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 2.0, "to": 2.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0, "to": 1e10}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0, "to": 1e9}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": -1.0, "to": 1.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": "noon", "to": 1.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0, "to": "1970-01-01"}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": "1.0", "to": 2.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": True, "to": 2.0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0}, "missing_field"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"form": 1.0, "to": 2.0}, "unknown_field"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0, "to": 2.0, "max_parallel": 0}, "bad_value"),
        ("POST", f"{JOBS}/hourly/backfill", {}, {"from": 1.0, "to": 2.0, "max_parallel": 1.5}, "bad_value"),
        ("POST", f"{JOBS}/manual/backfill", {}, {"from": 1.0, "to": 2.0}, "bad_schedule"),
        ("POST", f"{JOBS}/hourly/backfill", {}, None, "unsupported_media_type"),
        ("POST", f"{JOBS}/hourly/next", {}, None, "method_not_allowed"),
    ],
)
def test_what_cannot_be_asked(
    http: Http, method: str, path: str, query: dict[str, object], body: Any, code: str
) -> None:
    before = backfilled(http)
    assert http.ask(method, path_with(path, query), body).code == code
    assert backfilled(http) == before


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_next_times_of_a_job(http: Http) -> None:
    found = times(http, f"{JOBS}/hourly/next")
    offset = found[0] % HOUR
    assert 0 <= offset < 600, "its place within the jitter"
    assert found[0] > time.time()
    assert [later - found[0] for later in found] == [0.0, HOUR, 2 * HOUR, 3 * HOUR, 4 * HOUR]
    assert times(http, f"{JOBS}/hourly/next", after=found[1], count=2) == found[2:4]
    written = datetime.fromtimestamp(found[1], UTC).isoformat()
    assert times(http, f"{JOBS}/hourly/next", after=written, count=2) == pytest.approx(found[2:4])
    assert times(http, f"{JOBS}/distant/next") == [4102441200.0]


def test_the_times_of_a_schedule_that_no_job_has(http: Http) -> None:
    path = "/api/v1/next"
    assert times(http, path, cron="30 0 * * *", tz="Asia/Tokyo", after=0, count=2) == [55800.0, 142200.0]
    assert times(http, path, every="10m", after="1970-01-02T00:00:00Z", count=1) == [86400.0]
    assert times(http, path, every="10m", after="20300101", count=1) == [20300101.0], "a number is no date"
    assert times(http, path, every="10m", wait="1m", after=1000, count=3) == [1060.0, 1660.0, 2260.0]
    assert times(http, path, every="10m", after=1000, count=1) == [1000.0], "it fires at once"
    assert times(http, path, at="2030-01-31T02:00:00Z") == [1896055200.0]
    now = time.time()
    assert now < times(http, path, cron="* * * * *", count=1)[0] <= now + 61


def test_what_fires_and_when(http: Http) -> None:
    found = http.get(path_with("/api/v1/timetable", {"for": "2h"})).json
    assert seconds_of(found["until"]) - seconds_of(found["now"]) == pytest.approx(7200, abs=5)
    rows = {one["job_id"]: one for one in found["jobs"]}
    assert {"hourly", "pulse", "beat", "gated"} <= rows.keys() <= {"hourly", "pulse", "beat", "gated", "nightly"}
    firsts = [one["times"][0] for one in found["jobs"]]
    assert firsts == sorted(firsts)
    hourly = [seconds_of(one) for one in rows["hourly"]["times"]]
    assert hourly == times(http, f"{JOBS}/hourly/next", after=found["now"], count=len(hourly))
    assert len(rows["beat"]["times"]) == pytest.approx(7200, abs=3), "more than the scheduler itself works out"
    assert {round(later - one, 3) for one, later in pairwise(map(seconds_of, rows["beat"]["times"]))} == {1.0}
    assert [one["more"] for one in found["jobs"]] == [False] * len(rows)
    first = http.get(path_with("/api/v1/timetable", {"for": "2h", "limit": 1})).json
    assert (len(first["jobs"]), first["left_out"]) == (1, len(rows) - 1)


# ── trigger ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-11")
def test_a_trigger_runs_a_job_now(http: Http) -> None:
    answer = http.post(f"{JOBS}/nightly/trigger")
    assert answer.status == 201
    run = http.ended(answer.json["id"])
    assert answer.headers["location"] == f"/api/v1/runs/{run['id']}"
    assert (run["state"], run["origin"], run["payload"]) == ("succeeded", "trigger", {"own": 1})
    assert abs(seconds_of(run["scheduled_at"]) - time.time()) < 30, "it is no occurrence of its schedule"
    given = act(http, "nightly", "trigger", {"payload": {"a": 5}, "session": "s", "lane": "main"}, wait="30s")
    assert (given["payload"], given["session"], given["lane"]) == ({"a": 5}, "s", "main")
    assert http.get(f"/api/v1/runs/{given['id']}/logs").json["lines"][0]["text"] == '{"a":5}'
    assert act(http, "echo", "trigger", {"payload": {"value": 3}}, wait="30s")["result"] == 3


def test_a_trigger_may_be_repeated(http: Http) -> None:
    key = {"Idempotency-Key": "once"}
    ids = {http.post(f"{JOBS}/manual/trigger", headers=key).json["id"] for _ in range(3)}
    ids.add(act(http, "manual", "trigger", {"idempotency_key": "once"})["id"])
    assert len(ids) == 1
    other = http.post(f"{JOBS}/manual/trigger", {"payload": {"other": 1}}, headers=key)
    assert (other.status, other.code) == (409, "idempotency_conflict")


def test_a_submit_without_a_payload_has_the_jobs_own(http: Http) -> None:
    run = http.ended(http.submit("manual"))
    assert (run["payload"], run["origin"]) == ({"own": 3}, "submit")
    assert http.ended(http.submit("manual", {}))["payload"] == {}


# ── pause ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-10")
def test_an_at_that_has_passed_cannot_be_resumed(http: Http) -> None:
    at = time.time() + 1.0
    definition = {"run": {"process": ["true"]}, "schedule": {"at": at, "keep": True}}
    assert http.ask("PUT", f"{JOBS}/passing", definition).status == 200
    assert act(http, "passing", "pause")["paused"] is True
    wait_until(lambda: time.time() > at, "its time has passed")
    answer = http.post(f"{JOBS}/passing/resume")
    assert (answer.status, answer.code) == (409, "bad_schedule")
    assert job(http, "passing")["paused"] is True


# ── backfill ────────────────────────────────────────────────────────────────────────────────────────────────────────


def hour(count: int) -> float:
    """So many whole hours before the one that has begun."""
    return (time.time() // HOUR - count) * HOUR


@pytest.mark.behaviour("TIM-11")
def test_a_backfill_creates_the_occurrences_of_a_past_range(http: Http) -> None:
    start = hour(10)
    found = act(http, "hourly", "backfill", {"from": start, "to": start + 3 * HOUR})
    assert (len(found["created"]), found["existing"]) == (3, [])
    runs = [http.ended(run_id) for run_id in found["created"]]
    assert [seconds_of(run["scheduled_at"]) for run in runs] == [start, start + HOUR, start + 2 * HOUR]
    assert {(run["state"], run["origin"]) for run in runs} == {("succeeded", "backfill")}
    assert [run["payload"] for run in runs] == [{"own": 2}] * 3
    wider = {"from": start - HOUR, "to": start + 4 * HOUR, "payload": {"a": 1}}
    again = act(http, "hourly", "backfill", wider)
    assert again["existing"] == found["created"], "what has a run is left as it is"
    assert [http.ended(one)["payload"] for one in again["created"]] == [{"a": 1}] * 2
    assert act(http, "hourly", "backfill", {"from": start + 60, "to": start + 120}) == {"created": [], "existing": []}
    text = {"from": datetime.fromtimestamp(start, UTC).isoformat(), "to": start + 3 * HOUR}
    assert act(http, "hourly", "backfill", text) == {"created": [], "existing": found["created"]}
    late = http.post(f"{JOBS}/hourly/backfill", {"from": "2020-01-02T00:00:00Z", "to": "2020-01-01T00:00:00Z"})
    assert (late.code, late.json["detail"].partition(":")[0]) == ("bad_value", "from")


@pytest.mark.behaviour("TIM-11")
def test_a_backfill_has_so_many_live_at_once(http: Http, place: Path) -> None:
    start = hour(10)
    body = {"from": start, "to": start + 6 * HOUR, "max_parallel": 2}
    created = act(http, "gated", "backfill", body)["created"]
    assert len(created) == 6

    def states() -> list[str]:
        return [http.get(f"/api/v1/runs/{one}").json["state"] for one in created]

    wait_until(lambda: states().count("running") == 2, "two of them run")
    assert states() == ["running"] * 2 + ["prerun"] * 4
    (place / "go").touch()
    runs = [http.ended(one) for one in created]
    (place / "go").unlink()
    assert {run["state"] for run in runs} == {"succeeded"}
    for run in runs:
        beside = [one for one in runs if one["started_at"] <= run["started_at"] < one["ended_at"]]
        assert len(beside) <= 2


# ── log ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def log(http: Http, job_id: str, **query: object) -> list[dict[str, Any]]:
    answer = http.get(path_with(f"{JOBS}/{job_id}/log", query))
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json["runs"]
    return found


@pytest.mark.behaviour("TIM-16")
def test_the_log_of_a_job_has_its_last_runs(http: Http) -> None:
    batch = {"runs": [{"job": "manual", "payload": {"number": number}} for number in range(22)]}
    ids = http.post("/api/v1/runs/batch", batch).json["ids"]
    for run_id in ids:
        http.ended(run_id)
    found = log(http, "manual")
    assert [one["id"] for one in found] == ids[:1:-1], "the newest first, 20 of them"
    assert [one["output"] for one in found] == [f'{{"number":{number}}}' for number in range(21, 1, -1)]
    newest = found[0]
    assert (newest["state"], newest["origin"], newest["exit_code"], newest["cut"]) == ("succeeded", "submit", 0, False)
    assert newest["scheduled_at"] <= newest["started_at"] <= newest["ended_at"]
    assert [one["id"] for one in log(http, "manual", limit=2)] == ids[:-3:-1]
    assert log(http, "distant") == []


@pytest.mark.behaviour("TIM-16")
def test_what_was_printed_is_cut_at_16_kib(http: Http) -> None:
    run = act(http, "loud", "trigger", wait="30s")
    (found,) = log(http, "loud")
    assert (found["id"], found["state"], found["exit_code"], found["cut"]) == (run["id"], "failed", 3, True)
    kept, mark, rest = found["output"].rpartition("\n… cut at 16 KiB")
    assert (len(kept.encode()), bool(mark), rest) == (16 * 1024, True, "")
    assert kept.startswith("fifteen letters\nfifteen letters\n")
    assert "3" in found["error"]

"""The description and the server agree, for whatever can be made of the description; shown by Schemathesis.

The event stream never ends, so it is left out there and held against its description here.
"""

import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from interlock.model.bulk import RunAction
from interlock.model.child_info import ServiceAction
from interlock.model.lane import LaneAction
from interlock.model.pool import WorkerAction
from interlock.model.session import SessionAction
from tests.api.tokens import TOKENS, as_
from tests.helpers.http import Http, ends
from tests.helpers.places import tell_to_go
from tests.helpers.server import Server, environment

EVENTS = {
    "hello": "HelloEvent",
    "run": "RunEvent",
    "log": "LogEvent",
    "chunk": "ChunkEvent",
    "progress": "ProgressEvent",
    "service": "ServiceEvent",
    "service_log": "ServiceLogEvent",
    "lane": "LaneEvent",
    "session": "SessionEvent",
    "violation": "ViolationEvent",
    "job": "JobEvent",
    "overview": "Overview",
}


def run_schemathesis(server: Server, *options: str, selected: int = 92) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json", "--no-color",
         "--checks", "all", "--generation-deterministic", "--exclude-operation-id", "events", *options],
        env=environment(SCHEMATHESIS_HOOKS="tests.api.schemathesis_hooks"),
        cwd=server.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Operations:       {selected} selected / 93 total" in ended.stdout
    assert "Traceback" not in server.said


@pytest.mark.behaviour("OBS-3")
def test_without_tokens(server: Server) -> None:
    # The phase `coverage` takes two minutes: `make soak` has it.
    run_schemathesis(server, "--max-examples", "3", *(() if "SOAK" in os.environ else ("--phases", "fuzzing,stateful")))


def test_with_a_token(guarded: Server) -> None:
    token = f"Authorization: Bearer {TOKENS['boss'].text}"
    run_schemathesis(
        guarded,
        *("--max-examples", "2", "--phases", "fuzzing,stateful"),
        *("--exclude-tag", "jobs", "--exclude-tag", "lanes", "--exclude-tag", "tenants"),
        *("--header", token),
        selected=72,
    )


def test_with_tokens_and_none_sent(guarded: Server) -> None:
    """Everything is 401, and that is part of the description."""
    before = as_(guarded, "boss").count()
    run_schemathesis(guarded, "--max-examples", "1", "--phases", "fuzzing")
    assert as_(guarded, "boss").count() == before


@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/runs/x", "/api/v1/runs/x/history", "/api/v1/runs/x/logs"])
def test_a_missing_token_shows_before_anything_else(guarded: Server, path: str) -> None:
    assert guarded.http.get(path, nonsense="1").code == "unauthorized"


# ── the document ────────────────────────────────────────────────────────────────────────────────────────────────────


def description(http: Http) -> dict[str, Any]:
    answer = http.get("/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = answer.json
    return found


def test_the_description_says_where_a_token_is_needed(server: Server, guarded: Server) -> None:
    def secured(http: Http) -> set[str]:
        return {
            operation["operationId"]
            for path in description(http)["paths"].values()
            for operation in path.values()
            if "security" in operation
        }

    every = {
        "submit",
        "submit_many",
        "runs",
        "run",
        *RunAction,
        *(f"{action}_many" for action in RunAction),
        "bulk",
        "explanation",
        "history",
        "logs",
        "events",
        "metrics",
    }
    every |= {
        "me",
        "overview",
        "failures",
        "policy",
        "tallies",
        "record",
        "resume_run",
        "abandon_run",
        "cluster",
        "hand_over",
    }
    every |= {"tree", "services", "service", "service_logs", "reload", *(f"{one}_service" for one in ServiceAction)}
    every |= {"jobs", "job", "job_log", "next_times", "schedule_times", "timetable", "trigger", "pause", "resume"}
    every |= {"backfill", "put_job", "put_jobs", "delete_job", "lanes", "create_lane", "set_lane", "tenants"}
    every |= {f"{one}_lane" for one in LaneAction}
    every |= {"pools", "workers", "worker", *(f"{one}_worker" for one in WorkerAction)}
    every |= {"sessions", "session", *(f"{one}_session" for one in SessionAction)}
    every |= {
        "steps",
        "workflows",
        "send_event",
        "send_workflow_event",
        "deliveries",
        "delivery",
        "redeliver",
        "letters",
        "letter",
        "replay",
        "replay_many",
        "drop_letter",
        "drop_letters",
        "audit",
        "approvals",
        "approval",
        "approve",
        "reject",
        "release_output",
    }
    assert secured(server.http) == set()
    assert secured(guarded.http) == every


def test_every_reference_leads_somewhere(http: Http) -> None:
    document = description(http)
    assert document["openapi"] == "3.1.0"

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {value["$ref"]} if "$ref" in value else set().union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known
    assert known - references(document) <= {f"#/components/schemas/{name}" for name in [*EVENTS.values(), "GapEvent"]}


# ── the event stream ────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_are_as_described(server: Server) -> None:
    document = description(server.http)
    assert set(document["paths"]["/api/v1/events"]["get"]["responses"]["200"]["content"]) == {"text/event-stream"}
    seen = set()
    with server.http.events() as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        run_id = server.http.submit("progress", {"folder": str(server.folder), "name": "described"})
        for event in stream.until(lambda told: told.name == "chunk" and told.data["run_id"] == run_id):
            check_event(document, event.name, event.data)
            seen.add(event.name)
        tell_to_go(server.folder, "described")
        for event in stream.until(ends([run_id])):
            check_event(document, event.name, event.data)
            seen.add(event.name)
    check_event(document, "hello", {"cursor": f"e{stream.position}"})
    assert seen == {"run", "log", "progress", "chunk"}


def check_event(document: dict[str, Any], name: str, data: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{EVENTS[name]}", "components": document["components"]}
    jsonschema_rs.validate(schema, data)


@pytest.mark.parametrize(
    ("query", "headers", "code"),
    [
        ({"type": "runs"}, {}, "bad_value"),
        ({"after": "-1"}, {}, "bad_value"),
        ({"after": "null"}, {}, "bad_value"),
        ({"after": "x"}, {}, "bad_value"),
        ({"from": "1"}, {}, "unknown_field"),
        ({"service": "x" * 257}, {}, "bad_value"),
        ({}, {"Last-Event-ID": "x"}, "bad_value"),
        ({}, {"Last-Event-ID": "-1"}, "bad_value"),
        ({}, {"Last-Event-ID": "9" * 19}, "bad_value"),
    ],
)
def test_a_stream_that_cannot_be(http: Http, query: dict[str, str], headers: dict[str, str], code: str) -> None:
    answer = http.get("/api/v1/events", headers, **query)
    assert (answer.status, answer.code) == (400, code)

"""The audit over HTTP: who may read it, what is in it, and refused tokens."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import TOKENS, as_
from tests.helpers.audited import audit
from tests.helpers.http import Http, path_with
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

pytestmark = pytest.mark.behaviour("SEC-7")

AUDIT = "/api/v1/audit"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with with_tokens(stores=[audit]) as running:
        yield running


def entries(http: Http, **query: object) -> list[dict[str, Any]]:
    answer = http.get(path_with(AUDIT, query))
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["entries"]
    return found


def subjects(http: Http, **query: object) -> list[str]:
    return [one["subject"] for one in entries(http, **query)]


def test_a_start_with_other_tokens_and_jobs_is_in_it(own: Server) -> None:
    changed = {one["kind"]: one for one in entries(as_(own, "boss")) if one["actor"] == "scheduler"}
    tokens, jobs = changed["tokens_changed"], changed["job_changed"]
    named = {"added": len(TOKENS), "changed": 0, "removed": 0, "names": list(TOKENS)}
    assert {name: tokens["detail"][name] for name in named} == named
    assert (jobs["subject"], jobs["detail"]["action"]) == ("declared jobs", "declared")
    assert jobs["detail"]["jobs"] > 0


def test_a_list_begins_anywhere_and_shows_the_chain(own: Server) -> None:
    boss = as_(own, "boss")
    assert subjects(boss, tenant="red", last=True, limit=1) == ["red-two"]
    page = boss.get(path_with(AUDIT, {"limit": 2})).json
    assert page["head"]["number"] >= 5
    assert page["entries"][1]["previous"] == page["entries"][0]["hash"]
    assert as_(own, "judge").get(AUDIT).json["head"] is None, "of all tenants together"


def test_refused_tokens_are_in_it_and_repetitions_only_raise_a_count(own: Server) -> None:
    boss, wrong = as_(own, "boss"), own.http.with_token("unknown-0123456789")
    for _ in range(20):
        assert wrong.get("/api/v1/runs").status == 401
    assert own.http.get("/api/v1/runs").status == 401, "nobody; this is not in it"
    assert as_(own, "guest").post("/api/v1/runs", {"job": "echo"}).status == 403

    def refused() -> list[tuple[str, str, str, str]]:
        found = entries(boss, kind="token_refused")
        shown = [(one["actor"], one["tenant"], one["subject"], one["detail"]["reason"]) for one in found]
        return [one for one in shown if "audit" not in one[2]]

    expected = [
        ("127.0.0.1", "", "GET /api/v1/runs", "unauthorized"),
        ("guest", "red", "POST /api/v1/runs", "forbidden"),
    ]
    wait_until(lambda: len(refused()) >= 2, "the gateway reports them")
    assert sorted(refused()) == expected, "one entry each; the rest of the minute is counted"


def test_changes_of_jobs_are_in_it(own: Server) -> None:
    boss = as_(own, "boss")
    job = {"schedule": {"every": "1h"}, "run": {"process": ["true"]}}
    assert boss.ask("PUT", "/api/v1/jobs/made", job).status == 200
    assert boss.ask("PUT", "/api/v1/jobs/made", job).status == 200, "nothing changes"
    for change in ("pause", "pause", "resume"):
        assert boss.post(f"/api/v1/jobs/made/{change}").status == 200
    assert boss.ask("DELETE", "/api/v1/jobs/made").status == 200
    many = [{"id": f"many{number}", **job} for number in range(30)]
    assert boss.post("/api/v1/jobs", {"jobs": many}).status == 200
    found = [one for one in entries(boss, kind="job_changed") if one["actor"] == "boss"]
    assert [(one["subject"], one["detail"]["action"]) for one in found] == [
        ("made", "put"), ("made", "paused"), ("made", "resumed"), ("made", "dropped"), ("30 jobs", "put"),
    ]  # fmt: skip
    assert found[-1]["detail"]["names"] == [f"many{number}" for number in range(20)]

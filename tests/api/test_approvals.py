"""Approvals over HTTP: listed, shown, and answered by those who may."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import with_tokens
from tests.api.tokens import as_
from tests.helpers.http import Answer, Http, path_with
from tests.helpers.judged import ASKS, DENIED, POLICY, write_policy
from tests.helpers.server import Server

APPROVALS = "/api/v1/approvals"


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    with with_tokens(files=write_policy) as running:
        yield running


def listed(http: Http, **query: object) -> list[str]:
    answer = http.get(path_with(APPROVALS, query))
    assert answer.status == 200, answer.body
    return [one["run_id"] for one in answer.json["approvals"]]


def resolve(http: Http, run_id: str, what: str = "approve", reason: str = "looked at", **fields: object) -> Answer:
    return http.post(f"/api/v1/runs/{run_id}/{what}", {"reason": reason, **fields})


def problem(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


@pytest.mark.behaviour("POL-8", "RUN-21")
def test_a_run_starts_once_it_is_approved(own: Server) -> None:
    clerk, judge = as_(own, "clerk"), as_(own, "judge")
    clerk.ended(clerk.submit("echo"))
    run_id = clerk.submit(ASKS, {"value": {"password": "swordfish", "amount": 5}}, labels={"ticket": "7"})
    shown: dict[str, Any] = judge.get(f"{APPROVALS}/{run_id}").json
    times = shown.pop("asked_at"), shown.pop("expires_at")
    assert times[0] < times[1]
    assert [one for one in shown.pop("recent") if one["job_id"] == "echo"] == [
        {"job_id": "echo", "state": "succeeded", "count": 1}
    ]
    policy, request, seen = shown.pop("policy"), shown.pop("request"), shown.pop("seen")
    assert seen == f"{request}:{policy}"
    assert shown == {
        "run_id": run_id, "job_id": ASKS, "tenant": "red", "rule": "money", "reason": "money moves",
        "created_by": "clerk", "submitters": ["clerk"], "labels": {"ticket": "7"}, "state": "approval_required",
        "payload": {"value": {"password": "•••", "amount": 5}}, "topic": ASKS, "capabilities": [], "risk_tags": [],
        "requires": [], "answer": None, "recent_complete": True,
    }  # fmt: skip
    assert problem(resolve(judge, run_id, seen=f"{request}:other")) == (409, "stale")
    waiting = clerk.get(f"/api/v1/runs/{run_id}/explanation").json
    assert (waiting["reasons"][0]["kind"], waiting["verdict"]["decision"]) == ("approval", "require_approval")
    approved = resolve(judge, run_id, seen=seen)
    assert (approved.status, approved.json["id"]) == (200, run_id)
    assert clerk.ended(run_id)["state"] == "succeeded"
    verdict = clerk.get(f"/api/v1/runs/{run_id}/explanation").json["verdict"]
    answer = verdict["answer"]
    assert (verdict["rule"], verdict["reason"], verdict["policy"]) == ("money", "money moves", policy)
    assert (answer["approved"], answer["by"], answer["reason"]) == (True, "judge", "looked at")
    assert judge.get(f"{APPROVALS}/{run_id}").json["answer"] == answer
    again = resolve(judge, run_id, "reject")
    assert problem(again) == (409, "already_resolved")
    assert "was answered by judge; it is succeeded" in again.json["detail"]


@pytest.mark.behaviour("POL-8", "SEC-2")
def test_only_an_approver_answers_and_not_for_their_own_run(own: Server) -> None:
    boss, chief = as_(own, "boss"), as_(own, "chief")
    run_id = chief.submit(ASKS)
    for name in ("guest", "clerk", "stranger"):
        for what in ("approve", "reject"):
            assert problem(resolve(as_(own, name), run_id, what)) == (403, "forbidden")
    refused = resolve(chief, run_id)
    assert problem(refused) == (403, "self_approval")
    assert "was submitted by chief, who cannot approve it; somebody else must: over TCP" in refused.json["detail"]
    assert problem(resolve(own.local, own.local.submit(ASKS))) == (403, "self_approval")
    assert boss.get(f"/api/v1/runs/{run_id}").json["state"] == "approval_required"
    # Whoever submitted a run may take it back.
    assert resolve(chief, run_id, "reject").json["state"] == "denied"


@pytest.mark.behaviour("POL-8")
def test_an_approval_is_for_the_policy_that_asked(own: Server) -> None:
    boss = as_(own, "boss")
    run_id = as_(own, "clerk").submit(ASKS)
    seen = boss.get(f"{APPROVALS}/{run_id}").json["seen"]
    write_policy(own.folder, POLICY.replace("money moves", "much money moves"))
    assert own.local.post("/api/v1/reload").json["policy"]["changed"] == ["test"]
    assert problem(resolve(boss, run_id, seen=seen)) == (409, "stale")
    shown = boss.get(f"{APPROVALS}/{run_id}").json
    assert shown["reason"] == "much money moves"
    assert resolve(boss, run_id, seen=shown["seen"]).status == 200
    assert boss.ended(run_id)["state"] == "succeeded"


@pytest.mark.behaviour("OBS-1")
def test_verdicts_are_counted(own: Server) -> None:
    boss = as_(own, "boss")
    boss.ended(boss.submit(DENIED))
    boss.submit(ASKS)
    text = boss.get("/metrics").body.decode()
    assert f'interlock_verdicts_total{{topic="{DENIED}",decision="deny"}}' in text
    assert f'interlock_verdicts_total{{topic="{ASKS}",decision="require_approval"}}' in text
    assert "# TYPE interlock_input_fail_open_total counter" in text
    (waiting,) = [line for line in text.splitlines() if line.startswith("interlock_approvals_waiting ")]
    assert float(waiting.split()[1]) == len(listed(boss))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_field"),
        ({"reason": ""}, "bad_value"),
        ({"reason": " \n"}, "bad_value"),
        ({"reason": "x" * 501}, "bad_value"),
        ({"reason": 5}, "bad_value"),
        ({"reason": "x", "seen": 5}, "bad_value"),
        ({"reason": "x", "sen": "y"}, "unknown_field"),
    ],
)
def test_a_bad_answer_is_refused(own: Server, body: dict[str, object], code: str) -> None:
    for what in ("approve", "reject"):
        assert problem(as_(own, "judge").post(f"/api/v1/runs/x/{what}", body)) == (400, code)


def test_runs_that_wait_for_nothing(own: Server) -> None:
    boss = as_(own, "boss")
    run_id = boss.submit("echo")
    boss.ended(run_id)
    asked = [boss.get(f"{APPROVALS}/{run_id}"), resolve(boss, run_id), resolve(boss, run_id, "reject")]
    assert {problem(one) for one in asked} == {(409, "no_approval")}

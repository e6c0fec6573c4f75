"""A scheduler in memory with files, a policy, tenants and approvals."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock import testing
from interlock.error import AlreadyResolved, BadConfig, NoApproval, NotJson, TenantLimit, UnknownRun
from interlock.fields.field import settable
from interlock.model.policy.verdict import Ruling
from interlock.model.tenant import TenantSpec

START = datetime(2030, 1, 1, tzinfo=UTC)
POLICY: dict[str, Any] = {
    "default_decision": "allow",
    "rules": [
        {"id": "robots", "match": {"actors": ["robot-*"]}, "decision": "deny", "reason": "robots pay nobody"},
        {"id": "refunds", "match": {"topics": ["refund"]}, "decision": "require_approval", "reason": "a person looks"},
        {"id": "short", "match": {"tenants": ["acme"]}, "decision": "allow_with_constraints",
         "limits": {"max_runtime": "5s"}},
    ],
}  # fmt: skip
FILE = """
kind: Policy
id: shop
default_decision: allow
rules:
- {id: nights, match: {topics: [nightly]}, decision: require_approval}
---
kind: Tenant
id: acme
max_running: 1
labels: {plan: gold}
---
kind: Lane
id: slow
limit: 1
---
kind: Pool
id: gpu
topics: ["train.*"]
requires: [cuda]
---
kind: Pool
id: default
topics: ["*"]
---
kind: Job
id: nightly
schedule: {cron: "0 2 * * *"}
run: {job: work}
payload: {seconds: 5}
---
kind: Job
id: train.model
lane: slow
requires: [cuda]
run: {process: [train, --fast]}
---
kind: Job
id: named
run: {function: "FOLDER/functions.py:double"}
---
kind: Service
id: web
run: {process: [never-started]}
"""
app = il.App()


@app.job("work")
async def work(ctx: il.Context, seconds: float = 60.0) -> dict[str, str]:
    await asyncio.sleep(seconds)
    return {"tenant": ctx.tenant, **ctx.labels}


@app.job("refund")
def refund(amount: int = 10) -> int:
    return amount


@app.job("agent")
async def agent() -> str:
    return (await refund.submit(5)).id


@pytest.fixture
def governed() -> Iterator[testing.VirtualScheduler]:
    with testing.scheduler(app, policy=POLICY) as scheduler:
        yield scheduler


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text("def double(number: int) -> int:\n    return number * 2\n")
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("FOLDER", str(tmp_path)))
    return path


@pytest.mark.behaviour("POL-8")
def test_an_approved_run_starts_and_names_its_approver(governed: testing.VirtualScheduler) -> None:
    run = governed.submit(refund.call(7), actor="shop")
    governed.advance("1h")
    assert run.state() is il.State.APPROVAL_REQUIRED
    asked = run.explain().verdict
    assert asked is not None
    assert (asked.decision, asked.rule, asked.reason, asked.answer) == (Ruling.ASK, "refunds", "a person looks", None)
    assert governed.approve(run.id, "checked", actor="ann") is il.State.PENDING
    assert run.result() == 7
    answered = run.explain().verdict
    assert answered is not None
    assert answered.answer is not None
    assert (answered.answer.approved, answered.answer.by, answered.answer.reason) == (True, "ann", "checked")
    with pytest.raises(AlreadyResolved, match="ann"):
        governed.reject(run.id, "too late", actor="bob")


@pytest.mark.behaviour("POL-8")
@pytest.mark.parametrize(("submitter", "approver"), [("shop", "shop"), ("", "local")])
def test_nobody_approves_their_own_run(governed: testing.VirtualScheduler, submitter: str, approver: str) -> None:
    run = governed.submit("refund", actor=submitter)
    with pytest.raises(il.SelfApproval):
        governed.approve(run.id, "my own", actor=approver)
    assert run.state() is il.State.APPROVAL_REQUIRED
    governed.approve(run.id, "checked", actor="ann")
    assert run.wait() is il.State.SUCCEEDED


@pytest.mark.behaviour("POL-8", "RUN-26")
def test_nobody_approves_what_their_agent_asks_for(governed: testing.VirtualScheduler) -> None:
    run = governed.handle(governed.submit("agent", actor="ada", tenant="shop").result())
    assert (run.info().tenant, run.state()) == ("shop", il.State.APPROVAL_REQUIRED)
    with pytest.raises(il.SelfApproval):
        governed.approve(run.id, "mine", actor="ada")
    governed.approve(run.id, "checked", actor="ann")
    assert run.result() == 5


@pytest.mark.behaviour("POL-8")
def test_a_rejected_run_and_one_without_an_answer_are_denied(governed: testing.VirtualScheduler) -> None:
    rejected, expired = governed.submit("refund"), governed.submit("refund")
    assert governed.reject(rejected.id, "paid twice", actor="ann") is il.State.DENIED
    assert rejected.info().reason == "rejected by ann: paid twice"
    assert expired.wait() is il.State.DENIED
    assert governed.now == START + timedelta(hours=24)


def test_only_a_run_that_waits_can_be_answered(governed: testing.VirtualScheduler) -> None:
    with pytest.raises(NoApproval):
        governed.approve(governed.submit("work").id, "checked", actor="ann")
    with pytest.raises(UnknownRun):
        governed.approve("nothing", "checked", actor="ann")


@pytest.mark.behaviour("POL-1")
def test_a_policy_judges_by_actor_and_tenant(governed: testing.VirtualScheduler) -> None:
    denied = governed.submit("work", actor="robot-7")
    with pytest.raises(il.RunDenied, match="robots pay nobody"):
        denied.result()
    assert denied.info().created_by == "robot-7"
    assert governed.submit("work", tenant="acme").wait() is il.State.TIMEOUT
    assert governed.submit("work", {"seconds": 6}).result() == {"tenant": "default"}


def test_a_policy_may_be_a_file_or_a_whole_document(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("kind: Policy\nid: shop\nrules: []\n")
    for policy in (path, str(path), {"kind": "Policy", "id": "shop", "rules": []}):
        with testing.scheduler(app, policy=policy) as scheduler:
            assert scheduler.submit("work").wait() is il.State.DENIED


@pytest.mark.behaviour("ROU-8")
def test_tenants_have_limits_and_labels() -> None:
    tenants: dict[str, il.TenantFields] = {
        "acme": {"max_running": 1, "max_waiting": 1, "labels": {"plan": "gold"}},
        "*": {"rate": "1/s", "over_limit": "refuse"},
    }
    with testing.scheduler(app, tenants=tenants) as scheduler:
        first, second = (scheduler.submit("work", tenant="acme") for _ in range(2))
        assert (first.state(), second.state()) == (il.State.RUNNING, il.State.SCHEDULED)
        with pytest.raises(TenantLimit):
            scheduler.submit("work", tenant="acme")
        assert second.result() == {"tenant": "acme", "plan": "gold"}
        assert scheduler.now == START + timedelta(minutes=2)
        scheduler.submit("work", tenant="other")
        with pytest.raises(TenantLimit):
            scheduler.submit("work", tenant="other")


def test_every_field_of_a_tenant_is_typed() -> None:
    assert il.TenantFields.__annotations__.keys() == settable(TenantSpec).keys()


def test_files_declare_jobs_lanes_pools_tenants_and_the_policy(file: Path) -> None:
    called: list[tuple[Sequence[str], Mapping[str, Any]]] = []

    def program(command: Sequence[str], payload: Mapping[str, Any]) -> int:
        called.append((command, payload))
        return len(called) - 1

    with testing.scheduler(app, files=[file], program=program) as scheduler:
        scheduler.advance("3h")
        (nightly,) = scheduler.runs("nightly")
        assert nightly.state is il.State.APPROVAL_REQUIRED
        scheduler.approve(nightly.id, "checked", actor="ann")
        assert scheduler.handle(nightly.id).result() == {"tenant": "default"}
        assert scheduler.submit("named", {"number": 4}).result() == 8
        first, second = (scheduler.submit("work", tenant="acme") for _ in range(2))
        assert (first.state(), second.state()) == (il.State.RUNNING, il.State.SCHEDULED)
        train = scheduler.submit("train.model", {"epochs": 3})
        assert train.wait() is il.State.SUCCEEDED
        assert (train.info().lane, train.info().exit_code, train.info().worker_id) == ("slow", 0, "w1")
        failed = scheduler.submit("train.model")
        assert failed.wait() is il.State.FAILED
        assert (failed.info().exit_code, failed.info().error) == (1, "ended with exit code 1")
    assert called == [(("train", "--fast"), {"epochs": 3}), (("train", "--fast"), {})]


def test_a_folder_of_files_and_programs_that_succeed(file: Path) -> None:
    with testing.scheduler(app, files=[str(file.parent)], schedules=False) as scheduler:
        scheduler.advance("1d")
        assert scheduler.runs("nightly") == []
        assert scheduler.submit("train.model").result() is None
        with pytest.raises(il.RunFailed, match="number"):
            scheduler.submit("named", {}).result()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"policy": {"rules": [{"id": "a", "decision": "maybe"}]}}, BadConfig, r"^policy: rules\[0\].decision: 'may"),
        ({"policy": {"kind": "Job"}}, BadConfig, "^policy: kind: 'Job' is not 'Policy'"),
        ({"policy": {"rules": {1, 2}}}, NotJson, "^policy.rules"),
        ({"policy": "missing.yaml"}, BadConfig, "^missing.yaml"),
        ({"files": ["missing.yaml"]}, BadConfig, "^missing.yaml"),
        ({"tenants": {"acme": {"max_runing": 1}}}, BadConfig, "^tenants.acme: .*max_running"),
        ({"tenants": {"a b": {}}}, BadConfig, "^tenants.a b: id: 'a b'"),
        ({"policy": {"output": {"scanners": [{"scanner": "python", "name": "own"}]}}}, BadConfig, "no scanner 'own'"),
    ],
)  # fmt: skip
def test_faults_are_refused_as_those_of_files(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        testing.scheduler(app, **options)
    assert len(app.connections) == 0


def test_a_policy_beside_that_of_the_files_is_refused(file: Path) -> None:
    with pytest.raises(BadConfig, match="second policy"):
        testing.scheduler(app, files=[file], policy=POLICY)

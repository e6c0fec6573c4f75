"""The output policy: results that are withheld before or after success, redacted, and released."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Failed
from interlock.core.output import Scans
from interlock.core.policy.judge_state import Judging
from interlock.model.audit import AuditFilter
from interlock.model.failure import Failure
from interlock.model.job import Job, Sensitivity
from interlock.model.letter import DeadLetter
from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.output import FailMode, Finding, OutputMatch, OutputPolicy, OutputRule, Scanned
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec
from interlock.model.policy.verdict import Ruling
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.wire.approval_request import ReleaseOutput
from interlock.wire.message import LogMessage
from interlock.wire.output_request import ReportScans
from interlock.wire.request import ValueAnswer
from tests.core.machine import Machine, at_once

S = State
A = OutputAction
SECRETS = ScannerSpec(scanner=ScannerKind.SECRETS)
FOUND = (Finding("secrets", "github_token", "$.key", 0, 40, ""),)
TOKEN = "hunter2-and-more"


def policy(*rules: OutputRule, fail_mode: FailMode = FailMode.OPEN, **fields: Any) -> Policy:
    output = OutputPolicy(rules=rules, **fields)
    document = PolicyDocument(id="test", default_decision=Ruling.ALLOW, output=output, output_fail_mode=fail_mode)
    return Policy(document)


def rule(decision: A = A.QUARANTINE, **match: Any) -> OutputRule:
    return OutputRule(id="r1", match=OutputMatch(**match), decision=decision, reason="not out")


def succeeded(machine: Machine, **fields: Any) -> str:
    run_id = machine.running()
    machine.finished(run_id, **{"result": b'{"key":"value"}', **fields})
    return run_id


def digest(machine: Machine) -> str:
    policy = machine.state.of(Judging).policy
    assert policy is not None
    return policy.digest


def report(machine: Machine, *found: Scanned, position: int | None = None) -> None:
    place = (machine.state.of(Scans).position or 0) + 1 if position is None else position
    machine.step(
        (
            "scanner",
            ReportScans(1, place, digest(machine), list(found)),
        )
    )


def letters(machine: Machine) -> list[str]:
    return list(machine.store.all_of(DeadLetter))


def audited(machine: Machine) -> list[str]:
    entries = at_once(machine.store.audit(0, 100, AuditFilter())).entries
    return [one.kind for one in entries if not one.kind.endswith("_changed")]


# ── phase one ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("OUT-1", "OUT-2", "OUT-7")
@pytest.mark.parametrize(
    ("found", "withheld"),
    [
        (rule(), True),
        (rule(A.DENY), True),
        (rule(A.ALLOW), False),
        (rule(over=14), True),
        (rule(over=15), False),
        (rule(topics=("work",)), True),
        (rule(topics=("other.*",)), False),
        (rule(tenants=("default",)), True),
        (rule(tenants=("acme",)), False),
        (rule(sensitivity=("secret",)), True),
        (rule(sensitivity=("public", "internal")), False),
        (rule(exit_code=3), True),
        (rule(exit_code=0), False),
    ],
)
def test_a_rule_about_metadata_withholds_a_result(found: OutputRule, withheld: bool) -> None:
    machine = Machine(Job(id="work", sensitivity=Sensitivity.SECRET), policy=policy(found))
    run_id = succeeded(machine, exit_code=3)
    run = machine.run(run_id)
    assert run.state is (S.OUTPUT_QUARANTINED if withheld else S.SUCCEEDED)
    assert run.shown_result == (None if withheld else b'{"key":"value"}')
    assert letters(machine) == [run_id] * withheld
    assert audited(machine) == ["quarantined"] * withheld
    record = None if run.facets is None else run.facets.output
    assert (record is None) is not withheld
    if record is not None:
        assert (record.phase, record.rule, record.at, run.reason) == (1, "r1", machine.wall, "rule r1: not out")


def test_the_first_rule_decides() -> None:
    allowed = OutputRule(id="r0", match=OutputMatch(tenants=("default",)), decision=A.ALLOW)
    machine = Machine(policy=policy(allowed, rule()))
    assert machine.state_of(succeeded(machine)) is S.SUCCEEDED


@pytest.mark.behaviour("OUT-1", "OUT-6")
def test_a_failed_run_is_not_checked_but_its_error_and_log_are_redacted() -> None:
    for found in (None, policy(rule())):
        machine = Machine(policy=found)
        run_id = machine.running()
        fence = machine.run(run_id).fence
        machine.step(("one", LogMessage(run_id, fence, 1, machine.wall, "info", f"postgres://app:{TOKEN}@db/app")))
        failure = Failure(["ValueError"], f"bad postgres://app:{TOKEN}@db/app")
        machine.finished(run_id, "failed", error=f"ValueError: bad postgres://app:{TOKEN}@db/app", failure=failure)
        run = machine.run(run_id)
        texts = [
            run.error or "",
            run.failure.message if run.failure else "",
            at_once(machine.store.logs(run_id))[0].text,
        ]
        assert run.state is S.FAILED
        assert all((TOKEN in text) is (found is None) for text in texts)


@pytest.mark.behaviour("OUT-6")
def test_a_private_key_is_redacted_over_several_lines() -> None:
    machine = Machine(policy=policy(rule()))
    run_id = machine.running()
    fence = machine.run(run_id).fence
    key = ["before", "-----BEGIN RSA " + "PRIVATE KEY-----", "MIIEow", "AAAA", "-----END RSA PRIVATE KEY-----", "after"]
    for number, text in enumerate(key, 1):
        machine.step(("one", LogMessage(run_id, fence, number, machine.wall, "info", text)))
    found = [one.text for one in at_once(machine.store.logs(run_id))]
    assert (found[0], found[-1]) == ("before", "after")
    assert not any(text in line for text in ("MIIEow", "AAAA") for line in found)


# ── phase two ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("OUT-2", "OUT-3", "OUT-7")
@pytest.mark.parametrize(
    ("scan", "state", "result", "kinds"),
    [
        (Scanned("", A.QUARANTINE, FOUND, 1), S.OUTPUT_QUARANTINED, None, ["quarantined"]),
        (Scanned("", A.DENY, FOUND, 1), S.OUTPUT_QUARANTINED, None, ["quarantined"]),
        (Scanned("", A.REDACT, FOUND, 1, b'{"key":"x"}'), S.SUCCEEDED, b'{"key":"x"}', ["redacted"]),
        (Scanned("", A.REDACT, FOUND, 1), S.OUTPUT_QUARANTINED, None, ["quarantined"]),
        (Scanned("", A.ALLOW, FOUND, 1), S.SUCCEEDED, b'{"key":"value"}', []),
    ],
)
def test_a_finding_decides_about_a_success(scan: Scanned, state: State, result: bytes | None, kinds: list[str]) -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = succeeded(machine)
    scan = Scanned(run_id, scan.decision, scan.findings, scan.found, scan.redacted, 0.25)
    for position in (5, 5, 4):  # repeated, it changes nothing
        report(machine, scan, position=position)
    run = machine.run(run_id)
    assert (run.state, run.shown_result, audited(machine)) == (state, result, kinds)
    assert letters(machine) == [run_id] * (state is S.OUTPUT_QUARANTINED)
    assert run.facets is not None
    assert run.facets.output is not None
    assert (run.facets.output.phase, run.facets.output.findings, run.facets.output.took) == (2, FOUND, 0.25)


@pytest.mark.behaviour("OUT-2")
@pytest.mark.parametrize(("mode", "state"), [(FailMode.OPEN, S.SUCCEEDED), (FailMode.CLOSED, S.OUTPUT_QUARANTINED)])
def test_a_result_that_cannot_be_scanned(mode: FailMode, state: State) -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,), fail_mode=mode))
    run_id = succeeded(machine)
    report(machine, Scanned(run_id, A.ALLOW, error="it took longer than 30s"))
    assert machine.state_of(run_id) is state
    assert machine.last.counts["output_skipped_total", "work", "2"] == 1


@pytest.mark.behaviour("OUT-3")
def test_only_a_run_that_is_still_succeeded_is_downgraded() -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    report(machine, Scanned(run_id, A.QUARANTINE, FOUND, 1), Scanned("unknown", A.QUARANTINE, FOUND, 1))
    assert machine.state_of(run_id) is S.FAILED
    assert [one.code for one in machine.store.all_of(DeadLetter).values()] == ["failed"]


@pytest.mark.behaviour("RUN-4")
def test_a_success_is_quarantined_also_in_the_pass_it_ends_in() -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = machine.running()
    scan = ReportScans(1, 5, digest(machine), [Scanned(run_id, A.QUARANTINE, FOUND, 1)])
    machine.step(machine.finish_command(run_id), ("scanner", scan))
    machine.step(("scanner", scan))
    assert machine.path(run_id)[4:] == ["terminating", "succeeded", "output_quarantined"]
    assert (letters(machine), [run.id for run in machine.ended]) == ([run_id], [run_id])


def test_scans_continue_after_a_restart_where_the_last_report_ended() -> None:
    machine = Machine(policy=policy())
    assert machine.state.of(Scans).position is None
    machine.policy = policy(scanners=(SECRETS,))
    machine.step(("", machine.define()))
    assert machine.state.of(Scans).position == 0
    report(machine, position=7)
    machine.restart()
    assert machine.state.of(Scans).position == 7
    machine.policy = None
    machine.restart()
    assert machine.state.of(Scans).position is None
    machine.restart()
    assert machine.state.of(Scans).position is None


@pytest.mark.behaviour("OUT-3")
@pytest.mark.parametrize(("decision", "error"), [(A.QUARANTINE, ""), (A.ALLOW, "it took too long"), (A.ALLOW, "")])
def test_a_run_is_scanned_after_its_definition_has_left_memory(decision: A, error: str) -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = succeeded(machine)
    machine.restart()
    assert machine.run(run_id).job_version not in machine.state.versions
    report(machine, Scanned(run_id, decision, FOUND if decision is A.QUARANTINE else (), error=error))
    assert machine.state_of(run_id) is (S.OUTPUT_QUARANTINED if decision is A.QUARANTINE else S.SUCCEEDED)
    counter = "output_skipped_total" if error else "output_quarantined_total"
    assert machine.last.counts[counter, "work", "2"] == (decision is A.QUARANTINE or bool(error))


@pytest.mark.behaviour("OUT-3")
def test_scans_for_another_policy_do_not_count() -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = succeeded(machine)
    scan = ReportScans(1, 5, digest(machine), [Scanned(run_id, A.QUARANTINE, FOUND, 1)])
    machine.policy = policy(scanners=(SECRETS,), timeout=5.0)
    machine.step(("", machine.define()))
    for report, position, state in (
        (scan, 0, S.SUCCEEDED),
        (replace(scan, digest=digest(machine)), 5, S.OUTPUT_QUARANTINED),
    ):
        [(_, answer)] = machine.step(("scanner", report)).answers
        assert (answer, machine.state_of(run_id)) == (ValueAnswer(1, position), state)


# ── release ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("OUT-5")
def test_a_withheld_result_is_released_once() -> None:
    machine = Machine(policy=policy(rule()))
    run_id = succeeded(machine)
    for actor in ("ann", "bob"):
        machine.step(("client", ReleaseOutput(1, run_id, "a false alarm").by(actor=actor)))
    run = machine.run(run_id)
    assert run.facets is not None
    assert run.facets.output is not None
    assert (run.state, run.shown_result) == (S.OUTPUT_QUARANTINED, b'{"key":"value"}')
    assert (run.facets.output.released_by, run.facets.output.release_reason) == ("ann", "a false alarm")
    assert audited(machine) == ["quarantined", "released"]
    assert machine.dispatched() == [run_id]


@pytest.mark.parametrize(("of", "code"), [("succeeded", "not_quarantined"), ("nothing", "unknown_run")])
def test_only_a_withheld_result_is_released(of: str, code: str) -> None:
    machine = Machine(policy=policy(scanners=(SECRETS,)))
    run_id = succeeded(machine) if of == "succeeded" else of
    [(_, answer)] = machine.step(("client", ReleaseOutput(1, run_id, "fine"))).answers
    assert isinstance(answer, Failed)
    assert answer.error.code == code

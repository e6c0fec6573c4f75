"""Policies and machines that obey them, for tests."""

from typing import Any

from msgspec.structs import replace

from interlock.core.decisions import Failed
from interlock.core.explain import explain
from interlock.core.state import CoreLimits
from interlock.model.audit import AuditEntry, AuditFilter
from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.policy.document import Match, PolicyDocument, Rule
from interlock.model.policy.verdict import Ruling, RunLimits, Verdict
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.wire.approval_request import ApproveRun, RejectRun
from tests.core.machine import AT_ONCE, Machine, at_once
from tests.core.scheduling import LIMITS

S = State
DAY = 86_400.0
SESSIONS = CoreLimits(session_patterns=AT_ONCE)
REMOTE = replace(LIMITS, remote_policy=True)
SMALL = RunLimits(max_runtime=5, max_retries=1, max_output=10, max_concurrent=1, environment=("PATH",), tools=("grep",))


def policy(*rules: Rule, default: Ruling = Ruling.DENY, **fields: Any) -> Policy:
    return Policy(PolicyDocument(id="test", default_decision=default, rules=rules, **fields))


def rule(decision: Ruling = Ruling.ASK, id: str = "r1", reason: str = "because", **fields: Any) -> Rule:
    match = {name: fields.pop(name) for name in list(fields) if name in Match.__struct_fields__}
    return Rule(id=id, match=Match(**match), decision=decision, reason=reason, **fields)


ALLOWS = policy(default=Ruling.ALLOW)
DENIES = policy(rule(Ruling.DENY))
ASKS = policy(rule(), default=Ruling.ALLOW)
YES, NO = Verdict(ruling=Ruling.ALLOW, policy="p1"), Verdict(ruling=Ruling.DENY, rule="no", policy="p1")


def judged_by(found: Policy | None, *jobs: Job, limits: CoreLimits = LIMITS) -> Machine:
    machine = Machine(*jobs, policy=found, limits=limits)
    machine.worker_up()
    return machine


def change(machine: Machine, found: Policy | None) -> None:
    machine.policy = found
    machine.step(("", machine.define()))


def resolve(machine: Machine, run_id: str, approve: bool = True, actor: str = "ann", **fields: Any) -> str:
    """The state after an answer, or the code of the error."""
    request = (ApproveRun if approve else RejectRun)(1, run_id, "looked at", **fields).by(actor=actor)
    answer: Any = machine.step(("client", request)).answers[-1][1]
    return answer.error.code if isinstance(answer, Failed) else str(answer.value.state)


def audited(machine: Machine, kind: str) -> list[AuditEntry]:
    return [one for one in at_once(machine.store.audit(0, 1000, AuditFilter())).entries if one.kind == kind]


def reasons(machine: Machine, run_id: str) -> str:
    return explain(machine.state, machine.run(run_id), machine.now).sentence


DEBOUNCED = CoreLimits(session_patterns={"*": {"debounce": 5.0, "max_concurrent": 1, "cap": 1000}})
GUARDS = Job(id="work", constraints=Constraints(max_concurrent_runs=1))

"""Approvals: a person decides on a run that the policy asks about: once, in time, and for exactly what was asked."""

from math import inf

from msgspec.structs import replace

from interlock.core.entry.lineage import claimant
from interlock.core.guards.actions import ActionFailed, note_failure, notify
from interlock.core.policy.judge_state import Judging
from interlock.core.sessions.turns import let_others_pass
from interlock.core.state import WAIT
from interlock.core.transition import Pass
from interlock.error import AlreadyResolved, NoApproval, SelfApproval, StaleApproval
from interlock.fields.duration import span
from interlock.model.access import OWNER
from interlock.model.audit import AuditKind
from interlock.model.facets import Approval, Judged, seen
from interlock.model.failure import Outcome
from interlock.model.job import Job
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import APPROVAL
from interlock.policy.policy import request_hash
from interlock.wire.approval_request import ApproveRun, RejectRun

LONGEST_REASON = 500


def ask_approval(p: Pass, run: Run, request: PolicyRequest, judged: Judged) -> bool:
    """Ask for an approval, unless the run has one for this request under this policy."""
    asked, given = request_hash(request), judged.approval
    if given is not None and given.request == asked:
        p.set_facet(run, policy=judged)
        p.cleared_because[run.id] = f"approved by {given.by}"
        return True
    approval = Approval(asked, p.now, p.now + p.state.limits.approval_timeout)
    p.count("verdicts_total", request.topic, Ruling.ASK)
    ask(p, run, replace(judged, approval=approval), f"rule {judged.rule}: {judged.reason}")
    return False


def ask(p: Pass, run: Run, judged: Judged, why: str) -> None:
    """Let a run wait for the answer of a person."""
    approval = judged.approval
    assert approval is not None
    run.due_at = approval.expires_at
    p.set_facet(run, policy=judged)
    p.move(run, State.APPROVAL_REQUIRED, why[:LONGEST_REASON])
    p.state.of(Judging).awaiting_approval[run.id] = run
    p.state.set_span(p.elapsed + approval.expires_at - p.now, run, WAIT)
    let_others_pass(p, run)
    p.audit(AuditKind.VERDICT, run.created_by, run.tenant, run.id, job=run.job_id, decision=judged.ruling,
            rule=judged.rule, reason=judged.reason, policy=judged.policy, request=approval.request)  # fmt: skip
    policy = p.state.of(Judging).policy
    actions = () if policy is None else policy.document.on_approval_required
    for index, action in enumerate(actions):
        try:
            notify(p, run, action, "approval_required", index)
        except ActionFailed as error:
            note_failure(p, run, action, "approval_required", error)


def resolve(p: Pass, origin: str, command: ApproveRun | RejectRun) -> None:
    """Approve or reject a run: once, in time, for what was asked, and not by who submitted it."""
    run, approves = p.asked(command), isinstance(command, ApproveRun)
    judged, actor = run.judged, command.actor or OWNER.name
    approval = None if judged is None else judged.approval
    if judged is None or approval is None:
        raise NoApproval(run.id, run.state)
    if run.state is State.APPROVAL_REQUIRED and run.due_at is not None and run.due_at <= p.now:
        expire(p, run)
    if run.state is State.PENDING and approval.approved is None:
        raise StaleApproval(run.id)
    if run.state is not State.APPROVAL_REQUIRED:
        raise AlreadyResolved(run.id, run.state, approval.by)
    if command.seen not in (None, "", seen(judged)):
        raise StaleApproval(run.id)
    asking = claimant(p, command.parent)
    askers = {actor} if asking is None else {actor, *asking.submitters}
    if approves and askers & {run.created_by, *run.submitters}:
        key = (AuditKind.SELF_APPROVAL, actor, run.id)
        p.audit(AuditKind.SELF_APPROVAL, actor, run.tenant, run.id, repeats=key, job=run.job_id)
        raise SelfApproval(run.id, actor)
    found = replace(approval, approved=approves, by=actor, at=p.now, reason=command.reason)
    run.due_at = None
    p.set_facet(run, policy=replace(judged, approval=found))
    kind = AuditKind.APPROVED if approves else AuditKind.REJECTED
    p.audit(kind, actor, run.tenant, run.id, job=run.job_id, rule=judged.rule, reason=command.reason,
            request=approval.request, policy=judged.policy)  # fmt: skip
    why = f" by {actor}: {command.reason}" if command.reason else f" by {actor}"
    if approves:
        p.move(run, State.PENDING, f"approved{why}"[:LONGEST_REASON], actor)
    else:
        deny(p, run, f"rejected{why}", actor)
    p.answer(origin, command.request, run)


def expire(p: Pass, run: Run) -> None:
    """Deny a run that nobody has approved in time. The time of a step that asks is over."""
    p.audit(AuditKind.APPROVAL_EXPIRED, "scheduler", run.tenant, run.id, job=run.job_id)
    reason = f"nobody approved it within {span(longest_wait(run))}"
    if run.job_id != APPROVAL:
        deny(p, run, reason)
        return
    run.error, run.due_at, run.outcome = reason, None, Outcome.TIMEOUT
    p.move(run, State.TIMEOUT, reason)


def deny(p: Pass, run: Run, reason: str, actor: str = "scheduler") -> None:
    run.error, run.due_at = reason[:LONGEST_REASON], None
    p.move(run, State.DENIED, reason[:LONGEST_REASON], actor)


def longest_wait(run: Run, job: Job | None = None) -> float:
    approval = None if run.judged is None else run.judged.approval
    return inf if approval is None else approval.expires_at - approval.asked_at


def stop_waiting(p: Pass, run: Run) -> None:
    p.state.of(Judging).awaiting_approval.pop(run.id, None)

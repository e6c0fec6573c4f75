"""The policy: a stage of the entry that judges whether a run may start. `core/policy/approvals.py` has its approvals.

    pending ─► approval_required ─► pending      a person approved it; it is judged again
       │               └─► denied                rejected, or nobody answered in time
       ├─► denied
       └─► the next stage

The policy of this process answers within the step. A remote one is asked by an effect, and a large payload is read by
one; the run stays pending meanwhile. A throttled run, and one whose policy cannot be reached, stay pending until
`due_at`. When the policy changes, every run that has not been dispatched is judged again.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec.structs import replace

from interlock.core import effects
from interlock.core.effects import PendingEffects
from interlock.core.facts import Snapshot
from interlock.core.lanes.gate import POLICY_LIMIT
from interlock.core.part import for_special_runs
from interlock.core.policy.approvals import LONGEST_REASON, ask_approval, deny
from interlock.core.policy.judge_state import Judging, ThisPass, is_judged
from interlock.core.sessions.turns import let_others_pass
from interlock.core.state import JUMP, RUNTIME, WAIT, SchedulerState
from interlock.core.transition import Pass
from interlock.fields.duration import checked, span
from interlock.fields.payload import EMPTY
from interlock.fields.secret import has_secret
from interlock.model.audit import AuditKind
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.facets import Allowed, Judged
from interlock.model.job import Job
from interlock.model.labels import BYPASSED
from interlock.model.policy.verdict import STRICTNESS, PolicyRequest, Ruling, RunLimits, Verdict
from interlock.model.run import Now, Run
from interlock.model.state import GUARDED, State
from interlock.model.workflow import APPROVAL
from interlock.policy.expression import Meter
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows
from interlock.wire.command import PolicyMoved
from interlock.wire.effect import CheckPolicy, Effect, ReadPayload

SEARCHED = 10  # cost of the search for secrets in one byte
MOST_RESUMED = 100  # runs left by earlier passes that one pass takes up: each may need its payload read
THROTTLED = 5.0  # seconds until a throttled run is judged again
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds until a policy that was not reachable is asked again
MEMO = "policy"  # digest of the policy that judged the waiting runs
CHANGED = "the policy has changed"
SERVICE = "policy service"  # actor of its changes
REFUSALS = (Ruling.DENY, Ruling.THROTTLE)
JOINED = "it has the payloads of several runs, which the policy now judges one by one; submit them again"
UNSURE = GUARDED | {State.DISPATCHED}


@for_special_runs
def judge(p: Pass, run: Run) -> bool:
    """Judge a run that is due; a stage of the entry."""
    state = p.state
    judging = state.of(Judging)
    policy = judging.policy
    if policy is None and not state.limits.remote_policy:
        if run.facets is not None and run.facets.policy is not None:
            p.set_facet(run, policy=None)
        return False
    this = p.of(ThisPass)
    if run.id in this.passed:
        return False
    judging.unjudged.discard(run.id)
    if run.judged is not None and run.judged.waits and run.due_at is not None:
        return True
    if this.cost >= state.limits.policy_cost:
        judging.to_judge[run.id] = run
        return True
    payloads = this.payloads.get(run.id) or (() if run.payload is None or run.has_collected else (run.payload,))
    effect: Effect
    if not payloads:
        effect = ReadPayload(run.id, run.seq)
    elif policy is None or state.limits.remote_policy:
        effect = CheckPolicy(run.id, run.seq, _requests(p, run, payloads), again=not _is_new(run))
    else:
        windows, requests = judging.windows if _is_new(run) else None, _requests(p, run, payloads)
        return not _apply(p, run, requests[-1], _ask_policy(p, policy, requests, windows))
    if effect not in state.of(PendingEffects).pending:
        effects.ask(p, effect)
    return True


def resume(p: Pass) -> None:
    """Judge runs that were left to this pass, before those that have just come."""
    waiting, this = p.state.of(Judging).to_judge, p.of(ThisPass)
    if waiting:
        p.settle()  # those that have ended give up their places first
        later, p.entering = p.entering, []
        for run_id in list(islice(waiting, MOST_RESUMED)):
            if this.cost < p.state.limits.policy_cost:
                p.entering.append(waiting.pop(run_id))
                p.enter()
        p.entering += later


def _ask_policy(p: Pass, policy: Policy, requests: Sequence[PolicyRequest], windows: Windows | None) -> Verdict:
    """Return the verdict of the policy of this process."""
    meter = Meter()
    verdicts = [policy.judge(request, windows, p.elapsed, meter) for request in requests]
    if meter.cost:
        p.of(ThisPass).cost += meter.cost
    return _combine(verdicts)


def _combine(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the strictest verdict on the payloads of a run. Deny it if the policy cannot judge them together."""
    if len(verdicts) == 1:
        return verdicts[0]
    found = max(verdicts, key=lambda verdict: STRICTNESS.index(verdict.ruling))
    if found.ruling is Ruling.ASK or any(verdict.limits != found.limits for verdict in verdicts):
        # Nobody would see what they approve, and one run cannot obey several limits.
        found = replace(found, ruling=Ruling.DENY, reason=JOINED)
    return found


def _is_new(run: Run) -> bool:
    """Return whether a run was never let pass before, so that a velocity counts it."""
    if run.previous is State.APPROVAL_REQUIRED:
        judged = run.judged
        return run.attempt == 0 and judged is not None and judged.approval is not None and not judged.approval.approved
    return run.attempt == 0 and run.previous in (None, State.PRERUN)


def _requests(p: Pass, run: Run, payloads: Sequence[bytes]) -> tuple[PolicyRequest, ...]:
    """Return what the policy sees of a run: one request for each payload. Look for secrets only for a policy that asks
    for them."""
    job, policy = p.state.job_of(run), p.state.of(Judging).policy
    looks = p.state.limits.remote_policy or (policy is not None and policy.needs_secrets)
    if not looks:
        return tuple([request_of(job, run, payload, False) for payload in payloads])
    p.of(ThisPass).cost += SEARCHED * sum(map(len, payloads))
    names = p.state.limits.secret_names
    return tuple([request_of(job, run, payload, has_secret(payload, job.secrets, names)) for payload in payloads])


def request_of(job: Job, run: Run, payload: bytes, secrets: bool) -> PolicyRequest:
    """Return what the policy sees of a run with this payload."""
    facets, (*behind, actor) = run.facets, run.submitters
    own = None if facets is None else facets.priority
    return PolicyRequest(
        job=run.job_id,
        topic=job.policy_topic,
        tenant=run.tenant,
        actor=actor,
        behind=tuple(behind),
        priority=own or job.priority,
        lane=run.lane,
        session=run.session,
        origin=run.origin,
        capabilities=job.capabilities,
        risk_tags=job.risk_tags,
        requires=job.requires,
        labels=run.labels,
        job_version=run.job_version,
        payload=payload,
        secrets=secrets,
    )


def payload_read(p: Pass, run: Run, answer: tuple[bytes, ...]) -> None:
    p.of(ThisPass).payloads[run.id] = answer
    p.entering.append(run)


def policy_answered(p: Pass, run: Run, answer: tuple[Sequence[PolicyRequest], Sequence[Verdict] | str]) -> None:
    """Apply the verdicts of a remote policy; without them, follow the fail mode."""
    requests, verdicts = answer
    if isinstance(verdicts, str):
        passes = _unanswered(p, run, requests[-1], verdicts)
    elif len({p.state.of(Judging).digest or verdicts[0].policy, *(verdict.policy for verdict in verdicts)}) > 1:
        _pause(p, run, "the policy changed while it was asked")
        return
    else:
        passes = _apply(p, run, requests[-1], _combine(verdicts))
    if passes:
        p.of(ThisPass).passed.add(run.id)
        p.entering.append(run)


def _unanswered(p: Pass, run: Run, request: PolicyRequest, why: str) -> bool:
    """Let a run pass without a verdict if the settings say so, or if it undoes a step, but not while the scheduler
    stops; else ask later."""
    p.count("policy_unavailable_total", request.topic)
    if (p.state.limits.policy_fails_open or run.is_compensation) and not p.state.draining:
        p.set_facet(run, labels={**run.labels, BYPASSED: "true"}, policy=None)
        run.allowed_by = None
        p.warnings.append(f"run {run.id} starts without a verdict: {why}")
        _audit(p, run, AuditKind.BYPASSED, why=why, topic=request.topic)
        p.count("input_fail_open_total", request.topic)
        p.cleared_because[run.id] = f"no verdict ({why}), and the policy fails open"
        return True
    _pause(p, run, f"the policy cannot be reached: {why}")
    return False


def _pause(p: Pass, run: Run, why: str) -> None:
    """Ask the remote policy again later."""
    tries = 0 if run.judged is None else run.judged.tries
    pause = min(FIRST_PAUSE * 2 ** min(tries, 10), LONGEST_PAUSE)
    _wait(p, run, replace(run.judged or Judged(Ruling.DENY), reason=why[:LONGEST_REASON], tries=tries + 1), pause)


def _wait(p: Pass, run: Run, judged: Judged, pause: float) -> None:
    """Keep a run pending for a while, out of its session if it has not begun."""
    p.set_facet(run, policy=replace(judged, waits=True))
    p.state.of(Judging).deferred[run.id] = run
    run.due_at = p.now + pause
    p.state.set_span(p.elapsed + pause, run, WAIT)
    let_others_pass(p, run)


def _apply(p: Pass, run: Run, request: PolicyRequest, verdict: Verdict) -> bool:
    """Carry out a verdict; return whether the run goes on."""
    ruling, known = verdict.ruling, run.judged
    p.count("rule_verdicts_total", verdict.rule, ruling)
    if verdict.notes:
        _audit(p, run, AuditKind.VERDICT, (verdict.rule, *verdict.notes), decision=ruling, notes=verdict.notes)
    before, run.allowed_by = run.allowed_by, None
    if ruling is Ruling.ALLOW:
        run.allowed_by, p.cleared_because[run.id] = _plain_allow(verdict.rule, verdict.policy)
        if known is None:
            if run.allowed_by != before:
                p.touch(run)
            return True
    given = None if known is None or known.policy != verdict.policy else known.approval
    given = given if given is not None and given.approved else None
    judged = Judged(ruling, verdict.rule, verdict.reason, verdict.policy, verdict.limits, given)
    if ruling is Ruling.ALLOW:
        p.set_facet(run, policy=None if given is None else judged)
        return True
    if ruling is Ruling.CONSTRAIN:
        if known != judged:
            p.set_facet(run, policy=judged)
            _record(p, run, verdict)
            _limit_run_time(p, run, None if known is None else known.limits)
        p.cleared_because[run.id] = f"allowed with limits by {_source(verdict.rule, verdict.policy)}"
        return True
    if ruling is Ruling.ASK:
        return ask_approval(p, run, request, judged)
    _record(p, run, verdict)
    if ruling is Ruling.THROTTLE:
        _wait(p, run, judged, THROTTLED)
    else:
        p.set_facet(run, policy=judged)
        deny(p, run, f"denied by {_source(verdict.rule, verdict.policy)}: {verdict.reason}")
    return False


@lru_cache(1024)
def _plain_allow(rule: str, policy: str) -> tuple[str, str]:
    """Return what most runs share: the text of `Allowed`, and why they go on."""
    return Allowed(rule, policy).text, f"allowed by {_source(rule, policy)}"


def _limit_run_time(p: Pass, run: Run, before: RunLimits | None) -> None:
    """Let a new limit count from the first start of a run that has begun."""
    longest = run.limits.max_runtime
    if run.started_at is not None and longest is not None and (before is None or before.max_runtime != longest):
        left = min(run.started_at - p.now, 0.0) + checked(longest)
        p.state.set_span(p.elapsed + left, run, RUNTIME)


def _source(rule: str, policy: str) -> str:
    return f"{f'rule {rule}' if rule else 'the default'} of policy {policy}"


def _record(p: Pass, run: Run, verdict: Verdict) -> None:
    p.count("verdicts_total", p.state.job_of(run).policy_topic, verdict.ruling)
    kinds = (verdict.ruling, verdict.rule)
    _audit(
        p, run, AuditKind.VERDICT, kinds,
        decision=verdict.ruling, rule=verdict.rule, reason=verdict.reason, policy=verdict.policy,
    )  # fmt: skip


def _audit(p: Pass, run: Run, kind: AuditKind, repeats: tuple[str, ...] = (), **detail: Any) -> None:
    """Audit something about a run. A refusal that repeats one of its job, for the same submitter, only counts."""
    key = (kind, run.job_id, run.tenant, run.created_by, *repeats) if detail.get("decision") in REFUSALS else None
    p.audit(kind, run.created_by, run.tenant, run.id, repeats=key, job=run.job_id, **detail)


def time_passed(p: Pass, run: Run) -> None:
    """Judge a run again after a pause, unless a new pause began before this one ended."""
    if run.due_at is not None and run.due_at <= p.now + JUMP:
        _end_pause(p, run)


def _end_pause(p: Pass, run: Run) -> None:
    assert run.judged is not None
    run.due_at = None
    p.state.of(Judging).deferred.pop(run.id, None)
    p.set_facet(run, policy=replace(run.judged, waits=False))
    p.entering.append(run)


def adopt_policy(p: Pass, policy: Policy | None, is_start: bool, actor: str) -> None:
    """Take the declared policy, and judge waiting runs again if it is a new one. Runs whose constraints are being
    checked, and runs on a worker, are judged again when they come back: the store does not show which policy judged
    them. It does not show either whether a remote policy changed while no scheduler ran."""
    state = p.state
    state.of(Judging).policy = policy
    if is_judged(state):
        state.of(Judging).unjudged = {run.id for run in state.runs.values() if run.state in UNSURE}
    if not state.limits.remote_policy:
        _note_digest(p, "" if policy is None else policy.digest, actor)
    elif is_start:
        for run in [run for run in state.runs.values() if run.state is State.SCHEDULED]:
            p.move(run, State.PENDING, "the policy may have changed")


def policy_moved(p: Pass, origin: str, command: PolicyMoved) -> None:
    """Judge waiting runs again because the remote policy has changed."""
    _note_digest(p, command.digest, SERVICE)


def _note_digest(p: Pass, digest: str, actor: str) -> None:
    state = p.state
    if digest == state.of(Judging).digest:
        return
    p.audit(AuditKind.POLICY_CHANGED, actor, "", digest, before=state.of(Judging).digest, after=digest)
    state.of(Judging).digest = digest
    p.keep_memo(MEMO, digest.encode() or None)
    for name, gate in state.gates.items():
        if name.startswith(POLICY_LIMIT):
            gate.let_try(state, len(state.runs))  # its limit may have risen
    for run in list(state.runs.values()):
        if run.state is State.APPROVAL_REQUIRED and run.job_id != APPROVAL:
            run.due_at = None
            p.move(run, State.PENDING, CHANGED)
        elif run.state is State.SCHEDULED and not _stays_allowed(p, run):
            p.move(run, State.PENDING, CHANGED)
        elif run.state in UNSURE:
            state.of(Judging).unjudged.add(run.id)
        elif run.state is State.PENDING and run.judged is not None and run.judged.waits:
            _end_pause(p, run)


def _stays_allowed(p: Pass, run: Run) -> bool:
    """Return whether the policy certainly still allows a scheduled run without conditions."""
    state, policy = p.state, p.state.of(Judging).policy
    if state.limits.remote_policy or run.judged is not None or p.of(ThisPass).cost >= p.state.limits.policy_cost:
        return False
    if policy is None:
        return True
    if policy.needs_payload and (run.payload is None or run.has_collected):
        return False
    requests = _requests(p, run, (run.payload or EMPTY,))
    return _ask_policy(p, policy, requests, None).ruling is Ruling.ALLOW


def stop_waiting(p: Pass, run: Run) -> None:
    p.state.of(Judging).deferred.pop(run.id, None)


def has_pause(run: Run) -> bool:
    return run.judged is not None and run.judged.waits


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    state.of(Judging).digest = snapshot.memos.get(MEMO, b"").decode()


def place(state: SchedulerState, run: Run, now: Now) -> None:
    judging = state.of(Judging)
    if run.state is State.APPROVAL_REQUIRED:
        judging.awaiting_approval[run.id] = run
    elif run.state is State.PENDING and run.due_at is not None and has_pause(run):
        judging.deferred[run.id] = run
    if run.state in UNSURE and is_judged(state):
        judging.unjudged.add(run.id)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain a wait for the verdict, for an approval, or after a verdict."""
    judged, kind = run.judged, ReasonKind.POLICY
    if run.state is State.APPROVAL_REQUIRED and judged is not None and run.due_at is not None:
        at = run.due_at + state.jump(now)
        asks = judged.reason if run.job_id == APPROVAL else f"rule {judged.rule}: {judged.reason}"
        text = f"waits for an approval ({asks}), for {span(at - now.wall)} more"
        yield Reason(kind=ReasonKind.APPROVAL, text=text, name=judged.rule, since=run.changed_at, at=at)
    elif run.state is State.PENDING and judged is not None and judged.waits and run.due_at is not None:
        why = f"is throttled by rule {judged.rule}" if judged.ruling is Ruling.THROTTLE else f"waits: {judged.reason}"
        at = run.due_at + state.jump(now)
        text = f"{why}; it is judged again in {span(at - now.wall)}"
        yield Reason(kind=kind, text=text, name=judged.rule or None, at=at)
    elif run.state is State.PENDING and is_judged(state) and not run.is_held:
        yield Reason(kind=kind, text="waits for the verdict of the policy", since=run.changed_at)

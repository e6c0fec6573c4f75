"""Policies that judge the runs of a seed, in the scheduler or as a service, and what must hold of them.

Whatever is dispatched passes the policy in force, or somebody else than its submitter has approved exactly that under
that policy. An approval is given in time and once. Limits hold. The audit has every denial and approval, in one chain.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from interlock.core.audit import COUNTED, HEAD, RepeatedEntry
from interlock.core.decisions import Batch, Decisions, Failed
from interlock.core.policy.judge import request_of
from interlock.core.policy.judge_state import Judging
from interlock.core.state import JUMP, SchedulerState
from interlock.error import PolicyUnavailable
from interlock.model.audit import AuditHead, AuditKind, verify
from interlock.model.labels import BYPASSED
from interlock.model.policy.document import Match, PolicyDocument, Rule, Velocity
from interlock.model.policy.verdict import NO_LIMITS, PolicyRequest, Ruling, RunLimits, Verdict
from interlock.model.run import Run, Transition
from interlock.model.state import HOLDS_SLOT, State
from interlock.policy.policy import Policy, request_hash
from interlock.policy.velocity import Windows
from interlock.wire.approval_request import ApproveRun, RejectRun
from interlock.wire.request import ValueAnswer
from soak.simulation.lanes import Lanes
from soak.simulation.scenario import APPROVAL_TIMEOUT
from soak.simulation.store import Disk

KIND = "kind"  # label that says how the policies treat a run
KINDS = ("denied", "asked", "fast", "small", "free")
LOOK = 5.0  # seconds between two looks at the digest of the service
SLACK = 2 * JUMP
APPROVER = "approver"
_OUTCOMES = {
    "approved by": str(AuditKind.APPROVED),
    "rejected by": str(AuditKind.REJECTED),
    "nobody approved": str(AuditKind.APPROVAL_EXPIRED),
}
"""how the reason for the end of a wait begins → what that is in the audit"""


def _rule(kind: str, decision: Ruling, reason: str = "", **fields: Any) -> Rule:
    return Rule(id=kind, match=Match(labels={KIND: kind}), decision=decision, reason=reason, **fields)


def _small(most: int) -> Rule:
    return _rule("small", Ruling.CONSTRAIN, limits=RunLimits(max_concurrent=most, max_retries=1, max_runtime=4.0))


COSTLY = Rule(id="costly", when="has(payload.nothing)", decision=Ruling.DENY)
COST = 3000  # of the expressions that one pass evaluates: one or two


_DOCUMENTS = (
    PolicyDocument(
        id="mild",
        default_decision=Ruling.ALLOW,
        rules=(
            COSTLY,
            _rule("denied", Ruling.DENY),
            _rule("asked", Ruling.ASK),
            _rule("fast", Ruling.THROTTLE, velocity=Velocity(max_requests=2, window=6.0)),
            _small(1),
        ),
    ),
    PolicyDocument(
        id="strict",
        default_decision=Ruling.ALLOW,
        rules=(
            _rule("denied", Ruling.DENY, "still"),
            _rule("asked", Ruling.DENY),
            _rule("fast", Ruling.DENY),
            _rule("free", Ruling.ASK),
            _small(2),
            Rule(id="narrow", match=Match(topics=("narrow",)), decision=Ruling.ASK),
            Rule(id="plain", match=Match(topics=("plain", "ticking")), decision=Ruling.DENY),
        ),
    ),
    PolicyDocument(
        id="other",
        default_decision=Ruling.ALLOW,
        rules=(
            COSTLY,
            Rule(id="large", match=Match(labels={KIND: "free"}, payload_over=300), decision=Ruling.DENY),
            _rule("denied", Ruling.ASK),
            _rule("asked", Ruling.ASK, "another reason"),
            _rule("fast", Ruling.ASK, velocity=Velocity(max_requests=1, window=6.0)),
            _small(1),
        ),
    ),
)
_STRICTNESS = (Ruling.ALLOW, Ruling.CONSTRAIN, Ruling.THROTTLE, Ruling.ASK, Ruling.DENY)
POLICIES = tuple(Policy(one) for one in _DOCUMENTS)
BY_DIGEST = {one.digest: one for one in POLICIES}


class PolicyService:
    """A policy that is elsewhere. While there are faults it is slow, silent, refuses, or starts with another policy."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._windows = Windows()
        self.current = 0
        self.well = False  # whether it answers everything
        self.given: set[tuple[str, str]] = set()  # hashes of requests with a verdict, and the policies that gave it

    async def check(self, requests: Sequence[PolicyRequest], again: bool, now: float) -> tuple[str, list[Verdict]]:
        rng = self._rng
        await asyncio.sleep(rng.uniform(0.001, 0.3))
        chance = 0.0 if self.well else rng.random()
        if chance > 0.9:
            await asyncio.sleep(2.0)
            raise PolicyUnavailable("no answer within 2s")
        if chance > 0.75:
            if chance > 0.85:
                self.current, self._windows = rng.randrange(len(POLICIES)), Windows()
            raise PolicyUnavailable("refused")
        policy = POLICIES[self.current]
        verdicts = [policy.judge(request, None if again else self._windows, now) for request in requests]
        self.given |= {(request_hash(request), policy.digest) for request in requests}
        await asyncio.sleep(rng.uniform(0.001, 0.1 if self.well else 1.0))
        return policy.digest, verdicts


class ServiceClient:
    """The service as one start of the scheduler asks it. Of two answers, that of the later call shows its policy."""

    def __init__(self, service: PolicyService, on_moved: Callable[[str], None], now: Callable[[], float]) -> None:
        self._service = service
        self._on_moved = on_moved
        self._now = now
        self._calls = self._shown_by = 0

    async def check(self, requests: Sequence[PolicyRequest], again: bool) -> list[Verdict]:
        self._calls += 1
        call = self._calls
        digest, verdicts = await self._service.check(requests, again, self._now())
        if call > self._shown_by:
            self._shown_by = call
            self._on_moved(digest)
        return verdicts

    async def watch(self) -> None:
        while True:
            try:
                await self.check((), False)
            except PolicyUnavailable:
                await asyncio.sleep(0.5)
            await asyncio.sleep(LOOK)


class Answer(msgspec.Struct):
    """An answer of an approver, and whether it must be refused."""

    command: ApproveRun | RejectRun
    is_stale: bool


class Policies:
    def __init__(self, disk: Disk, lanes: Lanes, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._lanes = lanes
        self._require = require
        self.is_on = self.fails_open = False
        self.service: PolicyService | None = None
        self.sent: dict[int, Answer] = {}  # answers of approvers, by number
        self.loaded = 0.0  # elapsed time at which a scheduler last read its state
        self._passes: dict[int, tuple[Batch, str]] = {}  # pass that is not stored → digest of the policy in force
        self._approved: dict[str, tuple[str, str]] = {}  # run → request and policy that were approved
        self._asks: Counter[str] = Counter()
        self._resolved: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()

    def decided(self, state: SchedulerState, batch: Batch) -> None:
        if self.is_on:
            policy = state.of(Judging).policy
            here = "" if policy is None else policy.digest
            self._passes[id(batch)] = batch, here if self.service is None else state.of(Judging).digest

    def after(self, batch: Batch) -> None:
        if not self.is_on:
            return
        _, digest = self._passes.pop(id(batch))
        for entry in batch.audit:
            if entry.kind is AuditKind.APPROVED:
                self._approved[entry.subject] = entry.detail["request"], entry.detail["policy"]
        happened: Counter[str] = Counter()
        for run_id, moves in batch.history:
            run = self._disk.runs_by_id[run_id]
            for move in moves:
                happened[self._check_move(run, move, digest)] += 1
        self.seen += happened
        self.seen["throttled"] += sum(one.detail.get("decision") == Ruling.THROTTLE for one in batch.audit)
        audited = Counter("asked" if one.detail.get("decision") == Ruling.ASK else str(one.kind) for one in batch.audit)
        for kind in ("asked", *_OUTCOMES.values()):
            text = f"{happened[kind]} runs were {kind}, and the audit has {audited[kind]}"
            self._require(happened[kind] == audited[kind], text)

    def _check_move(self, run: Run, move: Transition, digest: str) -> str:
        """Return what the policy or an approver did here, if anything."""
        if move.after is State.DISPATCHED:
            self._check_dispatch(run, digest)
        elif move.after is State.APPROVAL_REQUIRED:
            self._asks[run.id] += 1
            return "asked"
        elif move.before is State.APPROVAL_REQUIRED:
            outcome = next((kind for text, kind in _OUTCOMES.items() if move.reason.startswith(text)), "")
            self._check_time(run, move, outcome)
            if outcome == AuditKind.APPROVED:
                self._require(move.actor != run.created_by, f"{run.id} is approved by {move.actor}, who submitted it")
            return outcome
        elif move.after is State.DENIED and move.before is not State.UNDER_WAY:  # a workflow whose step is denied
            self._require(move.reason.startswith("denied by "), f"{run.id} is denied: {move.reason}")
            ruling = self._verdict(run, digest).ruling
            self._require(not digest or ruling is Ruling.DENY, f"{run.id} is denied, policy {digest} says {ruling}")
            return "denied"
        elif move.after is State.RETRYING and move.before is State.TERMINATING:
            most = run.limits.max_retries
            self._require(most is None or run.failures <= most, f"{run.id} is retried, its verdict allows {most}")
        return ""

    def _requests(self, run: Run) -> list[PolicyRequest]:
        """Return what the policy must judge of a run: each of its payloads."""
        job = self._disk.job_versions[run.job_version]
        payloads = (run.payload or b"{}", *self._disk.further.get(run.id, {}).values())
        labels = {name: value for name, value in run.labels.items() if name != BYPASSED}
        return [msgspec.structs.replace(request_of(job, run, payload, False), labels=labels) for payload in payloads]

    def _verdict(self, run: Run, digest: str) -> Verdict:
        """Return the strictest verdict. Runs that were joined are denied if somebody would have to approve them, or if
        they have different limits."""
        policy = BY_DIGEST.get(digest)
        if policy is None:
            return Verdict(ruling=Ruling.ALLOW)
        verdicts = [policy.judge(request, None, 0.0) for request in self._requests(run)]
        found = max(verdicts, key=lambda one: _STRICTNESS.index(one.ruling))
        is_split = found.ruling is Ruling.ASK or any(verdict.limits != found.limits for verdict in verdicts)
        return msgspec.structs.replace(found, ruling=Ruling.DENY) if run.has_collected and is_split else found

    def _check_dispatch(self, run: Run, digest: str) -> None:
        if run.facets is not None and BYPASSED in (run.facets.labels or {}):
            self._require(self.fails_open, f"{run.id} starts without a verdict, and the policy fails closed")
            self.seen["bypassed"] += 1
            return
        verdict, requests = self._verdict(run, digest), [request_hash(one) for one in self._requests(run)]
        request = requests[-1]
        if self.service is not None and digest:
            given = {(one, digest) for one in requests} <= self.service.given
            self._require(given, f"{run.id} starts without a verdict of policy {digest}")
        self.seen["started as joined"] += run.has_collected
        if verdict.ruling is Ruling.ASK:
            approved = self._approved.get(run.id)
            self._require(approved == (request, digest), f"{run.id} starts, policy {digest} asks, approved: {approved}")
            self.seen["started as approved"] += 1
        else:
            passes = verdict.ruling in (Ruling.ALLOW, Ruling.CONSTRAIN)
            self._require(passes, f"{run.id} starts, policy {digest} says {verdict.ruling}")
        if digest:
            limits = verdict.limits or NO_LIMITS
            self._require(run.limits == limits, f"{run.id} starts with {run.limits}, policy {digest} says {limits}")
        if run.judged is not None and run.limits.max_concurrent is not None:
            rule, most = run.judged.rule, run.limits.max_concurrent
            live = [one.id for one in self._disk.runs_by_id.values() if one.state in HOLDS_SLOT and _counts(one, rule)]
            self._require(len(live) <= most, f"{len(live)} runs execute under rule {rule}, which allows {most}")
            self.seen["limited"] += 1

    def _check_time(self, run: Run, move: Transition, outcome: str) -> None:
        """Check that an answer comes in time, and that no wait ends early. A start goes by the wall clock."""
        entries = self._disk.entries[run.id][: move.seq - 1]
        elapsed = self._lanes.elapsed
        asked = next(elapsed[entry.at] for entry in reversed(entries) if entry.after is State.APPROVAL_REQUIRED)
        lasted = elapsed[move.at] - asked
        if asked > min(self.loaded, self._lanes.jumped):
            text = f"{run.id} is {outcome} after {lasted:.3f}s, it had {APPROVAL_TIMEOUT:g}s"
            if outcome in (AuditKind.APPROVED, AuditKind.REJECTED):
                self._require(lasted <= APPROVAL_TIMEOUT + SLACK, text)
            elif outcome == AuditKind.APPROVAL_EXPIRED:
                self._require(lasted >= APPROVAL_TIMEOUT - SLACK, text)

    def answered(self, decisions: Decisions) -> None:
        """Look at the answers that approvers got."""
        for origin, answer in decisions.answers if self.is_on else ():
            sent = self.sent.get(getattr(answer, "request", 0)) if origin == APPROVER else None
            if sent is None:
                continue
            run_id = sent.command.run_id
            if isinstance(answer, ValueAnswer):
                self._resolved[run_id] += 1
                self._require(not sent.is_stale, f"an approver of {run_id} saw something else, and was obeyed")
                asks = self._asks[run_id]
                self._require(self._resolved[run_id] <= asks, f"{run_id} was resolved more often than asked, {asks}")
            elif isinstance(answer, Failed):
                self.seen[answer.error.code] += 1

    def check_rest(self) -> None:
        if not self.is_on:
            return
        entries, memos = self._disk.audit_log, self._disk.memos
        report = verify(entries, msgspec.json.decode(memos[HEAD], type=AuditHead))
        self._require(not report.faults, f"the audit is broken: {report.faults}")
        counted = [msgspec.json.decode(memos[name], type=RepeatedEntry) for name in memos if name.startswith(COUNTED)]
        found = [(entry.detail, entry.count) for entry in entries] + [(one.detail, one.count) for one in counted]
        denied = sum(count for detail, count in found if detail.get("decision") == Ruling.DENY)
        self._require(denied == self.seen["denied"], f"the audit has {denied} denials of {self.seen['denied']}")


def _counts(run: Run, rule: str) -> bool:
    return run.judged is not None and run.judged.rule == rule and run.limits.max_concurrent is not None

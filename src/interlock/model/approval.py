"""Views of verdicts, and of the answers of approvers."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.fields.field import copy_fields, doc
from interlock.fields.json_form import Time
from interlock.model.facets import Allowed, Approval, Judged
from interlock.model.policy.verdict import Ruling

Why = Annotated[str, doc("Reason that the rule gives.")]
RuleId = Annotated[
    str, doc("Rule that decided; empty for the default, a list or a filter, and for a step of a workflow that asks.")
]
Digest = Annotated[str, doc("Digest of the policy; empty for a step of a workflow that asks.")]


class AnswerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an approver."""

    approved: Annotated[bool, doc("Whether the run may start.")]
    by: Annotated[str, doc("Who answered.")]
    at: Annotated[Time, doc("Time of the answer.")]
    reason: Annotated[str, doc("Reason that the approver gave.")]


class Approved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step of a workflow that somebody has approved."""

    by: str
    at: datetime
    reason: str = ""


class VerdictInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The latest verdict of the policy on a run."""

    decision: Annotated[Ruling, doc("Decision.")]
    rule: RuleId
    reason: Why
    policy: Digest
    limits: Annotated[dict[str, Any], doc("Limits of the run by name, with durations in seconds.")] = {}
    asked_at: Annotated[Time | None, doc("Time at which an approval was asked for.")] = None
    expires_at: Annotated[Time | None, doc("Time until which an approver could answer.")] = None
    answer: Annotated[AnswerInfo | None, doc("Answer of the approver; null if there is none.")] = None


def verdict_of(judged: Judged | None, allowed: Allowed | None) -> VerdictInfo | None:
    if judged is None:
        if allowed is None:
            return None
        return VerdictInfo(decision=Ruling.ALLOW, rule=allowed.rule, reason="", policy=allowed.policy)
    asked = judged.approval
    return copy_fields(
        VerdictInfo,
        judged,
        decision=judged.ruling,
        limits={} if judged.limits is None else msgspec.to_builtins(judged.limits),
        asked_at=None if asked is None else asked.asked_at,
        expires_at=None if asked is None else asked.expires_at,
        answer=None if asked is None else answer_of(asked),
    )


def answer_of(given: Approval) -> AnswerInfo | None:
    if given.approved is None or given.at is None:
        return None
    return AnswerInfo(approved=given.approved, by=given.by, at=given.at, reason=given.reason)

"""Views of approvals: the same values from Python, over HTTP and on the command line."""

from typing import Annotated, Any

import msgspec

from interlock.error import NoApproval
from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.approval import AnswerInfo, Digest, RuleId, Why, answer_of
from interlock.model.facets import Approval, Judged, seen
from interlock.model.job_info import Cursor
from interlock.model.run import Run
from interlock.model.state import State


class ApprovalInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run for which an approval was asked."""

    run_id: Annotated[str, doc("Run.")]
    job_id: Annotated[str, doc("Job of the run.")]
    tenant: Annotated[str, doc("Tenant of the run.")]
    rule: RuleId
    reason: Why
    created_by: Annotated[str, doc("Who submitted the run, and so cannot approve it.")]
    submitters: Annotated[
        tuple[str, ...], doc("Everybody on whose behalf it runs, the latest last; none of them can approve it.")
    ] = ()
    asked_at: Annotated[Time, doc("Time at which the approval was asked for.")]
    expires_at: Annotated[Time, doc("Time at which the run is denied if nobody answers.")]
    labels: Annotated[dict[str, str], doc("Labels of the run.")]
    seen: Annotated[
        str, doc("Names the request and the policy as you see them; send it back to approve exactly these.")
    ]


class RunCount(msgspec.Struct, frozen=True, kw_only=True):
    job_id: Annotated[str, doc("Job.")]
    state: Annotated[State, doc("State.")]
    count: Annotated[int, doc("Runs of the job in that state.")]


class ApprovalDetail(ApprovalInfo, frozen=True, kw_only=True):
    """A run for which an approval was asked, and what an approver needs to know."""

    state: Annotated[State, doc("State of the run.")]
    payload: Annotated[Any, doc("Arguments; secrets are shown as `•••`.")]
    topic: Annotated[str, doc("Topic of the job.")]
    capabilities: Annotated[tuple[str, ...], doc("Abilities that the run uses.")]
    risk_tags: Annotated[tuple[str, ...], doc("Risks of the run.")]
    requires: Annotated[tuple[str, ...], doc("Things that the run needs.")]
    policy: Digest
    request: Annotated[str, doc("Hash of the request.")]
    answer: Annotated[AnswerInfo | None, doc("Answer of the approver; null until there is one.")]
    recent: Annotated[
        list[RunCount], doc("Other runs of the same submitter in the last 24 hours, by job and state; most first.")
    ]
    recent_complete: Annotated[
        bool, doc("Whether `recent` counts all of them; it looks at the newest 1,000 of the submitter's runs at most.")
    ]


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of approvals."""

    approvals: Annotated[list[ApprovalInfo], doc("Runs that wait for an approval, newest first.")]
    next: Cursor


def info_of(run: Run) -> ApprovalInfo:
    return ApprovalInfo(**_asked(run))


def detail_of(run: Run, **more: Any) -> ApprovalDetail:
    judged, approval = approval_of(run)
    more |= {"state": run.state, "policy": judged.policy, "request": approval.request, "answer": answer_of(approval)}
    return ApprovalDetail(**_asked(run), **more)


def approval_of(run: Run) -> tuple[Judged, Approval]:
    """Return the verdict that asked for an approval, and the approval."""
    judged = run.judged
    if judged is None or judged.approval is None:
        raise NoApproval(run.id, run.state)
    return judged, judged.approval


def _asked(run: Run) -> dict[str, Any]:
    judged, approval = approval_of(run)
    return {
        "run_id": run.id, "job_id": run.job_id, "tenant": run.tenant, "rule": judged.rule, "reason": judged.reason,
        "created_by": run.created_by, "submitters": run.submitters, "asked_at": approval.asked_at,
        "expires_at": approval.expires_at, "labels": run.labels, "seen": seen(judged),
    }  # fmt: skip

"""Operations of approvers: the answer to an approval, and the release of a quarantined output."""

from typing import Annotated, ClassVar, Generic, TypeVar

from msgspec import Meta

from interlock import error as e
from interlock.fields.field import doc
from interlock.model.access import Permission
from interlock.model.bulk import ActedOn
from interlock.wire.operation import Http, Order

A_co = TypeVar("A_co", covariant=True)
LONGEST_REASON = 500
WithReason = Annotated[
    Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON, pattern=r"\S")],
    doc("Reason, kept with the run and in the audit; up to 500 characters."),
]
REFUSED = (e.NoApproval, e.AlreadyResolved, e.StaleApproval)


class Resolve(Order[A_co], Generic[A_co], frozen=True):
    run_id: str
    reason: WithReason
    seen: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        doc("`seen` of the approval that you looked at; `stale` if request or policy have changed since."),
    ] = None

    permission: ClassVar = Permission.APPROVE
    once: ClassVar = True


class ApproveRun(Resolve[ActedOn], frozen=True):
    """Approve a run, so that it may start. The submitter of the run cannot approve it."""

    http: ClassVar = Http(
        "approve", "POST /runs/{run_id}/approve", "approvals", raises=(*REFUSED, e.SelfApproval), body="ResolveBody"
    )


class RejectRun(Resolve[ActedOn], frozen=True):
    """Reject a run. End a run that waits for an approval as `denied`."""

    http: ClassVar = Http("reject", "POST /runs/{run_id}/reject", "approvals", raises=REFUSED, body="ResolveBody")


class ReleaseOutput(Order[ActedOn], frozen=True):
    """Release a quarantined result. The run keeps its state, and its original result is handed out from then on.
    Nothing runs again."""

    run_id: str
    reason: WithReason

    permission: ClassVar = Permission.APPROVE
    http: ClassVar = Http(
        "release_output",
        "POST /runs/{run_id}/release-output",
        "approvals",
        raises=(e.NotQuarantined,),
        body="ReleaseBody",
    )

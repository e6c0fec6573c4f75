"""The HTTP operations of approvers, a part of the table in `operations.py`."""

from typing import Any

from interlock import error as e
from interlock.interface import queries as q
from interlock.interface.approval_view import ApprovalDetail, ApprovalPage, ReleaseBody, ResolveBody
from interlock.interface.bodies import ActedOn
from interlock.interface.operation import API, Operation
from interlock.wire.approval_request import ReleaseOutput, Resolve

RUN = f"{API}/runs/{{run_id}}"
REFUSED = (e.NoApproval, e.AlreadyResolved, e.StaleApproval)

approvals = Operation(
    f"GET {API}/approvals",
    "List approvals. Runs that wait for an approval, newest first. A page may be short although more follow: go on "
    "while `next` is not null.",
    ApprovalPage,
    query=q.ApprovalsQuery,
    name="approvals",
)
approval = Operation(
    f"GET {API}/approvals/{{run_id}}",
    "Show an approval. What would run, why an approval is needed, and what else the submitter did in the last 24 "
    "hours. An approval that was answered is shown with its answer.",
    ApprovalDetail,
    name="approval",
    raises=(e.NoApproval,),
)
approve = Operation(
    f"POST {RUN}/approve",
    "Approve a run, so that it may start. The submitter of the run cannot approve it.",
    ActedOn,
    body=ResolveBody,
    asks=Resolve,
    name="approve",
    raises=(*REFUSED, e.SelfApproval),
)
reject = Operation(
    f"POST {RUN}/reject",
    "Reject a run. End a run that waits for an approval as `denied`.",
    ActedOn,
    body=ResolveBody,
    asks=Resolve,
    name="reject",
    raises=REFUSED,
)
release_output = Operation(
    f"POST {RUN}/release-output",
    "Release a quarantined result. The run keeps its state, and its original result is handed out from then on. "
    "Nothing runs again.",
    ActedOn,
    body=ReleaseBody,
    asks=ReleaseOutput,
    name="release_output",
    raises=(e.NotQuarantined,),
)

APPROVAL_OPERATIONS: tuple[Operation[Any], ...] = (approvals, approval, approve, reject, release_output)

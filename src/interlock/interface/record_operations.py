"""The HTTP operations on deliveries, dead letters, approvals and the audit, a part of the table in `operations.py`."""

from interlock import error as e
from interlock.interface import queries as q
from interlock.interface.approval_view import ApprovalDetail, ApprovalPage, ReleaseBody, ResolveBody
from interlock.interface.bodies import ActedOn
from interlock.interface.letter_view import LetterDetail, LetterPage, LettersBody, ReplayBody
from interlock.interface.operation import API, Key, Operation, name_all
from interlock.interface.run_view import BulkInfo
from interlock.model.access import Permission
from interlock.model.audit import AuditPage
from interlock.model.delivery import DeliveryInfo, DeliveryPage
from interlock.model.letter import Dropped
from interlock.wire.approval_request import ReleaseOutput, Resolve
from interlock.wire.letter_request import DropLetters, Replay
from interlock.wire.request import StartBulk

deliveries = Operation(
    f"GET {API}/deliveries",
    "List deliveries. Webhooks that are owed or were sent, newest first. A page may be short although more follow: go "
    "on while `next` is not null.",
    DeliveryPage,
    query=q.DeliveriesQuery,
)
delivery = Operation(f"GET {API}/deliveries/{{delivery_id}}", "Show a delivery.", DeliveryInfo)

LETTERS = f"{API}/dead-letters"
LETTER = f"{LETTERS}/{{letter}}"

letters = Operation(
    f"GET {LETTERS}",
    "List dead letters. Runs that ended without success, except those that were cancelled or skipped, and messages of "
    "workers that cannot be read; newest first.",
    LetterPage,
    query=q.LettersQuery,
)
letter = Operation(
    f"GET {LETTER}",
    "Show a dead letter. The letter with its run, its history and its error.",
    LetterDetail,
)
replay = Operation(
    f"POST {LETTER}/replay",
    "Replay a dead letter. A new run with the same job, payload and tenant, or with other arguments; it passes the "
    "policy like any other. The letter stays, and names the new run. The answer is the new run.",
    ActedOn,
    status=201,
    body=ReplayBody,
    body_required=False,
    key=Key("Makes the request safe to repeat: the same key for the same letter finds the same new run."),
    asks=Replay,
    raises=(e.QueueFull, e.UnknownJob, e.BadPayload, e.PayloadTooLarge),
)
replay_many = Operation(
    f"POST {LETTERS}/replay",
    "Replay many dead letters. Those that match every field given and were not replayed. The answer comes once the "
    "request is durable: a bulk request that retries their runs, and is finished even after a restart.",
    BulkInfo,
    status=202,
    body=LettersBody,
    key=Key("Makes the request safe to repeat: the same key in a tenant is the same bulk request."),
    asks=StartBulk,
    raises=(e.IdempotencyConflict, e.Overloaded, e.UnknownJob),
)
drop_letter = Operation(
    f"DELETE {LETTER}",
    "Drop a dead letter. Its run is kept like any other.",
    Dropped,
    asks=DropLetters,
)
drop_letters = Operation(
    f"POST {LETTERS}/drop",
    "Drop many dead letters. Those that match every field given, up to 1,000 in one request: repeat it while `more` is "
    "true. Their runs are kept like any other.",
    Dropped,
    body=LettersBody,
    asks=DropLetters,
)

RUN = f"{API}/runs/{{run_id}}"
REFUSED = (e.NoApproval, e.AlreadyResolved, e.StaleApproval)

approvals = Operation(
    f"GET {API}/approvals",
    "List approvals. Runs that wait for an approval, newest first. A page may be short although more follow: go on "
    "while `next` is not null.",
    ApprovalPage,
    query=q.ApprovalsQuery,
)
approval = Operation(
    f"GET {API}/approvals/{{run_id}}",
    "Show an approval. What would run, why an approval is needed, and what else the submitter did in the last 24 "
    "hours. An approval that was answered is shown with its answer.",
    ApprovalDetail,
    raises=(e.NoApproval,),
)
approve = Operation(
    f"POST {RUN}/approve",
    "Approve a run, so that it may start. The submitter of the run cannot approve it.",
    ActedOn,
    body=ResolveBody,
    asks=Resolve,
    raises=(*REFUSED, e.SelfApproval),
)
reject = Operation(
    f"POST {RUN}/reject",
    "Reject a run. End a run that waits for an approval as `denied`.",
    ActedOn,
    body=ResolveBody,
    asks=Resolve,
    raises=REFUSED,
)
release_output = Operation(
    f"POST {RUN}/release-output",
    "Release a quarantined result. The run keeps its state, and its original result is handed out from then on. "
    "Nothing runs again.",
    ActedOn,
    body=ReleaseBody,
    asks=ReleaseOutput,
    raises=(e.NotQuarantined,),
)

audit = Operation(
    f"GET {API}/audit",
    "List the audit. Entries, oldest first; with `last`, the newest ones that match. A page may be short although more "
    "follow: go on while `next` is not null. A token of one tenant sees the entries of that tenant alone. To verify "
    "the chain, read all entries, and compare the last with `head`.",
    AuditPage,
    query=q.AuditQuery,
    permission=Permission.AUDIT,
)

name_all(vars())

"""The operations on deliveries, dead letters, approvals and the audit that the gateway carries out."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta

from interlock import error as e
from interlock.fields.field import doc
from interlock.interface.approval_view import ApprovalDetail, ApprovalPage
from interlock.interface.letter_view import LetterDetail, LetterPage
from interlock.interface.operation import PageCursor, PageRequest
from interlock.interface.run_operations import BULK_KEY
from interlock.interface.run_view import BulkInfo
from interlock.model.access import Permission
from interlock.model.audit import AuditKind, AuditPage
from interlock.model.bulk import ActedOn
from interlock.model.delivery import DeliveryInfo, DeliveryPage, DeliveryState
from interlock.model.letter import Dropped, LetterCode
from interlock.wire.operation import GatewayRequest, Http, Key
from interlock.wire.parameter import FilterText, Moment, OneOf, PageSize, Reason

A_co = TypeVar("A_co", covariant=True)

AUDIT_PAGE = 1000  # entries
LETTERS = "dead letters"


class ReadDeliveries(PageRequest[DeliveryPage], frozen=True, kw_only=True):
    """List deliveries. Webhooks that are owed or were sent, newest first. A page may be short although more follow: go
    on while `next` is not null."""

    run: Annotated[FilterText | None, doc("Only deliveries of this run.")] = None
    job: Annotated[FilterText | None, doc("Only deliveries of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only deliveries of this tenant.")] = None
    state: Annotated[OneOf[DeliveryState] | None, doc("Only deliveries in this state.")] = None
    id_prefix: Annotated[
        Annotated[str, Meta(min_length=8, max_length=64)] | None, doc("Only deliveries whose id begins with this.")
    ] = None

    cursors: ClassVar = "d"
    http: ClassVar = Http("deliveries", "GET /deliveries")


class ReadDelivery(GatewayRequest[DeliveryInfo], frozen=True):
    """Show a delivery."""

    delivery_id: str

    http: ClassVar = Http("delivery", "GET /deliveries/{delivery_id}")


class LetterChoice(GatewayRequest[A_co], Generic[A_co], frozen=True, kw_only=True):
    """A choice of dead letters: those that match every field given."""

    code: Annotated[OneOf[LetterCode] | None, doc("Only letters with this reason code.")] = None
    job: Annotated[FilterText | None, doc("Only letters of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only letters of this tenant.")] = None
    since: Annotated[Moment | None, doc("Only letters since then, in RFC 3339 or seconds since 1970.")] = None
    until: Annotated[Moment | None, doc("Only letters before this time, in the same form.")] = None
    replayed: Annotated[bool | None, doc("`true`: only letters that were replayed; `false`: only others.")] = None


class LettersChange(LetterChoice[A_co], Generic[A_co], frozen=True, kw_only=True):
    everything: Annotated[bool, doc("`true`: every letter; needed without other fields.")] = msgspec.field(
        default=False, name="all"
    )


class ReadLetters(LetterChoice[LetterPage], frozen=True, kw_only=True):
    """List dead letters. Runs that ended without success, except those that were cancelled or skipped, and messages of
    workers that cannot be read; newest first."""

    limit: PageSize = 50
    if not TYPE_CHECKING:  # clients have no use for it
        cursor: PageCursor = None

    cursors: ClassVar = "x"
    http: ClassVar = Http("letters", "GET /dead-letters", LETTERS)


class ReadLetter(GatewayRequest[LetterDetail], frozen=True):
    """Show a dead letter. The letter with its run, its history and its error."""

    letter_id: str

    http: ClassVar = Http("letter", "GET /dead-letters/{letter_id}", LETTERS)


class ReplayLetter(GatewayRequest[ActedOn], frozen=True):
    """Replay a dead letter. A new run with the same job, payload and tenant, or with other arguments; it passes the
    policy like any other. The letter stays, and names the new run. The answer is the new run."""

    letter_id: str
    payload: Annotated[
        dict[str, Any] | None, doc("Arguments to change, checked like those of a submit; others keep their values.")
    ] = None
    reason: Annotated[Reason, doc("Reason, kept with the new run.")] = ""

    permission: ClassVar = Permission.SUBMIT
    http: ClassVar = Http(
        "replay",
        "POST /dead-letters/{letter_id}/replay",
        LETTERS,
        raises=(e.QueueFull, e.UnknownJob, e.BadPayload, e.PayloadTooLarge),
        body="ReplayBody",
        body_required=False,
        key=Key("Makes the request safe to repeat: the same key for the same letter finds the same new run."),
        status=201,
    )


class ReplayLetters(LettersChange[BulkInfo], frozen=True):
    """Replay many dead letters. Those that match every field given and were not replayed. The answer comes once the
    request is durable: a bulk request that retries their runs, and is finished even after a restart."""

    reason: Annotated[Reason, doc("Reason, kept with new runs.")] = ""

    permission: ClassVar = Permission.CANCEL
    http: ClassVar = Http(
        "replay_many",
        "POST /dead-letters/replay",
        LETTERS,
        raises=(e.IdempotencyConflict, e.Overloaded, e.UnknownJob),
        body="LettersBody",
        key=BULK_KEY,
        status=202,
    )


class DropLetter(GatewayRequest[Dropped], frozen=True):
    """Drop a dead letter. Its run is kept like any other."""

    letter_id: str

    permission: ClassVar = Permission.OPERATE
    http: ClassVar = Http("drop_letter", "DELETE /dead-letters/{letter_id}", LETTERS)


class DropManyLetters(LettersChange[Dropped], frozen=True):
    """Drop many dead letters. Those that match every field given, up to 1,000 in one request: repeat it while `more` is
    true. Their runs are kept like any other."""

    reason: Annotated[Reason, doc("Reason, kept with new runs.")] = ""

    permission: ClassVar = Permission.OPERATE
    http: ClassVar = Http("drop_letters", "POST /dead-letters/drop", LETTERS, body="LettersBody")


class ReadApprovals(PageRequest[ApprovalPage], frozen=True, kw_only=True):
    """List approvals. Runs that wait for an approval, newest first. A page may be short although more follow: go on
    while `next` is not null."""

    job: Annotated[FilterText | None, doc("Only runs of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None

    cursors: ClassVar = "p"
    http: ClassVar = Http("approvals", "GET /approvals")


class ReadApproval(GatewayRequest[ApprovalDetail], frozen=True):
    """Show an approval. What would run, why an approval is needed, and what else the submitter did in the last 24
    hours. An approval that was answered is shown with its answer."""

    run_id: str

    http: ClassVar = Http("approval", "GET /approvals/{run_id}", raises=(e.NoApproval,))


class ReadAudit(PageRequest[AuditPage], frozen=True, kw_only=True):
    """List the audit. Entries, oldest first; with `last`, the newest ones that match. A page may be short although more
    follow: go on while `next` is not null. A token of one tenant sees the entries of that tenant alone. To verify the
    chain, read all entries, and compare the last with `head`."""

    kind: Annotated[OneOf[AuditKind] | None, doc("Only entries of this kind.")] = None
    actor: Annotated[FilterText | None, doc("Only entries of this actor.")] = None
    tenant: Annotated[FilterText | None, doc("Only entries of this tenant.")] = None
    subject: Annotated[FilterText | None, doc("Only entries about this run, job or path.")] = None
    since: Annotated[Moment | None, doc("Only entries since then, in RFC 3339 or seconds since 1970.")] = None
    last: Annotated[bool, doc("`true`: the newest entries, of the last 50,000, instead of the oldest.")] = False
    limit: PageSize = 100

    permission: ClassVar = Permission.AUDIT
    cursors: ClassVar = "a"
    http: ClassVar = Http("audit", "GET /audit")

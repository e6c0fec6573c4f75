"""Deliveries: HTTP requests owed to other systems. Each is stored in the commit that causes it, and is pending until it
is answered or given up."""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from html import escape
from string import Template
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import msgspec

from interlock.fields.duration import checked
from interlock.fields.field import copy_fields, doc
from interlock.fields.json_form import Time, rfc3339
from interlock.model.guard import Action, Format, Hook, Violation, without_query
from interlock.model.job_info import Cursor
from interlock.model.record import Columns, Record
from interlock.model.run import Run

LONGEST_ANSWER = 4096  # bytes of an answer that are kept
SECRET_URL = "$"  # begins the host of a URL that is in a variable
LONGEST_TEXT = 1900  # characters; a chat takes 2,000
FACTOR, LONGEST_DELAY = 4.0, 3600.0  # of the delays between tries, which begin at one second

_COLOUR = {"failed": "🔴", "timeout": "🔴", "orphaned": "🔴", "succeeded": "🟢"}


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A run at the moment of an event, as sent to checks, called jobs, hooks and webhooks."""

    type: str  # `run.check`, `run.violated`, `run.late`, `run.done`, `run.succeeded`, `run.failed`,
    # or `run.approval_required`
    run_id: str
    job_id: str
    tenant: str
    state: str
    reason: str
    attempt: int
    scheduled_at: Time
    session: str | None = None
    labels: dict[str, str] = {}
    violations: list[str] = []  # the latest, in words
    error: str | None = None  # last line of the error


def notice_of(run: Run, kind: str, violations: Sequence[Violation] = ()) -> Notice:
    lines = (run.error or "").strip().splitlines()
    return copy_fields(
        Notice,
        run,
        type=f"run.{kind}",
        run_id=run.id,
        violations=[f"{violation.constraint}: {violation.message}" for violation in violations],
        error=lines[-1] if lines else None,
    )


class Outgoing(msgspec.Struct, frozen=True, array_like=True):
    """A request as the sender makes it; the names are those of environment variables."""

    url: str | None
    url_env: str | None
    secret_env: str | None
    token_env: str | None
    timeout: float
    content_type: str
    body: bytes

    @property
    def host(self) -> str:
        """The target by which deliveries are counted: host and port, or the variable with the URL."""
        return f"{SECRET_URL}{self.url_env}" if self.url is None else urlsplit(self.url).netloc.lower()

    @property
    def host_url(self) -> str:
        """The URL, or the variable that has it."""
        return self.url or self.host

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may hold a secret."""
        return self.host if self.url is None else without_query(self.url)


def delivery_id(run: Run, what: str) -> str:
    """Return the id of a request by a run in its current state; repeating the request gives the same id."""
    return hashlib.blake2b(f"{run.id}\0{run.seq}\0{what}".encode(), digest_size=16).hexdigest()


def outgoing(to: Action | Hook, notice: Notice, id: str, now: float) -> Outgoing:
    content_type, body = render(to, notice, id, now)
    assert to.url is None or isinstance(to.url, str)
    return Outgoing(to.url, to.url_env, to.secret_env, to.token_env, checked(to.timeout), content_type, body)


def render(to: Action | Hook, notice: Notice, id: str, now: float) -> tuple[str, bytes]:
    """Return the content type and the body of a request."""
    if isinstance(to, Action) and to.body is not None:
        return "application/json", Template(to.body).substitute(_filled(notice, id, now)).encode()
    if isinstance(to, Action) and to.format is not Format.CLOUDEVENTS:
        text = sentence(notice)[:LONGEST_TEXT]
        if to.format is Format.SLACK:
            return "application/json", msgspec.json.encode({"text": escape(text, quote=False)})
        # Nobody is mentioned, whatever an error says.
        return "application/json", msgspec.json.encode({"content": text, "allowed_mentions": {"parse": []}})
    event = {
        "specversion": "1.0",
        "id": id,
        "source": f"/interlock/jobs/{notice.job_id}",
        "type": f"interlock.{notice.type}",
        "subject": notice.run_id,
        "time": rfc3339(now),
        "datacontenttype": "application/json",
        "data": msgspec.to_builtins(notice) | {"scheduled_at": rfc3339(notice.scheduled_at)},
    }
    return "application/cloudevents+json", msgspec.json.encode(event)


def sentence(notice: Notice) -> str:
    """Return the event in words, for a chat."""
    mark = _COLOUR.get(notice.state, "🟡")
    said = [notice.reason, *notice.violations, *([notice.error] if notice.error else [])]
    why = ": ".join(dict.fromkeys(text for text in said if text))
    return f"{mark} {notice.job_id}: {notice.type.removeprefix('run.')} ({notice.state}): {why}\nrun {notice.run_id}"


def _filled(notice: Notice, id: str, now: float) -> dict[str, str]:
    """Return the values of a template, escaped for use inside JSON strings."""
    values: dict[str, Any] = {
        "run": notice.run_id, "job": notice.job_id, "tenant": notice.tenant, "type": notice.type, "id": id,
        "state": notice.state, "reason": notice.reason, "error": notice.error or "", "attempt": notice.attempt,
        "violations": "; ".join(notice.violations), "time": rfc3339(now),
    }  # fmt: skip
    return {name: json.dumps(str(value), ensure_ascii=False)[1:-1] for name, value in values.items()}


class Delivery(Record, frozen=True):
    """A request that is owed, or was made."""

    kind = "delivery"

    run_id: str
    job_id: str
    tenant: str
    event: str
    host: str
    order: str | None  # deliveries with the same one keep their order
    created_at: float
    give_up_at: float
    request: Outgoing
    round: int = 0  # raised by each redelivery by hand: results of an earlier one do not count
    tries: int = 0
    next_at: float = 0.0
    ended_at: float | None = None
    status: int | None = None  # of the latest answer
    answer: str = ""  # beginning of the latest answer
    error: str = ""  # why the latest try failed; empty if it did not
    seq: int = 1  # raised with every update

    @property
    def columns(self) -> Columns:
        is_owed = self.ended_at is None
        due_at = self.next_at if is_owed else None
        found = self.seq, self.tenant, self.job_id, self.run_id, is_owed, self.state, self.created_at
        return Columns(*found, due_at, self.host, self.order)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def read(cls, id: str, value: bytes) -> Self:
        return msgspec.msgpack.decode(value, type=cls)

    @property
    def state(self) -> "DeliveryState":
        if self.ended_at is None:
            return DeliveryState.PENDING
        return DeliveryState.FAILED if self.error else DeliveryState.DELIVERED


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class DeliveryInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook delivery: target, state and latest answer."""

    id: Annotated[str, doc("Id, which the receiver finds in the header `webhook-id`.")]
    run_id: Annotated[str, doc("Run that caused it.")]
    job_id: Annotated[str, doc("Job of the run.")]
    tenant: Annotated[str, doc("Tenant of the run.")]
    event: Annotated[str, doc("Event, such as `run.failed`.")]
    target: Annotated[str, doc("URL without its query, or the variable with the URL.")]
    state: Annotated[DeliveryState, doc("`pending`, `delivered` or `failed`.")]
    created_at: Annotated[Time, doc("Time of the event.")]
    tries: Annotated[int, doc("Tries so far.")]
    next_at: Annotated[Time | None, doc("Time of the next try; null after the last.")]
    ended_at: Annotated[Time | None, doc("Time of the last try; null while there are more.")]
    status: Annotated[int | None, doc("Status of the latest answer.")]
    answer: Annotated[str, doc("Latest answer, at most its first 4 KiB.")]
    error: Annotated[str, doc("Why the latest try failed; empty if it did not.")]


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of deliveries."""

    deliveries: Annotated[list[DeliveryInfo], doc("Deliveries, newest first.")]
    next: Cursor


def info_of(delivery: Delivery) -> DeliveryInfo:
    next_at = delivery.next_at if delivery.ended_at is None else None
    return copy_fields(DeliveryInfo, delivery, target=delivery.request.shown_url, next_at=next_at)

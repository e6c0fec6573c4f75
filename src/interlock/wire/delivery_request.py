"""Requests about deliveries, and the messages between the scheduler and its sender."""

from typing import ClassVar

import msgspec

from interlock.model.delivery import DeliveryInfo, Outgoing
from interlock.wire.message import Count, Instant, Message
from interlock.wire.operation import Http, Order
from interlock.wire.request import ChangeRequest, Request


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """The result of one try of a delivery: its new values."""

    id: str
    round: Count
    tries: Count
    next_at: Instant
    ended_at: Instant | None
    status: Count | None
    answer: str
    error: str


class BecomeSender(Request[None], frozen=True):
    """Send the deliveries of this scheduler from now on: `Owed` and `HookRequest` go to this client."""


class Owed(Message, frozen=True):
    """New deliveries are stored, or old ones are due again."""


class HookRequest(Message, frozen=True):
    """Make a request, once, and return its answer in `HookAnswered`."""

    run_id: str
    seq: int
    id: str
    outgoing: Outgoing


class ForgetHook(Message, frozen=True):
    """Do not make the request of this run if it has not begun."""

    run_id: str


class HookAnswered(Message, frozen=True):
    """The result of a hook: its status, or None and an error."""

    run_id: str
    seq: int
    status: int | None
    error: str


class ReportSent(ChangeRequest[None], frozen=True):
    """Store the results of tries."""

    results: list[Sent]


class Redeliver(Order[DeliveryInfo], frozen=True):
    """Deliver again. The receiver gets the same body under the same `webhook-id`. A delivery that is pending is tried
    at once."""

    delivery_id: str

    once: ClassVar = True
    http: ClassVar = Http("redeliver", "POST /deliveries/{delivery_id}/redeliver")

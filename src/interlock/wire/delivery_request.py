"""Requests about deliveries, and the messages between the scheduler and its sender."""

from typing import ClassVar

import msgspec

from interlock.model.access import Permission
from interlock.model.delivery import Delivery, Outgoing
from interlock.wire.message import Count, Instant, Message
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


class Redeliver(ChangeRequest[Delivery], frozen=True):
    """Deliver again what was delivered or given up."""

    delivery_id: str

    permission: ClassVar = Permission.OPERATE
    once: ClassVar = True

"""Deliveries after the commit that caused them: results of tries, and redeliveries."""

from msgspec.structs import asdict, replace

from interlock.core.facts import Needs
from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.error import UnknownDelivery
from interlock.model.delivery import Delivery, info_of
from interlock.wire.delivery_request import Redeliver, ReportSent, Sent
from interlock.wire.request import ValueAnswer


def needs_deliveries(state: SchedulerState, command: ReportSent, needs: Needs) -> None:
    needs.records.update(((Delivery, sent.id), None) for sent in command.results)


def report_sent(p: Pass, origin: str, command: ReportSent) -> None:
    for sent in command.results:
        if (tried := after_try(p.record(Delivery, sent.id), sent)) is not None:
            p.keep(tried)
        p.count("deliveries_total", "retried" if sent.ended_at is None else "failed" if sent.error else "delivered")
    p.answers.append((origin, ValueAnswer(command.request)))


def after_try(delivery: Delivery | None, sent: Sent) -> Delivery | None:
    """Return a delivery with the result of a try; None if the result is not for this round, or an earlier one."""
    if delivery is None or delivery.ended_at is not None:
        return None
    if delivery.round != sent.round or delivery.tries > sent.tries:
        return None
    return replace(delivery, **asdict(sent), seq=delivery.seq + 1)


def needs_delivery(state: SchedulerState, command: Redeliver, needs: Needs) -> None:
    needs.records[Delivery, command.delivery_id] = None


def redeliver(p: Pass, origin: str, command: Redeliver) -> None:
    """Begin a new round of tries, with as much time as the first had. A pending delivery keeps its tries and its end,
    and only gets its next try now."""
    found = p.record(Delivery, command.delivery_id)
    if found is None or command.only_tenant not in (None, found.tenant):
        raise UnknownDelivery(command.delivery_id)
    again = replace(found, round=found.round + 1, next_at=p.now, seq=found.seq + 1)
    if found.ended_at is not None:
        give_up_at = p.now + found.give_up_at - found.created_at
        again = replace(again, give_up_at=give_up_at, tries=0, ended_at=None, status=None, answer="", error="")
    p.keep(again)
    p.owed += 1
    p.answers.append((origin, ValueAnswer(command.request, info_of(again))))


OUTBOX = Part(
    name="outbox",
    handlers={ReportSent: report_sent, Redeliver: redeliver},
    needs={ReportSent: needs_deliveries, Redeliver: needs_delivery},
)

"""Deliveries after the commit that caused them: results of tries, and redeliveries."""

from msgspec.structs import replace

from interlock.core.facts import Needs
from interlock.core.part import Part
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.error import UnknownDelivery
from interlock.wire.delivery_request import Redeliver, RedeliveryReport, ReportSent, SentReport


def report_sent(p: Pass, origin: str, command: ReportSent) -> None:
    p.batch.sent += command.results
    p.answers.append((origin, SentReport(command.request)))


def needs_delivery(state: SchedulerState, command: Redeliver, needs: Needs) -> None:
    needs.deliveries[command.delivery_id] = None


def redeliver(p: Pass, origin: str, command: Redeliver) -> None:
    """Begin a new round of tries, with as much time as the first had. A pending delivery keeps its tries and its end,
    and only gets its next try now."""
    found = p.facts.deliveries.get(command.delivery_id)
    if found is None:
        raise UnknownDelivery(command.delivery_id)
    again = replace(found, round=found.round + 1, next_at=p.now)
    if found.ended_at is not None:
        give_up_at = p.now + found.give_up_at - found.created_at
        again = replace(again, give_up_at=give_up_at, tries=0, ended_at=None, status=None, answer="", error="")
    p.facts.deliveries[found.id] = again
    p.batch.deliveries.append(again)
    p.answers.append((origin, RedeliveryReport(command.request, again)))


OUTBOX = Part(
    name="outbox",
    handlers={ReportSent: report_sent, Redeliver: redeliver},
    needs={Redeliver: needs_delivery},
)

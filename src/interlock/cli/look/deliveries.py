"""`interlock deliveries`."""

import time
from typing import Annotated, Any

from interlock.cli.draw.format import ago, local, span
from interlock.cli.draw.listing import AGE, PIPE, SCREEN, TIME, Column, Form, Listing, facts, piped
from interlock.cli.draw.tables import plain, present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import check_choice
from interlock.cli.shared.server import client_of, run_of
from interlock.client.http.client import Client
from interlock.error import Ambiguous, BadValue, UnknownDelivery
from interlock.fields.safe_text import safe
from interlock.model.delivery import DeliveryInfo, DeliveryState

SHORT = 8  # characters of an id in a table, and the fewest that name a delivery
COLOURS = {DeliveryState.DELIVERED: "green", DeliveryState.FAILED: "red", DeliveryState.PENDING: "yellow"}
ID_HELP = f"Id of a delivery, or at least its first {SHORT} characters."


def outcome(one: DeliveryInfo, now: float) -> str:
    """Return state, latest answer and tries in words."""
    answer = one.error or ("" if one.status is None else str(one.status))
    tries = f"{one.tries} tries" if one.tries > 1 else ""
    if one.next_at is not None:
        tries = f"try {one.tries + 1} " + ("now" if one.next_at <= now else f"in {span(one.next_at - now)}")
    return plain(f"{one.state}: {', '.join(part for part in (answer, tries) if part)}")


def _outcome(delivery: DeliveryInfo, now: float) -> Any:
    from rich.text import Text

    return Text(outcome(delivery, now), COLOURS[delivery.state])


DELIVERIES = Listing[DeliveryInfo](
    "deliveries",
    "no webhooks are owed or were sent",
    Column("delivery", "id", Form(lambda text, _: text[:SHORT])),
    Column("age", "created_at", AGE, SCREEN),
    *piped("state"),
    Column("event", "event", Form(lambda text, _: text.removeprefix("run."))),
    Column("job", "job_id"),
    Column("run", "run_id", spare=1),
    *piped("tenant"),
    Column("target", "target", Form(lambda url, _: plain(url.removeprefix("https://").removeprefix("http://")))),
    Column("created", "created_at", TIME, PIPE),
    *piped("tries"),
    Column("next try", "next_at", TIME, PIPE),
    Column("ended", "ended_at", TIME, PIPE),
    *piped("status", "error"),
    Column("what", lambda delivery: delivery, Form(_outcome), SCREEN, gives_way=True),
)


@takes(*FINDING)
def command(
    flags: Flags,
    delivery: Annotated[str | None, argument("DELIVERY", ID_HELP)] = None,
    run: Annotated[str | None, option("RUN", "Only deliveries of this run.", autocompletion=completion.runs)] = None,
    job: Annotated[str | None, option("JOB", "Only deliveries of this job.", autocompletion=completion.jobs)] = None,
    state: Annotated[str | None, option("STATE", "Only deliveries that are pending, delivered or failed.")] = None,
    tenant: Annotated[str | None, option("TEXT", "Only deliveries of this tenant.")] = None,
    limit: Annotated[int, option("NUMBER", "Most deliveries to list.", "--limit", "-n")] = 50,
    json: JsonOption = False,
) -> None:
    """List webhooks that are owed or were sent, the newest first. With an id, show that one with its whole answer.

    Piped: id, state, event, job, run, tenant, target, created, tries, next try, end, status and error, separated by
    tabs."""
    check_choice("--state", state, DeliveryState)
    with client_of(flags) as client:
        if delivery is not None:
            one = delivery_of(client, delivery)
            present(json, lambda: one, lambda: [DELIVERIES.line(one)], lambda: _facts(one))
            return
        run = None if run is None else run_of(client, run)
        found = client.deliveries(run=run, job=job, tenant=tenant, state=state, limit=limit + 1)
        DELIVERIES.show(json, found, limit)


def delivery_of(client: Client, given: str) -> DeliveryInfo:
    """Return the delivery with this id, or with an id that alone begins so."""
    if len(given) < SHORT:
        raise BadValue("delivery", given, f"an id, or at least its first {SHORT} characters")
    found = list(client.deliveries(id_prefix=given[:64], limit=2))
    if not found:
        raise UnknownDelivery(given)
    if len(found) > 1:
        raise Ambiguous("delivery", given, [one.id for one in found])
    return found[0]


def _facts(one: DeliveryInfo) -> Any:
    now = time.time()

    def when(at: float | None) -> str:
        return "" if at is None else f"{local(at)} ({ago(at, now)})"

    pairs = (
        ("delivery", one.id), ("event", one.event), ("job", one.job_id), ("run", one.run_id), ("tenant", one.tenant),
        ("target", one.target), ("state", one.state.value), ("tries", str(one.tries)),
        ("created", when(one.created_at)), ("next try", when(one.next_at)), ("ended", when(one.ended_at)),
        ("status", "" if one.status is None else str(one.status)), ("error", one.error), ("answer", one.answer),
    )  # fmt: skip
    return facts((name, safe(text)) for name, text in pairs)

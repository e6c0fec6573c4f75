"""`interlock sessions`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

from interlock.cli.draw.format import span
from interlock.cli.draw.tables import Column, columns_of, present, rich_table, tabbed
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import client_of
from interlock.error_lines import say
from interlock.fields.field_types import FieldPath, Span, Whole
from interlock.fields.json_form import rfc3339
from interlock.fields.safe_text import safe
from interlock.model.session_info import SessionInfo

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (Column("session", wrap=True), *columns_of("tenant, >active, >waiting, >oldest wait, status"))


@takes(*FINDING)
def command(
    flags: Flags,
    key: Annotated[
        str | None, argument("SESSION", "Key of one session, with or without runs.", completion.sessions)
    ] = None,
    tenant: Annotated[
        str | None, option("TEXT", "List only sessions of this tenant; with SESSION, the tenant it belongs to.")
    ] = None,
    limit: Annotated[str, option("NUMBER", "Most sessions to list.")] = "100",
    json: JsonOption = False,
) -> None:
    """List sessions with runs that have not ended: active and waiting runs with their limits, the longest wait so
    far and status. With a key, show that session, with or without runs, also its options, generation and usage.

    Piped: key, tenant, active, waiting, seconds of the longest wait, mode, max_concurrent, debounce in seconds, cap,
    drop, rate, burst, `open` or `paused`, generation, cutoff, used and window, separated by tabs."""
    most = Whole(1).read(limit, FieldPath("--limit"))
    with client_of(flags) as client:
        listed = islice(client.sessions(tenant), most + 1)
        found = list(listed) if key is None else [client.session(key, tenant)]
    shown = found[:most]
    present(
        json,
        lambda: shown[0] if key is not None else {"sessions": shown},
        lambda: map(piped, shown),
        lambda: rich_table(COLUMNS, [_cells(one) for one in shown]) if key is None else _facts(shown[0]),
    )
    if len(found) > most:
        say(f"more than {most:,} sessions: use --limit")


def piped(one: SessionInfo) -> str:
    """Return a session as a line for programs."""
    return tabbed(
        key_text(one.key), one.tenant, one.active, one.waiting,
        None if one.oldest_wait is None else f"{one.oldest_wait:.3f}",
        one.mode, one.max_concurrent, one.debounce, one.cap, one.drop, one.rate, one.burst, _status(one),
        one.generation, None if one.cutoff is None else rfc3339(one.cutoff),
        *((None, None) if one.usage is None else (one.usage.used, one.usage.window)),
    )  # fmt: skip


def key_text(key: str) -> str:
    """Return a key on one line, with its control characters escaped."""
    return safe(key).replace("\n", r"\n").replace("\t", r"\t")


def _status(one: SessionInfo) -> str:
    return "paused" if one.paused else "open"


def _cells(one: SessionInfo) -> tuple[str, ...]:
    return (
        key_text(one.key),
        one.tenant,
        f"{one.active}/{one.max_concurrent}",
        f"{one.waiting}/{one.cap}",
        "" if one.oldest_wait is None else span(one.oldest_wait),
        _status(one),
    )


def _facts(one: SessionInfo) -> "Table":
    """Return everything about a session, a line for each fact."""
    burst = "" if one.burst == 1 else f" burst {one.burst}"
    heads = (column.title for column in COLUMNS)
    options = {
        "mode": one.mode,
        "debounce": Span().show(one.debounce),
        "drop": one.drop,
        "rate": one.rate and one.rate + burst,
        "generation": str(one.generation),
        "cutoff": None if one.cutoff is None else rfc3339(one.cutoff),
        "usage": None if one.usage is None else f"{one.usage.used:,}/{one.usage.window:,}",
    }
    rows = [*zip(heads, _cells(one), strict=True), *options.items()]
    table = rich_table([Column(""), Column("", wrap=True)], [(name, text) for name, text in rows if text])
    table.show_header = False
    return table

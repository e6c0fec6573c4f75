"""`interlock sessions`."""

from typing import Annotated, Any

from interlock.cli.draw.listing import LENGTH, PIPE, SCREEN, TIME, Column, Form, Listing, facts, piped
from interlock.cli.draw.tables import present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import client_of
from interlock.fields.field_types import FieldPath, Span, Whole
from interlock.fields.json_form import rfc3339
from interlock.fields.safe_text import safe
from interlock.model.session_info import SessionInfo

SHARE = Form(lambda pair, _: "{}/{}".format(*pair), right=True)


def key_text(key: str) -> str:
    """Return a key on one line, with its control characters escaped."""
    return safe(key).replace("\n", r"\n").replace("\t", r"\t")


SESSIONS = Listing[SessionInfo](
    "sessions",
    "no session has runs that have not ended",
    Column("session", lambda session: key_text(session.key), wrap=True),
    Column("tenant"),
    Column("active", lambda session: (session.active, session.max_concurrent), SHARE, SCREEN),
    Column("waiting", lambda session: (session.waiting, session.cap), SHARE, SCREEN),
    *piped("active", "waiting"),
    Column("oldest wait", "oldest_wait", LENGTH),
    *piped("mode", "max_concurrent", "debounce", "cap", "drop", "rate", "burst"),
    Column("status", lambda session: "paused" if session.paused else "open"),
    *piped("generation"),
    Column("cutoff", form=TIME, on=PIPE),
    Column("used", lambda session: session.usage and session.usage.used, on=PIPE),
    Column("window", lambda session: session.usage and session.usage.window, on=PIPE),
    first="first",
)


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
    far and status. With a key, show that session, even without runs, and its options, generation and usage.

    Piped: key, tenant, active, waiting, seconds of the longest wait, mode, max_concurrent, debounce in seconds, cap,
    drop, rate, burst, `open` or `paused`, generation, cutoff, used and window, separated by tabs."""
    most = Whole(1).read(limit, FieldPath("--limit"))
    with client_of(flags) as client:
        if key is None:
            SESSIONS.show(json, client.sessions(tenant), most)
        else:
            found = client.session(key, tenant)
            present(json, lambda: found, lambda: [SESSIONS.line(found)], lambda: _facts(found))


def _facts(session: SessionInfo) -> Any:
    """Return everything about a session, a line for each fact."""
    burst = "" if session.burst == 1 else f" burst {session.burst}"
    return facts(
        [
            *((column.title, column.drawn(session, 0.0)) for column in SESSIONS.columns),
            ("mode", session.mode),
            ("debounce", Span().show(session.debounce)),
            ("drop", session.drop),
            ("rate", session.rate and session.rate + burst),
            ("generation", str(session.generation)),
            ("cutoff", None if session.cutoff is None else rfc3339(session.cutoff)),
            ("usage", session.usage and f"{session.usage.used:,}/{session.usage.window:,}"),
        ]
    )

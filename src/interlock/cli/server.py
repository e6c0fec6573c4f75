"""Finding the server and the run that a command is about, and reading what a person writes for a time."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.options import Flags

if TYPE_CHECKING:
    from interlock.client.http.client import Client

FIRST_CONTACT = "300ms"
"""long enough for a server that is just starting; a missing one is reported at once"""
LATEST = ("latest", "-")

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run; 'latest' or '-' is the newest.")]


def client_of(flags: Flags) -> "Client":
    """For the server that --url names, or --socket or --db; else the one of the environment or this folder."""
    from interlock.client.http.client import Client

    resolved = flags.resolve()
    return Client(flags.url(resolved), token=resolved.client.token, first_contact=FIRST_CONTACT)


def run_of(client: "Client", given: str) -> str:
    """The id of the run that was named."""
    if given not in LATEST:
        return given
    newest = next(iter(client.runs(limit=1)), None)
    if newest is None:
        from interlock.model.error import UnknownRun

        raise UnknownRun(given)
    return newest.id


def moment(text: str, field: str, or_duration: bool = False) -> datetime:
    """A time as people write it; without a zone it is the local one. A duration might have been given as well."""
    from interlock.model.error import BadValue

    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        durations = "a duration like 30s or 1h, nor " if or_duration else ""
        expected = f"{durations}a time like 2026-01-31T18:00 or 2026-01-31T18:00:00+01:00"
        raise BadValue(field, text, expected) from error


def looks_like_duration(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+[a-z]+", text) is not None


def since(text: str, field: str, now: float) -> float:
    """The instant that lies a duration back, or that is named."""
    if looks_like_duration(text):
        from interlock.model.duration import seconds

        return now - seconds(text, field)
    return moment(text, field, or_duration=True).timestamp()

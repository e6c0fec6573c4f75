"""Find a command's server and run, and read the times that people write."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

from interlock.cli.shared import completion
from interlock.cli.shared.options import Flags, argument
from interlock.client.http.client import Client
from interlock.config import Resolved
from interlock.error import Ambiguous, BadValue, NotRunning, UnknownRun, rebuild
from interlock.fields.duration import seconds
from interlock.fields.sockets import without_password

FIRST_CONTACT = "300ms"  # enough for a starting server; a missing one is reported at once
LATEST = ("latest", "-")
MOST_NAMED = 5  # ids or servers in one message

RUN_HELP = "Id of a run, or its beginning; 'latest' or '-' is the newest run."
APPROVAL_HELP = "Id of a run, or its beginning; 'latest' or '-' is the newest that waits for an approval."
ApprovalArgument = Annotated[str, argument("RUN", APPROVAL_HELP, completion.runs)]
RunArgument = Annotated[str, argument("RUN", RUN_HELP, completion.runs)]
JobArgument = Annotated[str, argument("JOB", "Id of the job.", completion.jobs)]


@contextmanager
def client_of(flags: Flags, patience: str = "90s") -> Iterator[Client]:
    """Open a client for the server that a flag, else the environment, else the current folder names."""
    resolved = flags.resolve()
    url = flags.url(resolved)
    with Client(url, token=resolved.client.token, patience=patience, first_contact=FIRST_CONTACT) as client:
        try:
            yield client
        except NotRunning as error:
            raise rebuild(error.code, _where_looked(url, resolved)) from None


def _where_looked(url: str, resolved: Resolved) -> str:
    """Return a message that says why no server was found, and what to do."""
    settings, sources = resolved.settings, resolved.sources
    if url == resolved.client.url:
        return f"server: nothing answers at {url} ({sources['url']}); start it there, or correct the address"
    with socket.socket(socket.AF_UNIX) as probe:
        listens = probe.connect_ex(str(settings.socket_path())) == 0
    if listens:
        silent = f"server: the scheduler at {settings.socket_path()} does not serve HTTP (http: off)"
        return f"{silent}, which commands need; start it with --http local"
    name = "database" if settings.socket is None else "socket"
    place = without_password(str(getattr(settings, name)))
    looked = f"server: nothing answers at {url} ({name} {place}, {sources[name]})"
    if others := _running():
        return f"{looked}; name one that runs with --url: {', '.join(others)}"
    return f"{looked}; start one with 'interlock up', or name another with --db, --socket or --url"


def _running() -> list[str]:
    """Return servers of this user in other folders: the sockets for HTTP that processes listen on."""
    try:
        lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    except OSError:
        return []
    listening = "00010000"
    found = []
    for fields in (line.split(maxsplit=7) for line in lines):
        if len(fields) == 8 and fields[3] == listening and fields[7].endswith(".http"):
            path = Path(fields[7])
            if path.is_socket() and path.stat().st_uid == os.geteuid():
                found.append(f"unix:{path}")
    return sorted(found)[:MOST_NAMED]


def at_least_one(field: str, number: int | None) -> None:
    if number is not None and number < 1:
        raise BadValue(field, number, "1 or more")


def run_of(client: Client, given: str) -> str:
    """Return the id of the named run; the name is an id, or a beginning that no other run has. The name
    of a step begins with that of its workflow."""
    if given in LATEST:
        newest = next(iter(client.runs(limit=1)), None)
        if newest is None:
            raise UnknownRun(given)
        return newest.id
    if "@" in given:
        workflow, _, step = given.partition("@")
        return f"{run_of(client, workflow)}@{step}"
    found = [run.id for run in client.runs(id_prefix=given, limit=MOST_NAMED + 1)] if given else []
    if given in found or not found:  # an unknown id is reported when it is used
        return given
    if len(found) > 1:
        raise Ambiguous("run", given, found, MOST_NAMED)
    return found[0]


def approval_of(client: Client, given: str) -> str:
    """Return the id of the named run; the latest is the newest that waits for an approval."""
    if given not in LATEST:
        return run_of(client, given)
    newest = next(iter(client.approvals(limit=1)), None)
    if newest is None:
        raise UnknownRun(given, ": no run waits for an approval")
    return newest.run_id


def moment(text: str, field: str, or_duration: bool = False) -> datetime:
    """Read a time as people write it; without a zone it is local."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        durations = "a duration like 30s or 1h, nor " if or_duration else ""
        expected = f"{durations}a time like 2026-01-31T18:00 or 2026-01-31T18:00:00+01:00"
        raise BadValue(field, text, expected) from error


def looks_like_duration(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+[a-z]+", text) is not None


def since(text: str, field: str, now: float) -> float:
    """Return the instant that a time names, or that lies a duration back."""
    if looks_like_duration(text):
        return now - seconds(text, field)
    return moment(text, field, or_duration=True).timestamp()

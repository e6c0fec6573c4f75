"""`interlock audit`."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from interlock.cli.draw.listing import AGE, JSON, NUMBER, PIPE, SCREEN, Column, Listing, piped
from interlock.cli.draw.tables import json_text, out, present, tabbed
from interlock.cli.shared import completion, server
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.output import AuditBroken, check_choice
from interlock.cli.shared.server import at_least_one, client_of, run_of
from interlock.error import BadUse, BadValue, shown
from interlock.fields.json_form import decode
from interlock.interface.record_operations import AUDIT_PAGE
from interlock.model.audit import AuditEntry, AuditKind, verify

VERIFY, EXPORT = "verify", "export"
ACTIONS = (VERIFY, EXPORT)
STANDARD = "-"  # stands for standard output or input
MOST_NAMED = 20  # faults that are printed


def _what(entry: AuditEntry) -> str:
    """Return count, tenant and detail on one line."""
    parts = [f"{entry.count:,} times"] if entry.count > 1 else []
    parts += [entry.tenant] if entry.tenant else []
    texts = ((name, value if isinstance(value, str) else json_text(value)) for name, value in entry.detail.items())
    return "; ".join(parts + [f"{name}: {text}" for name, text in texts])


ENTRIES = Listing[AuditEntry](
    "entries",
    "no entries of the audit match",
    Column("entry", "number", NUMBER),
    Column("age", "at", AGE),
    Column("kind"),
    Column("actor"),
    *piped("tenant"),
    Column("subject"),
    *piped("count"),
    Column("detail", _what, on=SCREEN, gives_way=True),
    Column("detail", "detail", JSON, PIPE),
    *piped("hash"),
)


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str | None,
        argument(
            "ACTION",
            "'verify' finds entries that were altered, removed or reordered; 'export' writes all entries.",
            completion.of(*ACTIONS),
        ),
    ] = None,
    file: Annotated[
        str | None, argument("FILE", "File to export to, or to verify; - for standard output or input.")
    ] = None,
    kind: Annotated[
        str | None, option("KIND", "Only entries of this kind.", autocompletion=completion.of(*AuditKind))
    ] = None,
    actor: Annotated[str | None, option("TEXT", "Only entries of this actor.")] = None,
    tenant: Annotated[str | None, option("TEXT", "Only entries of this tenant.")] = None,
    run: Annotated[str | None, option("RUN", "Only entries about this run.", autocompletion=completion.runs)] = None,
    job: Annotated[str | None, option("JOB", "Only entries about this job.", autocompletion=completion.jobs)] = None,
    since: Annotated[str | None, option("DURATION|TIME", "Only entries since then; 1h is the last hour.")] = None,
    limit: Annotated[int, option("NUMBER", "Most entries to list, the newest.", "--limit", "-n")] = 50,
    head: Annotated[str | None, option("HASH", "With verify: hash that you kept; an entry must have it.")] = None,
    jsonl: Annotated[bool, switch("Print every entry that matches, one JSON object a line.", "--jsonl")] = False,
    json: JsonOption = False,
) -> None:
    """List, verify or export the audit: verdicts, approvals, refused tokens, changes of jobs and tokens.

    Each entry has the hash of the one before. `verify` prints number and hash of the last entry: keep them elsewhere,
    and give the hash to `--head` later. The exit code is 1 if an entry was altered, removed or reordered.

    Piped: number, time, kind, actor, tenant, subject, count, detail as JSON and hash, separated by tabs."""
    asked = {"kind": kind, "actor": actor, "tenant": tenant, "run": run, "job": job, "since": since}
    given = [f"--{name}" for name, value in asked.items() if value is not None]
    check_choice("action", action, ACTIONS)
    if action is not None and given:
        raise BadUse(given[0], f"cannot be combined with {action}, which takes all entries")
    if action != VERIFY and head is not None:
        raise BadUse("--head", "needs verify")
    if action == VERIFY:
        _verify(flags, file, head, json)
    elif action == EXPORT:
        _export(flags, file)
    else:
        _list(flags, asked, limit, jsonl, json)


def _list(flags: Flags, asked: dict[str, Any], limit: int, jsonl: bool, json: bool) -> None:
    at_least_one("--limit", limit)
    if limit > AUDIT_PAGE:
        raise BadValue("--limit", limit, f"a number of at most {AUDIT_PAGE:,}; --jsonl prints all")
    check_choice("--kind", asked["kind"], AuditKind)
    run, job, since = asked.pop("run"), asked.pop("job"), asked["since"]
    if run is not None and job is not None:
        raise BadUse("--run", "cannot be combined with --job")
    asked["since"] = None if since is None else server.since(since, "--since", time.time())
    with client_of(flags) as client:
        asked["subject"] = job if run is None else run_of(client, run)
        if jsonl:
            for entry in client.audit(**asked):
                out(json_text(entry))
            return
        found = list(client.audit(**asked, last=limit))
    ENTRIES.show(json, found)


def _export(flags: Flags, file: str | None) -> None:
    """Write all entries as JSON lines, to a new file or to standard output."""
    with client_of(flags) as client:
        if file in (None, STANDARD):
            for entry in client.audit():
                out(json_text(entry))
            return
        try:
            with open(str(file), "x", encoding="utf-8", opener=lambda path, how: os.open(path, how, 0o600)) as target:
                for entry in client.audit():
                    target.write(f"{json_text(entry)}\n")
        except FileExistsError:
            raise BadUse("file", f"{shown(file)} exists already; name a new file") from None


def _verify(flags: Flags, file: str | None, head: str | None, json: bool) -> None:
    if file is None:
        with client_of(flags) as client:
            report = client.verify_audit(head)
    else:
        report = verify(_read(file), None, head)
    number, last, faults = report.head.number, report.head.hash, report.faults
    present(
        json,
        lambda: report,
        lambda: [tabbed(number, last), *(tabbed(fault.number, fault.text) for fault in faults)],
        lambda: "\n".join(
            [f"last entry: {number:,}", f"its hash:   {last}", *(fault.text for fault in faults[:MOST_NAMED])]
        ),
    )
    if faults:
        more = f", and {len(faults) - 1:,} more" if len(faults) > 1 else ""
        raise AuditBroken(f"audit: {faults[0].text}{more}")


def _read(file: str) -> Iterator[AuditEntry]:
    """Yield the entries of an exported file."""
    try:
        source = sys.stdin if file == STANDARD else open(file, encoding="utf-8", errors="replace")  # noqa: SIM115 - below
    except OSError as error:
        raise BadUse(file, f"cannot be read ({error.strerror})") from None
    with source as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield decode(line, AuditEntry)
            except msgspec.MsgspecError as error:
                raise BadUse(f"{file}: line {number}", f"not an entry of the audit ({error})") from None

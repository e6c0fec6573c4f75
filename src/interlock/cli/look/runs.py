"""`interlock runs`."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from interlock.cli.draw.event_watch import draw
from interlock.cli.draw.format import COLOURS, print_log, took, why
from interlock.cli.draw.listing import AGE, LENGTH, PIPE, SCREEN, TIME, Column, Listing, piped
from interlock.cli.draw.run_tree import branches
from interlock.cli.draw.tables import console, out, present, print_json
from interlock.cli.shared import completion, server
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes, widened
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.server import at_least_one, client_of, run_of
from interlock.cli.shared.short_ids import with_short_ids
from interlock.client.http.client import Client
from interlock.error import BadValue, ConnectionLost, NotRunning
from interlock.fields.field_types import did_you_mean
from interlock.interface.run_view import HelloEvent, RunEvent, RunInfo
from interlock.model.state import TERMINAL, State

STATE = option("STATE", "Only runs in this state; may be repeated.", autocompletion=completion.states)
FILTERS: dict[str, Any] = {
    "state": Annotated[list[str] | None, STATE],
    "job": Annotated[str | None, option("JOB", "Only runs of this job.", autocompletion=completion.jobs)],
    "tenant": Annotated[str | None, option("TEXT", "Only runs of this tenant.")],
    "session": Annotated[str | None, option("TEXT", "Only runs of this session.")],
    "lane": Annotated[str | None, option("TEXT", "Only runs in this lane.")],
    "parent": Annotated[str | None, option("RUN", "Only runs that this run made.")],
    "root": Annotated[str | None, option("RUN", "Only runs whose root is this run: it made them, directly or not.")],
    "text": Annotated[
        str | None, option("TEXT", "Only runs with this text in id, job, session, reason, error, label.")
    ],
    "since": Annotated[str | None, option("DURATION|TIME", "Only runs created since then; 1h is the last hour.")],
}
"""options that choose runs, in every command that acts on many"""


def _what(run: RunInfo) -> str:
    return f"try {run.attempt}: {why(run)}" if run.attempt > 1 else why(run)


RUNS = Listing[RunInfo](
    "runs",
    "no runs match; to make one: interlock submit JOB",
    Column("run", "id"),
    Column("job", "job_id"),
    Column("state", colours=COLOURS),
    *piped("attempt"),
    Column("age", "created_at", AGE),
    Column("started", "started_at", TIME, PIPE),
    Column("ended", "ended_at", TIME, PIPE),
    Column("took", lambda run: took(run, time.time()), LENGTH, SCREEN),
    *piped("tenant", "lane", "session"),
    Column("what", _what, on=SCREEN, gives_way=True),
    Column("reason", why, on=PIPE),
)

LISTED, LOGGED = 50, 20  # default limits of a list and of a job's log
RETRY = 1.0  # seconds before a silent server is asked again


def takes_filter(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose runs; it receives the filter for the client as its argument `asked`."""

    def read(given: dict[str, Any]) -> dict[str, Any]:
        for one in given["state"] or []:
            if one not in list(State):
                raise BadValue("--state", one, f"a state{did_you_mean(one, [*map(str, State)])}")
        since = None if given["since"] is None else server.since(given["since"], "--since", time.time())
        return given | {"state": given["state"] or (), "since": since}

    return widened(function, "asked", FILTERS, read)


@takes(*FINDING)
@takes_filter
def command(
    flags: Flags,
    asked: dict[str, Any],
    live: Annotated[
        bool | None, switch("Only runs that have not ended, or only runs that have.", "--live/--ended")
    ] = None,
    steps: Annotated[bool, switch("List steps of workflows too; --parent and --root always do.", "--steps")] = False,
    limit: Annotated[int | None, option("NUMBER", f"Most runs to list; {LISTED}, or {LOGGED} with --output.")] = None,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--watch")] = False,
    tree: Annotated[bool, switch("Show each run below the one that made it.", "--tree")] = False,
    output: Annotated[bool, switch("With --job: show the first 16 KiB of each run's output.", "--output")] = False,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first.

    Piped: id, job, state, attempt, created, started, ended, tenant, lane, session and reason, separated by tabs. With
    `--output`: id, state, origin, due, started, ended, exit code and reason, and below them each printed line after a
    tab. With `--tree`, each line begins with the number of runs above it that are listed, and a tab."""
    asked["live"], asked["steps"] = live, steps
    if tree and (watch or output):
        raise WrongUsage("--tree: cannot be combined with --watch or --output")
    if output:
        _print_log(flags, asked, LOGGED if limit is None else limit, watch, json)
        return
    most = LISTED if limit is None else limit
    at_least_one("--limit", most)
    with client_of(flags) as client:
        find_relatives(client, asked)
        if watch and sys.stdout.isatty() and not json:
            _draw(client, asked, most)
        elif watch:
            _follow(client, asked, most, json)
        elif tree:
            found = list(branches(_family(client, asked, most)))
            present(
                json,
                lambda: {"runs": [branch for _, branch in found]},
                lambda: (f"{branch.depth}\t{RUNS.line(branch.run)}" for _, branch in found),
                lambda: RUNS.table(
                    with_short_ids(client, [branch.run for _, branch in found]), leads=[lead for lead, _ in found]
                ),
            )
        else:
            shorten = partial(with_short_ids, client)
            RUNS.show(json, client.runs(**asked, limit=most + 1), most, on_screen=shorten)


def find_relatives(client: Client, asked: dict[str, Any]) -> None:
    """Replace the beginnings of ids in a filter by the ids."""
    for name in ("parent", "root"):
        if asked.get(name):
            asked[name] = run_of(client, asked[name])


def _family(client: Client, asked: dict[str, Any], limit: int) -> list[RunInfo]:
    """Return the runs of a tree, with the root that was asked for."""
    root = asked["root"]
    above = [] if root is None else [run for run in client.runs(id_prefix=root) if run.id == root]
    return [*client.runs(**asked, limit=limit), *above]


def _print_log(flags: Flags, asked: dict[str, Any], limit: int, watch: bool, json: bool) -> None:
    others = {name: value for name, value in asked.items() if name != "job"}
    if asked["job"] is None or watch or any(value not in (None, (), False) for value in others.values()):
        raise WrongUsage("--output: needs --job, and takes no other filter and no --watch")
    with client_of(flags) as client:
        runs = client.job_log(asked["job"], limit)
    if json:
        print_json({"runs": runs})
    elif not runs and sys.stdout.isatty():
        out(RUNS.empty)
    else:
        print_log(runs)


def _draw(client: Client, asked: dict[str, Any], limit: int) -> None:
    def look() -> tuple[Any, bool]:
        most = min(limit, max(1, console().height - 2))
        return RUNS.table(with_short_ids(client, list(client.runs(**asked, limit=most)))), False

    draw(client, look, types=("run", "progress"), job=asked["job"], tenant=asked["tenant"])


def _follow(client: Client, asked: dict[str, Any], limit: int, json: bool) -> None:
    """Print a line for each run, and again after each change of it. Continue after a restart of the server."""
    seen: dict[str, int] = {}

    def show(run: RunInfo) -> None:
        if seen.get(run.id, 0) < run.internals.seq:
            seen[run.id] = run.internals.seq
            print_json(run) if json else out(RUNS.line(run))

    for _, event in client.events(types=("run",), job=asked["job"], tenant=asked["tenant"], complete=True):
        if isinstance(event, HelloEvent):
            for run in reversed(list(client.runs(**asked, limit=limit))):
                show(run)
        elif isinstance(event, RunEvent):
            if event.transitions[-1].seq > seen.get(event.run_id, 0):
                for run in _read(client, asked, event.run_id):
                    show(run)
            if event.state in TERMINAL:
                seen.pop(event.run_id, None)
        sys.stdout.flush()


def _read(client: Client, asked: dict[str, Any], run_id: str) -> list[RunInfo]:
    """Return the run once the server answers; nothing if it does not match the filter."""
    while True:
        try:
            return [run for run in client.runs(**asked, id_prefix=run_id) if run.id == run_id]
        except (NotRunning, ConnectionLost):
            time.sleep(RETRY)

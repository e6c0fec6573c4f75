"""`interlock runs`."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli import completion, server
from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.output import WrongUsage
from interlock.cli.server import client_of
from interlock.cli.tables import Column, console, out, plain, print_json, rich_table

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.run_view import RunInfo

StateOption = Annotated[
    list[str] | None,
    typer.Option(metavar="STATE", help="Only runs in this state; may be repeated.", autocompletion=completion.states),
]
JobOption = Annotated[
    str | None, typer.Option(metavar="JOB", help="Only runs of this job.", autocompletion=completion.jobs)
]
TenantOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only runs of this tenant.")]
SessionOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only runs of this session.")]
LaneOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only runs in this lane.")]
SinceOption = Annotated[
    str | None, typer.Option(metavar="DURATION|TIME", help="Only runs created since then; 1h is the last hour.")
]

LISTED, LOGGED = 50, 20  # default limits, of a list and of a job's log
RETRY = 1.0  # seconds until a server that does not answer is asked again


@takes(*FINDING)
def command(
    flags: Flags,
    state: StateOption = None,
    job: JobOption = None,
    tenant: TenantOption = None,
    session: SessionOption = None,
    lane: LaneOption = None,
    since: SinceOption = None,
    live: Annotated[
        bool | None, typer.Option("--live/--ended", help="Only runs that have not ended, or only runs that have.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="NUMBER", help=f"Most runs to list; {LISTED}, or {LOGGED} with --output.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing changes until Ctrl-C.")] = False,
    output: Annotated[
        bool, typer.Option("--output", help="With --job: show the first 16 KiB that each run printed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first.

    Piped: id, job, state, attempt, created, started, ended, tenant, lane, session and reason, separated by tabs. With
    `--output`: id, state, origin, due, started, ended, exit code and reason, and below them each printed line after a
    tab."""
    from interlock.model.error import BadValue

    if limit is not None and limit < 1:
        raise BadValue("--limit", limit, "1 or more")
    asked = filter_of(state, job, tenant, session, lane, since) | {"live": live}
    if output:
        _print_log(flags, asked, LOGGED if limit is None else limit, watch, json)
        return
    limit = LISTED if limit is None else limit
    with client_of(flags) as client:
        if watch and sys.stdout.isatty() and not json:
            _draw(client, asked, limit)
        elif watch:
            _follow(client, asked, limit, json)
        else:
            _list(client, asked, limit, json)


def filter_of(
    state: list[str] | None,
    job: str | None,
    tenant: str | None,
    session: str | None,
    lane: str | None,
    since: str | None,
) -> dict[str, Any]:
    """The filter as the client takes it."""
    from interlock.model.error import BadValue
    from interlock.model.field_types import did_you_mean
    from interlock.model.state import POSSIBLE, State

    for one in state or []:
        if one not in list(State):
            raise BadValue("--state", one, f"a state{did_you_mean(one, [*map(str, POSSIBLE)])}")
    when = None if since is None else server.since(since, "--since", time.time())
    return {"state": state or (), "job": job, "tenant": tenant, "session": session, "lane": lane, "since": when}


def _list(client: "Client", asked: dict[str, Any], limit: int, json: bool) -> None:
    if json:
        print_json({"runs": list(client.runs(**asked, limit=limit))})
    elif not sys.stdout.isatty():
        for run in client.runs(**asked, limit=limit):
            out(_line(run))
    else:
        console().print(_table(list(client.runs(**asked, limit=limit + 1)), limit))


def _print_log(flags: Flags, asked: dict[str, Any], limit: int, watch: bool, json: bool) -> None:
    from interlock.cli.format import print_log

    others = {name: value for name, value in asked.items() if name != "job"}
    if asked["job"] is None or watch or any(value not in (None, ()) for value in others.values()):
        raise WrongUsage("--output: needs --job, and takes no other filter and no --watch")
    with client_of(flags) as client:
        runs = client.job_log(asked["job"], limit)
    print_json({"runs": runs}) if json else print_log(runs)


def _line(run: "RunInfo") -> str:
    from interlock.cli.format import exact, why

    times = (exact(run.created_at), exact(run.started_at), exact(run.ended_at))
    cells = (run.id, run.job_id, run.state, run.attempt, *times, run.tenant, run.lane, run.session or "", why(run))
    return "\t".join(plain(cell) for cell in cells)


def _table(runs: "list[RunInfo]", limit: int) -> Any:
    """A table that fits the terminal; the reason is cut before anything else."""
    from rich.console import Group
    from rich.text import Text

    from interlock.cli.format import COLOURS, span, took, why

    now = time.time()
    columns = [Column("run"), Column("job"), Column("state"), Column("age", right=True), Column("took", right=True)]
    columns.append(Column("what", gives_way=True))
    rows = []
    for run in runs[:limit]:
        spent = took(run, now)
        tries = f"try {run.attempt}: " if run.attempt > 1 else ""
        state, what = Text(run.state, style=COLOURS.get(run.state, "")), Text(plain(tries + why(run)))
        rows.append([run.id, run.job_id, state, span(now - run.created_at), "" if spent is None else span(spent), what])
    if not rows:
        return Text("no runs", style="dim")
    note = [Text(f"the newest {limit:,}; for more: --limit", style="dim")] if len(runs) > limit else []
    return Group(rich_table(columns, rows), *note)


def _draw(client: "Client", asked: dict[str, Any], limit: int) -> None:
    from interlock.cli.event_watch import draw

    def look() -> tuple[Any, bool]:
        most = min(limit, max(1, console().height - 5))
        return _table(list(client.runs(**asked, limit=most + 1)), most), False

    draw(client, look, types=("run", "progress"), job=asked["job"], tenant=asked["tenant"])


def _follow(client: "Client", asked: dict[str, Any], limit: int, json: bool) -> None:
    """Print a line for each run, and again whenever it has changed. Goes on after a restart of the server."""
    from interlock.model.run_view import HelloEvent, RunEvent
    from interlock.model.state import TERMINAL

    seen: dict[str, int] = {}

    def show(run: "RunInfo") -> None:
        if seen.get(run.id, 0) < run.internals.seq:
            seen[run.id] = run.internals.seq
            print_json(run) if json else out(_line(run))

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


def _read(client: "Client", asked: dict[str, Any], run_id: str) -> "list[RunInfo]":
    """The run, if it matches the filter, as soon as the server answers."""
    from interlock.model.error import ConnectionLost, NotRunning

    while True:
        try:
            return [run for run in client.runs(**asked, id_prefix=run_id) if run.id == run_id]
        except (NotRunning, ConnectionLost):
            time.sleep(RETRY)

"""`interlock runs`."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli import completion, server
from interlock.cli.format import COLOURS, exact, print_log, span, took, why
from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.output import WrongUsage
from interlock.cli.server import at_least_one, client_of
from interlock.cli.tables import columns_of, console, out, plain, present, print_json, rich_table, tabbed
from interlock.model.error import BadValue, ConnectionLost, NotRunning
from interlock.model.field_types import did_you_mean
from interlock.model.run_view import HelloEvent, RunEvent, RunInfo
from interlock.model.state import POSSIBLE, TERMINAL, State

if TYPE_CHECKING:
    from interlock.client.http.client import Client

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
    at_least_one("--limit", limit)
    asked = filter_of(state, since, job=job, tenant=tenant, session=session, lane=lane) | {"live": live}
    if output:
        _print_log(flags, asked, limit or LOGGED, watch, json)
        return
    most = limit or LISTED
    with client_of(flags) as client:
        if watch and sys.stdout.isatty() and not json:
            _draw(client, asked, most)
        elif watch:
            _follow(client, asked, most, json)
        else:
            present(
                json,
                lambda: {"runs": list(client.runs(**asked, limit=most))},
                lambda: map(_line, client.runs(**asked, limit=most)),
                lambda: _table(list(client.runs(**asked, limit=most + 1)), most),
            )


def filter_of(state: list[str] | None, since: str | None, **others: str | None) -> dict[str, Any]:
    """Return the filter as the client takes it."""
    for one in state or []:
        if one not in list(State):
            raise BadValue("--state", one, f"a state{did_you_mean(one, [*map(str, POSSIBLE)])}")
    when = None if since is None else server.since(since, "--since", time.time())
    return {"state": state or (), "since": when, **others}


def _print_log(flags: Flags, asked: dict[str, Any], limit: int, watch: bool, json: bool) -> None:
    others = {name: value for name, value in asked.items() if name != "job"}
    if asked["job"] is None or watch or any(value not in (None, ()) for value in others.values()):
        raise WrongUsage("--output: needs --job, and takes no other filter and no --watch")
    with client_of(flags) as client:
        runs = client.job_log(asked["job"], limit)
    print_json({"runs": runs}) if json else print_log(runs)


def _line(run: RunInfo) -> str:
    times = (exact(run.created_at), exact(run.started_at), exact(run.ended_at))
    return tabbed(run.id, run.job_id, run.state, run.attempt, *times, run.tenant, run.lane, run.session, why(run))


def _table(runs: list[RunInfo], limit: int) -> Any:
    """Return a table that fits the terminal; the reason is cut before anything else."""
    from rich.console import Group
    from rich.text import Text

    now = time.time()
    rows = []
    for run in runs[:limit]:
        spent = took(run, now)
        tries = f"try {run.attempt}: " if run.attempt > 1 else ""
        state, what = Text(run.state, style=COLOURS.get(run.state, "")), Text(plain(tries + why(run)))
        rows.append([run.id, run.job_id, state, span(now - run.created_at), "" if spent is None else span(spent), what])
    if not rows:
        return Text("no runs", style="dim")
    note = [Text(f"the newest {limit:,}; for more: --limit", style="dim")] if len(runs) > limit else []
    return Group(rich_table(columns_of("run, job, state, >age, >took, ~what"), rows), *note)


def _draw(client: "Client", asked: dict[str, Any], limit: int) -> None:
    from interlock.cli.event_watch import draw

    def look() -> tuple[Any, bool]:
        most = min(limit, max(1, console().height - 5))
        return _table(list(client.runs(**asked, limit=most + 1)), most), False

    draw(client, look, types=("run", "progress"), job=asked["job"], tenant=asked["tenant"])


def _follow(client: "Client", asked: dict[str, Any], limit: int, json: bool) -> None:
    """Print a line for each run, and again whenever it has changed. Go on after a restart of the server."""
    seen: dict[str, int] = {}

    def show(run: RunInfo) -> None:
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


def _read(client: "Client", asked: dict[str, Any], run_id: str) -> list[RunInfo]:
    """Return the run, if it matches the filter, as soon as the server answers."""
    while True:
        try:
            return [run for run in client.runs(**asked, id_prefix=run_id) if run.id == run_id]
        except (NotRunning, ConnectionLost):
            time.sleep(RETRY)

"""`interlock runs`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.client.http.client import Client
    from interlock.model.run_view import RunInfo

StateOption = Annotated[list[str] | None, typer.Option(metavar="STATE", help="Only in this state; may be repeated.")]
JobOption = Annotated[str | None, typer.Option(metavar="JOB", help="Only of this job.")]
TenantOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only of this tenant.")]
SessionOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only of this session.")]
LaneOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Only in this lane.")]
SinceOption = Annotated[
    str | None, typer.Option(metavar="DURATION|TIME", help="Only created since then: 1h is the last hour.")
]

LISTED, LOGGED = 50, 20
"""runs that are shown if it is not said how many, in a list and in a job's log"""
REFRESH = 1.0
"""seconds after which a live table is drawn again even if nothing happened: ages grow"""


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
        bool | None, typer.Option("--live/--ended", help="Only those that have not ended, or only those that have.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="NUMBER", help=f"How many at the most; {LISTED}, or {LOGGED} with --output.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing changes until Ctrl-C.")] = False,
    output: Annotated[
        bool, typer.Option("--output", help="With --job: its log, each run with the first 16 KiB of what it printed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List runs, the newest first.

    Piped: id, job, state, attempt, created, started, ended, tenant, lane, session and reason, with tabs between
    them. With `--output`: id, state, origin, due, started, ended, exit code and reason, and below them each line that
    was printed, after a tab."""
    import sys

    from interlock.cli.server import client_of
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
    """Which runs are meant, as the client takes it."""
    import time

    from interlock.cli.server import since as instant
    from interlock.model.error import BadValue
    from interlock.model.field_types import did_you_mean
    from interlock.model.state import State

    for one in state or []:
        if one not in list(State):
            raise BadValue("--state", one, f"a state{did_you_mean(one, [state.value for state in State])}")
    when = None if since is None else instant(since, "--since", time.time())
    return {"state": state or (), "job": job, "tenant": tenant, "session": session, "lane": lane, "since": when}


def _list(client: "Client", asked: dict[str, Any], limit: int, json: bool) -> None:
    import sys

    from interlock.cli.tables import out, print_json

    if json:
        print_json({"runs": list(client.runs(**asked, limit=limit))})
    elif not sys.stdout.isatty():
        for run in client.runs(**asked, limit=limit):
            out(_line(run))
    else:
        from interlock.cli.tables import console

        console().print(_table(list(client.runs(**asked, limit=limit + 1)), limit))


def _print_log(flags: Flags, asked: dict[str, Any], limit: int, watch: bool, json: bool) -> None:
    from interlock.cli.format import print_log
    from interlock.cli.output import WrongUsage
    from interlock.cli.server import client_of
    from interlock.cli.tables import print_json

    others = {name: value for name, value in asked.items() if name != "job"}
    if asked["job"] is None or watch or any(value not in (None, ()) for value in others.values()):
        raise WrongUsage("--output is for the runs of one job: give it with --job, and no other choice")
    with client_of(flags) as client:
        runs = client.job_log(asked["job"], limit)
    print_json({"runs": runs}) if json else print_log(runs)


def _line(run: "RunInfo") -> str:
    from interlock.cli.format import exact, why
    from interlock.cli.tables import plain

    times = (exact(run.created_at), exact(run.started_at), exact(run.ended_at))
    cells = (run.id, run.job_id, run.state, run.attempt, *times, run.tenant, run.lane, run.session or "", why(run))
    return "\t".join(plain(cell) for cell in cells)


def _table(runs: "list[RunInfo]", limit: int) -> Any:
    """What fits a terminal: the reason is cut before anything else."""
    import time

    from rich.console import Group
    from rich.text import Text

    from interlock.cli.format import COLOURS, span, took, why
    from interlock.cli.tables import Column, plain, rich_table

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
    """A table that stays current. A server that goes away is waited for."""
    from rich.live import Live
    from rich.text import Text

    from interlock.cli.event_watch import Watcher
    from interlock.cli.tables import console
    from interlock.model.error import ConnectionLost, NotRunning

    screen = console()
    shown: Any = Text("")
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        for _ in Watcher(client, types=("run", "progress"), job=asked["job"], tenant=asked["tenant"]).looks(REFRESH):
            try:
                height = max(1, screen.height - 5)
                shown = _table(list(client.runs(**asked, limit=min(limit, height) + 1)), min(limit, height))
                live.update(shown, refresh=True)
            except (NotRunning, ConnectionLost) as error:
                from rich.console import Group

                live.update(Group(shown, Text(f"{error}; waiting for it", style="yellow")), refresh=True)


def _follow(client: "Client", asked: dict[str, Any], limit: int, json: bool) -> None:
    """Lines instead of a drawing: each run as it is, then again whenever it has changed. It survives the server."""
    import sys

    from interlock.cli.tables import out, print_json
    from interlock.model.run_view import HelloEvent, RunEvent
    from interlock.model.state import TERMINAL

    seen: dict[str, int] = {}

    def show(run: "RunInfo") -> None:
        if seen.get(run.id, 0) < run.seq:
            seen[run.id] = run.seq
            if fits(run, asked):
                print_json(run) if json else out(_line(run))

    for _, event in client.events(types=("run",), job=asked["job"], tenant=asked["tenant"], complete=True):
        if isinstance(event, HelloEvent):
            for run in reversed(list(client.runs(**asked, limit=limit))):
                show(run)
        elif isinstance(event, RunEvent):
            if event.transitions[-1].seq > seen.get(event.run_id, 0):
                show(_read(client, event.run_id))
            if event.state in TERMINAL:
                seen.pop(event.run_id, None)
        sys.stdout.flush()


def _read(client: "Client", run_id: str) -> "RunInfo":
    """As soon as the server answers."""
    import time

    from interlock.model.error import ConnectionLost, NotRunning

    while True:
        try:
            return client.get(run_id)
        except (NotRunning, ConnectionLost):
            time.sleep(REFRESH)


def fits(run: "RunInfo", asked: dict[str, Any]) -> bool:
    """Whether a list that is asked for so has this run."""
    from interlock.model.state import TERMINAL

    return (
        (not asked["state"] or run.state in asked["state"])
        and all(asked[name] in (None, getattr(run, name)) for name in ("session", "lane", "tenant"))
        and asked["job"] in (None, run.job_id)
        and (asked["since"] is None or run.created_at >= asked["since"])
        and asked["live"] in (None, run.state not in TERMINAL)
    )

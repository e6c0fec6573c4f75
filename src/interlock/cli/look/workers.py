"""`interlock workers`."""

import sys
from typing import Annotated, Any

from msgspec.structs import replace

from interlock.cli.draw.event_watch import draw, looks
from interlock.cli.draw.format import counted, span
from interlock.cli.draw.tables import (
    columns_of,
    console,
    each,
    json_text,
    out,
    present,
    report_each,
    rich_table,
    tabbed,
)
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.server import MOST_NAMED, client_of
from interlock.client.http.client import Client
from interlock.error import BadValue, InterlockError, UnknownWorker
from interlock.fields.field_types import did_you_mean
from interlock.model.worker_info import WorkerAction, WorkerInfo, WorkerState

COLOURS = {
    WorkerState.READY: "green",
    WorkerState.OVERLOADED: "yellow",
    WorkerState.SILENT: "red",
    WorkerState.AWAY: "red",
}


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str | None,
        argument(
            "[drain|resume|remove]",
            "Action on the workers named after it.",
            lambda incomplete: [one for one in map(str, WorkerAction) if one.startswith(incomplete)],
        ),
    ] = None,
    named: Annotated[
        list[str] | None, argument("[WORKER]...", "Ids of workers, or their beginnings.", completion.workers)
    ] = None,
    pool: Annotated[str | None, option("TEXT", "Only workers of this pool.")] = None,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--watch")] = False,
    json: JsonOption = False,
) -> None:
    """List workers with their state and load; or drain, resume or remove the workers you name.

    A drained worker finishes its runs and gets no others until `resume`, even after a broken link or a restart of the
    scheduler. A removed worker finishes its runs and leaves; one that is away is forgotten, and its runs are retried
    elsewhere. `interlock up` replaces its own workers: to stop one, use `interlock service stop`.

    Piped: id, pool, region, state, runs, slots, CPU, memory and GPU in percent, seconds since the last sign of life,
    seconds by which its clock is ahead, capabilities, labels and tenants, separated by tabs."""
    if action is not None and action not in (words := list(map(str, WorkerAction))):
        raise BadValue("action", action, f"one of {', '.join(words)}{did_you_mean(action, words)}")
    if action is not None and (pool is not None or watch):
        raise WrongUsage(f"--pool and --watch cannot be combined with {action}: name the workers")
    with client_of(flags) as client:
        if action is not None:
            _act(client, WorkerAction(action), named or [], json)
        elif watch and sys.stdout.isatty() and not json:
            draw(client, lambda: (_table(client.workers(pool), console().height - 2), False), types=("service",))
        elif watch:
            _follow(client, pool, json)
        else:
            found = client.workers(pool)
            present(json, lambda: {"workers": found}, lambda: map(_line, found), lambda: _table(found))


def _line(one: WorkerInfo) -> str:
    load = (f"{number:.0f}" for number in (one.cpu, one.memory, one.gpu))
    times = (f"{seconds:.3f}" for seconds in (one.heard_ago, one.skew))
    labels = ",".join(f"{name}={value}" for name, value in one.labels.items())
    tenants = None if one.tenants is None else ",".join(one.tenants)
    return tabbed(
        one.id, one.pool, one.region, one.state, one.active, one.slots, *load, *times, ",".join(one.capabilities),
        labels, tenants,
    )  # fmt: skip


def _table(workers: list[WorkerInfo], most: int = sys.maxsize) -> Any:
    from rich.console import Group
    from rich.text import Text

    if not workers:
        return Text("no workers", style="dim")
    shown = workers if len(workers) <= most else workers[: most - 1]
    columns, rows = columns_of("worker, pool, state, >runs, >cpu, >memory, >gpu, >heard, ~offers"), []
    for one in shown:
        offers = [*one.capabilities, *(f"{name}={value}" for name, value in one.labels.items())]
        load = (f"{number:.0f}%" if number else "" for number in (one.cpu, one.memory, one.gpu))
        state = Text(one.state, style=COLOURS.get(one.state, ""))
        rows.append(
            [one.id, one.pool, state, f"{one.active}/{one.slots}", *load, span(one.heard_ago), " ".join(offers)]
        )
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    table = rich_table([columns[place] for place in kept], [[row[place] for place in kept] for row in rows])
    left = len(workers) - len(shown)
    return Group(table, Text(f"… and {left:,} more", style="dim")) if left else table


def _follow(client: Client, pool: str | None, json: bool) -> None:
    """Print a line for each worker, and again when anything but its load has changed; in JSON, print all of them."""
    known: dict[str, WorkerInfo] = {}
    client.workers(pool)  # without a server this raises
    for found in looks(client, lambda: client.workers(pool), types=("service",)):
        if isinstance(found, InterlockError):
            continue
        steady = {one.id: replace(one, cpu=0, memory=0, gpu=0, heard_ago=0, skew=0) for one in found}
        if json and steady != known:
            out(json_text({"workers": found}))
        for one in [] if json else found:
            if steady[one.id] != known.get(one.id):
                out(_line(one))
        for worker_id in [] if json else known.keys() - steady.keys():
            out(tabbed(worker_id, None, None, "gone"))
        known = steady
        sys.stdout.flush()


def _act(client: Client, action: WorkerAction, named: list[str], json: bool) -> None:
    if not named:
        raise WrongUsage(f"name the workers to {action}; 'interlock workers' lists them")
    known = [worker.id for worker in client.workers()]
    done = each(named, lambda name: client.act_on_worker(_find(name, known), action), UnknownWorker, BadValue)
    report_each(done, json, "workers", lambda one: _sentence(one, action) if sys.stdout.isatty() else _line(one))


def _find(given: str, known: list[str]) -> str:
    """Return the id that begins so, or has this name before its pid; an unknown id is reported when it is used."""
    if not given or given in known:
        return given
    found = [one for one in known if one.startswith(f"{given}-")] or [one for one in known if one.startswith(given)]
    if len(found) > 1:
        raise BadValue("worker", given, f"enough of an id: it begins {', '.join(found[:MOST_NAMED])}")
    return found[0] if found else given


def _sentence(one: WorkerInfo, action: WorkerAction) -> str:
    runs = counted(one.active, "run")
    if action is WorkerAction.REMOVE and one.state is WorkerState.AWAY:
        return f"{one.id} is forgotten" + (f"; {runs} will be retried elsewhere" if one.active else "")
    if action is WorkerAction.RESUME:
        return f"{one.id} gets runs again"
    what = f"finishes {runs}" if one.active else "has no runs"
    if action is WorkerAction.DRAIN:
        return f"{one.id} gets nothing new, and {what}"
    return f"{one.id} {what} and leaves; if 'interlock up' has started it, another one takes its place"

"""`interlock workers`."""

import sys
from typing import Annotated, Any

from msgspec.structs import replace

from interlock.cli.draw.event_watch import draw, follow
from interlock.cli.draw.format import counted
from interlock.cli.draw.listing import LENGTH, PIPE, SCREEN, Column, Form, Listing, piped
from interlock.cli.draw.tables import console, each, json_text, report_each
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.output import WrongUsage, check_choice
from interlock.cli.shared.server import client_of
from interlock.client.http.client import Client
from interlock.error import Ambiguous, BadValue, UnknownWorker
from interlock.model.pool import WorkerAction, WorkerInfo, WorkerState

COLOURS = {
    WorkerState.READY: "green",
    WorkerState.OVERLOADED: "yellow",
    WorkerState.SILENT: "red",
    WorkerState.AWAY: "red",
}
PERCENT = Form(lambda number, _: f"{number:.0f}%" if number else "", "{:.0f}".format, right=True)
POOL_NAMES = completion.names(lambda client: ((pool.id, pool.status.value) for pool in client.pools()))
NAMES = Form(lambda names, _: " ".join(names), ",".join)


def _labels(worker: WorkerInfo) -> list[str]:
    return [f"{name}={value}" for name, value in worker.labels.items()]


def _link(worker: WorkerInfo) -> str | None:
    """Say how a worker on another machine is connected; its id begins with the name of its token."""
    token, colon, _ = worker.id.partition(":")
    if not colon or worker.state is WorkerState.AWAY:
        return None
    return f"remote, token {token}"


WORKERS = Listing[WorkerInfo](
    "workers",
    "no workers are connected",
    Column("worker", "id"),
    Column("pool"),
    Column("connected", _link, on=SCREEN, spare=1),
    *piped("region"),
    Column("state", colours=COLOURS),
    Column("runs", lambda worker: f"{worker.active}/{worker.slots}", on=SCREEN),
    *piped("active", "slots"),
    Column("cpu", form=PERCENT),
    Column("memory", form=PERCENT),
    Column("gpu", form=PERCENT),
    Column("heard", "heard_ago", LENGTH),
    Column("skew", form=LENGTH, on=PIPE),
    Column("offers", lambda worker: [*worker.capabilities, *_labels(worker)], NAMES, SCREEN, gives_way=True),
    Column("capabilities", form=NAMES, on=PIPE),
    Column("labels", _labels, NAMES, PIPE),
    Column("tenants", form=NAMES, on=PIPE),
)


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str | None,
        argument("[drain|resume|remove]", "Action on the workers named after it.", completion.of(*WorkerAction)),
    ] = None,
    named: Annotated[
        list[str] | None, argument("[WORKER]...", "Ids of workers, or their beginnings.", completion.workers)
    ] = None,
    pool: Annotated[str | None, option("TEXT", "Only workers of this pool.", autocompletion=POOL_NAMES)] = None,
    watch: Annotated[bool, switch("Keep showing changes until Ctrl-C.", "--watch")] = False,
    json: JsonOption = False,
) -> None:
    """List workers with their state and load; or drain, resume or remove the workers you name.

    A drained worker finishes its runs and gets no others until `resume`, even after a broken link or a restart of the
    scheduler. A removed worker finishes its runs and leaves; one that is away is forgotten, and its runs are retried
    elsewhere. `interlock up` replaces its own workers: to stop one, use `interlock service stop`.

    Piped: id, pool, region, state, runs, slots, CPU, memory and GPU in percent, seconds since the last sign of life,
    seconds by which its clock is ahead, capabilities, labels and tenants, separated by tabs."""
    check_choice("action", action, WorkerAction)
    if action is not None and (pool is not None or watch):
        raise WrongUsage(f"--pool and --watch cannot be combined with {action}: name the workers")
    with client_of(flags) as client:
        if action is not None:
            _act(client, WorkerAction(action), named or [], json)
        elif watch and sys.stdout.isatty() and not json:
            draw(client, lambda: (_screen(client.workers(pool)), False), types=("service",))
        elif watch:
            follow(client, lambda: _lines(client.workers(pool), json), "\t\tgone", types=("service",))
        else:
            WORKERS.show(json, client.workers(pool))


def _screen(workers: list[WorkerInfo]) -> Any:
    return WORKERS.table(workers, most=console().height - 2)


def _lines(workers: list[WorkerInfo], json: bool) -> dict[str, tuple[Any, str]]:
    """Return the line of each worker, and all but its load: only a change of that is worth another line."""
    steady = [replace(worker, cpu=0, memory=0, gpu=0, heard_ago=0, skew=0) for worker in workers]
    if json:
        return {"": (steady, json_text({"workers": workers}))}
    return {worker.id: (same, WORKERS.line(worker)) for worker, same in zip(workers, steady, strict=True)}


def _act(client: Client, action: WorkerAction, named: list[str], json: bool) -> None:
    if not named:
        raise WrongUsage(f"name the workers to {action}; 'interlock workers' lists them")
    known = [worker.id for worker in client.workers()]
    done = each(named, lambda name: client.act_on_worker(_find(name, known), action), UnknownWorker, BadValue)
    report_each(done, json, "workers", lambda one: _sentence(one, action) if sys.stdout.isatty() else WORKERS.line(one))


def _find(given: str, known: list[str]) -> str:
    """Return the id that begins so, or has this name before its pid; an unknown id is reported when it is used."""
    if not given or given in known:
        return given
    found = [one for one in known if one.startswith(f"{given}-")] or [one for one in known if one.startswith(given)]
    if len(found) > 1:
        raise Ambiguous("worker", given, found)
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

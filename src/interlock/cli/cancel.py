"""`interlock cancel`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.options import FINDING, Flags, JsonOption, takes
from interlock.cli.output import WrongUsage, say
from interlock.cli.runs import JobOption, LaneOption, SessionOption, SinceOption, StateOption, TenantOption

if TYPE_CHECKING:
    from interlock.client.http.client import Client


@takes(*FINDING)
def command(
    flags: Flags,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Ids of runs; 'latest' or '-' is the newest.")
    ] = None,
    state: StateOption = None,
    job: JobOption = None,
    tenant: TenantOption = None,
    session: SessionOption = None,
    lane: LaneOption = None,
    since: SinceOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the run.")] = "cancelled",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
) -> None:
    """Stop runs: those that are named, or all that have not ended and fit the options."""
    from interlock.cli.runs import filter_of
    from interlock.cli.server import client_of, run_of

    asked = filter_of(state, job, tenant, session, lane, since)
    filtered = everything or any(asked.values())
    if bool(runs) == filtered:
        raise WrongUsage("name the runs to cancel, or choose them with options like --job or --all; not both")
    with client_of(flags) as client:
        if runs:
            _cancel(client, [run_of(client, one) for one in runs], reason, json)
            return
        found = [run.id for run in client.runs(**asked, live=True)]
        if not found:
            say("no run to cancel")
        elif not yes:
            _ask(len(found))
        _cancel(client, found, reason, json)


def _ask(count: int) -> None:
    """Go on only if a person says so."""
    import sys

    if not sys.stdin.isatty():
        raise WrongUsage(f"nobody can be asked whether to cancel {_count(count)}: add --yes")
    # Not on standard output, which may be a pipe.
    sys.stderr.write(f"Cancel {_count(count)}? [y/N]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


def _count(runs: int) -> str:
    return f"{runs:,} {'run' if runs == 1 else 'runs'}"


def _cancel(client: "Client", found: list[str], reason: str, json: bool) -> None:
    """Each of them, whatever comes of the others; raises the first error at the end."""
    from interlock.cli.tables import out, print_json
    from interlock.model.error import UnknownRun

    failure: UnknownRun | None = None
    told: list[dict[str, Any]] = []
    try:
        for run_id in found:
            try:
                state = client.cancel(run_id, reason)
            except UnknownRun as error:
                failure = failure or error
                continue
            told.append({"id": run_id, "state": state})
            if not json:
                out(f"{run_id}\t{state}")
    finally:
        if json:
            print_json({"runs": told})
    if failure is not None:
        raise failure

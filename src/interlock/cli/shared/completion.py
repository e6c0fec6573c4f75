"""Shell completion of names and ids, such as those of jobs, runs and workers. Without a server, it offers nothing."""

import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import typer

from interlock.cli.shared.options import FINDING, Flags
from interlock.client.http.client import Client
from interlock.model.state import State
from interlock.model.workflow_info import WorkflowStatus

MOST = 200
PATIENCE = "1s"

Completions = list[tuple[str, str]]  # values, each with a line of help
Completer = Callable[[typer.Context, str], Completions]


def names(find: Callable[[Client], Iterable[tuple[str, str]]]) -> Completer:
    """Return a completion by names that a client finds."""
    return lambda ctx, incomplete: _ask(ctx, incomplete, find)


jobs = names(lambda client: ((job.id, job.schedule_text or "") for job in client.jobs()))
services = names(lambda client: ((service.name, service.status.value) for service in client.services()))
lanes = names(lambda client: ((lane.id, lane.status.value) for lane in client.lanes()))
nodes = names(lambda client: ((node.name, "leads" if node.leads else "") for node in client.cluster().nodes))
workers = names(lambda client: ((worker.id, worker.state.value) for worker in client.workers()))
sessions = names(
    lambda client: (
        (session.key, f"{session.active} active, {session.waiting} waiting") for session in client.sessions()
    )
)


halted = names(
    lambda client: (
        (workflow.run_id, f"{workflow.job_id} halted") for workflow in client.workflows(status=WorkflowStatus.HALTED)
    )
)


def runs(ctx: typer.Context, incomplete: str) -> Completions:
    def find(client: Client) -> Iterable[tuple[str, str]]:
        found = client.runs(id_prefix=incomplete or None, limit=MOST)
        return ((run.id, f"{run.job_id} {run.state}") for run in found)

    return _ask(ctx, incomplete, find)


def logged(ctx: typer.Context, incomplete: str) -> Completions:
    return services(ctx, incomplete) + runs(ctx, incomplete)


def states(incomplete: str) -> list[str]:
    return [str(state) for state in State if state.startswith(incomplete)]


def of(*words: str) -> Callable[[str], list[str]]:
    """Return the completion of fixed words."""
    return lambda incomplete: [str(word) for word in words if word.startswith(incomplete)]


def _ask(ctx: typer.Context, incomplete: str, find: Callable[[Client], Iterable[tuple[str, str]]]) -> Completions:
    logging.disable()
    given: dict[str, Any] = ctx.params
    try:
        flags = Flags({name: given.get(name) for name in FINDING}, given.get("config"))
        resolved = flags.resolve()
        url, token = flags.url(resolved), resolved.client.token
        with Client(url, token=token, timeout=PATIENCE, patience=0, first_contact=0) as client:
            return list(islice((one for one in find(client) if one[0].startswith(incomplete)), MOST))
    except Exception:  # noqa: BLE001 - whatever is wrong, a person who types is not the one to hear of it
        return []

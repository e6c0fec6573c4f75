"""`interlock worker`."""

import os
from typing import Annotated

from interlock.cli.shared.options import Flags, option, takes

WHERE = ("pool", "worker_labels", "capabilities")
LOGGING = ("log_level", "log_format", "echo")
ELSEWHERE = ("nodes", "ca", "fingerprint", "worker_token_file")


@takes("app", "socket", "slots", "processes", *WHERE, "drain", "memory_limit", "lifespan_timeout", *LOGGING, *ELSEWHERE)
def command(flags: Flags, name: Annotated[str, option("TEXT", "First part of the worker's id.")] = "worker") -> None:
    """Run a worker for a scheduler on this machine or, with --node, on another one.

    Without an app, it takes only jobs that need no app. With --node, it also needs a token, in the variable
    INTERLOCK_WORKER_TOKEN or in a file."""
    from interlock import runtime
    from interlock.error import BadValue
    from interlock.error_lines import say
    from interlock.fields.field import copy_fields
    from interlock.log_lines import log_to_stderr
    from interlock.model.access import Role
    from interlock.model.job import NAME
    from interlock.wiring.node_links import WORKER_TOKEN, reach_of
    from interlock.wiring.worker import WorkerOptions, run_worker

    resolved = flags.resolve()
    settings = resolved.settings
    log_to_stderr(settings.log_level, settings.log_format)
    if not NAME.fullmatch(name) or len(name) > 32:
        raise BadValue("--name", name, "a name of letters, digits, '_', '-' and '.', up to 32 long")
    reach = reach_of(settings, Role.WORKER)
    where = ", ".join(reach.nodes)
    options = copy_fields(WorkerOptions, settings, reach=reach, waits=bool(where), name=name, path=[], instance="")
    # Tokens are for the scheduler, not for handlers.
    for variable in (WORKER_TOKEN, *(token.env for token in settings.tokens if token.env is not None)):
        os.environ.pop(variable, None)

    def welcomed(worker_id: str) -> None:
        if where:
            say(f"{worker_id} is connected to {where}: pool {options.pool}, {options.slots} slots")

    runtime.run(run_worker(options, welcomed))

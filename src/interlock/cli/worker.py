"""`interlock worker`."""

import os
from typing import Annotated

from interlock.cli.options import Flags, option, takes

WHERE = ("pool", "worker_labels", "capabilities")
LOGGING = ("log_level", "log_format", "echo")


@takes("app", "socket", "slots", "processes", *WHERE, "drain", "memory_limit", "lifespan_timeout", *LOGGING)
def command(flags: Flags, name: Annotated[str, option("TEXT", "First part of the worker's id.")] = "worker") -> None:
    """Run another worker for a scheduler on this machine. Without an app, it takes only jobs that need no app."""
    from interlock import runtime
    from interlock.cli.log_lines import log_to_stderr
    from interlock.model.error import BadValue
    from interlock.model.field import copy_fields
    from interlock.model.job import NAME
    from interlock.wiring.worker import WorkerOptions, run_worker

    settings = flags.resolve().settings
    log_to_stderr(settings.log_level, settings.log_format)
    if not NAME.fullmatch(name) or len(name) > 32:
        raise BadValue("--name", name, "a name of letters, digits, '_', '-' and '.', up to 32 long")
    options = copy_fields(WorkerOptions, settings, socket=str(settings.socket_path()), name=name, path=[], instance="")
    for token in settings.tokens:
        # Tokens are for the scheduler's gateway, not for handlers.
        if token.env is not None:
            os.environ.pop(token.env, None)
    runtime.run(run_worker(options))

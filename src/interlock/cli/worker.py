"""`interlock worker`."""

import os

import uvloop

from interlock.cli.output import log_to_stderr
from interlock.model.duration import seconds
from interlock.model.error import BadValue
from interlock.model.job import NAME
from interlock.wiring import WorkerOptions, run_worker


def run(
    *,
    target: str,
    socket: str,
    name: str,
    slots: int,
    processes: int,
    drain: str,
    memory_limit: int,
    log_level: str,
    log_format: str,
) -> None:
    log_to_stderr(log_level, log_format)
    if not NAME.fullmatch(name) or len(name) > 32:
        raise BadValue("--name", name, "a name of letters, digits, '_', '-' and '.', up to 32 long")
    options = WorkerOptions(
        app=target,
        socket=os.path.abspath(socket),
        name=name,
        slots=slots,
        processes=processes,
        drain=seconds(drain, "--drain"),
        memory_limit=memory_limit,
    )
    uvloop.run(run_worker(options))

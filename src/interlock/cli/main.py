"""The commands."""

import sys
from typing import Annotated

import typer

from interlock.cli.output import one_line_errors

app = typer.Typer(
    name="interlock",
    help="A job scheduler and orchestrator for work that must not go wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AppOption = Annotated[str, typer.Option("--app", "-A", metavar="MODULE:VARIABLE", help="Where the app is defined.")]
SlotsOption = Annotated[int, typer.Option(help="How many runs a worker executes at once.")]
ProcessesOption = Annotated[int, typer.Option(help="How many of them in a process of their own, besides.")]
HeartbeatOption = Annotated[str, typer.Option(help="How often a worker says that its work is alive.")]
DrainOption = Annotated[str, typer.Option(help="How long work may go on after the first Ctrl-C.")]
MemoryOption = Annotated[int, typer.Option(help="Bytes an executor process may allocate; 0 is no limit.")]
LevelOption = Annotated[str, typer.Option(help="debug, info, warning or error. Transitions are logged at info.")]
FormatOption = Annotated[str, typer.Option(help="text or json.")]


@app.command()
def up(
    app: AppOption,
    database: Annotated[str, typer.Option("--db", help="The SQLite file; ':memory:' keeps nothing.")] = "interlock.db",
    socket: Annotated[str | None, typer.Option(help="The Unix socket; beside the database by default.")] = None,
    workers: Annotated[int, typer.Option(help="How many worker processes to run.")] = 1,
    slots: SlotsOption = 64,
    processes: ProcessesOption = 2,
    lane: Annotated[list[str] | None, typer.Option(metavar="NAME=LIMIT", help="Set a lane's limit.")] = None,
    submit: Annotated[
        list[str] | None, typer.Option(metavar="JOB", help="Submit this job at start, unless a run of it is live.")
    ] = None,
    heartbeat: HeartbeatOption = "10s",
    drain: DrainOption = "5s",
    memory_limit: MemoryOption = 0,
    log_level: LevelOption = "warning",
    log_format: FormatOption = "text",
    table: Annotated[bool | None, typer.Option(help="Show a live table; on by default in a terminal.")] = None,
) -> None:
    """Run the scheduler with its workers. Ctrl-C stops it in order, a second one at once."""
    from interlock.cli.up import run_up

    with one_line_errors():
        run_up(
            target=app,
            database=database,
            socket=socket,
            workers=workers,
            slots=slots,
            processes=processes,
            lanes=lane or [],
            submit=submit or [],
            heartbeat=heartbeat,
            drain=drain,
            memory_limit=memory_limit,
            log_level=log_level,
            log_format=log_format,
            table=table,
        )


@app.command()
def worker(
    app: AppOption,
    socket: Annotated[
        str, typer.Option(envvar="INTERLOCK_SOCKET", help="The scheduler's socket.")
    ] = "interlock.db.sock",
    name: Annotated[str, typer.Option(help="The first part of the worker's id.")] = "worker",
    slots: SlotsOption = 64,
    processes: ProcessesOption = 2,
    drain: DrainOption = "5s",
    memory_limit: MemoryOption = 0,
    log_level: LevelOption = "warning",
    log_format: FormatOption = "text",
) -> None:
    """Run one more worker for a scheduler on this machine."""
    from interlock.cli.worker import run

    with one_line_errors():
        run(
            target=app,
            socket=socket,
            name=name,
            slots=slots,
            processes=processes,
            drain=drain,
            memory_limit=memory_limit,
            log_level=log_level,
            log_format=log_format,
        )


@app.command()
def bench(
    runs: Annotated[int, typer.Option(help="How many runs each end-to-end measurement takes.")] = 50_000,
    waiting: Annotated[int, typer.Option(help="How many waiting runs the memory measurement uses.")] = 100_000,
    rounds: Annotated[int, typer.Option(help="How often each is measured; the median counts.")] = 3,
    output: Annotated[str | None, typer.Option(help="Write the figures to this file as JSON.")] = None,
) -> None:
    """Measure this machine: raw SQLite, Interlock end to end, Huey if it is installed, latency, memory."""
    from interlock.bench.report import run_bench

    with one_line_errors():
        run_bench(runs=runs, waiting=waiting, rounds=rounds, output=output)


def main() -> None:
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

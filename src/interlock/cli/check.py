"""`interlock check`."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from interlock.cli.options import Flags, JsonOption, takes

if TYPE_CHECKING:
    from interlock.config.faults import Faults
    from interlock.model.job import Job

Row = tuple[str, str, float | None, str]
"""job, its schedule in words, when it fires next, where it is declared"""


@takes("app", "strict")
def command(
    flags: Flags,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files and folders; by default those of the settings.")
    ] = None,
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of documents instead.")] = False,
) -> None:
    """Check files with jobs and services, without a server: say all that is wrong, or when each job fires next.

    Piped: job, schedule, next time and where it is declared, with a tab between them."""
    import sys
    import time
    from contextlib import redirect_stdout

    from interlock.cli.output import WrongUsage, safe, say
    from interlock.cli.tables import print_json
    from interlock.config.documents import read
    from interlock.config.faults import Faults
    from interlock.config.sources import NO_APP, build, of_app
    from interlock.model.error import BadConfig

    if schema:
        from interlock.config.schema import documents_schema

        print_json(documents_schema(), indent=True)
        return
    settings = flags.given(files=paths or None).resolve().settings
    if not settings.files and settings.app is None:
        raise WrongUsage("PATH: not given, and it must be: the files and folders to check")
    with redirect_stdout(sys.stderr):  # what an app prints is none of our output
        app = NO_APP if settings.app is None else of_app(settings.app)
    faults, now = Faults(settings.strict), time.time()
    try:
        loaded = build(read(settings.files, faults), faults, app, now)
    except BadConfig:
        _refuse(faults, json)
    declared = [(one.job, one.where) for one in app.definitions.values()]
    declared += [(one.job, one.source) for one in loaded.jobs]
    rows = [(job.id, str(job.schedule or ""), _next(job, now), where) for job, where in declared]
    if json:
        jobs = [dict(zip(("id", "schedule", "next_at", "source"), row, strict=True)) for row in rows]
        print_json({"ok": True, "faults": [], "warnings": loaded.warnings, "jobs": jobs})
        return
    for warning in loaded.warnings:
        say(f"warning: {safe(warning)}")
    _print(rows, now)
    say(f"fine: {loaded.counted(len(app.definitions))}")


def _refuse(faults: "Faults", json: bool) -> NoReturn:
    """Say what is wrong as every command does, but all of it."""
    from interlock.cli.output import Exit, safe, say
    from interlock.cli.tables import print_json

    if json:
        print_json({"ok": False, "faults": faults.lines(), "warnings": faults.warnings, "jobs": []})
        raise typer.Exit(Exit.USAGE)
    for warning in faults.warnings:
        say(f"warning: {safe(warning)}")
    faults.check(most=len(faults))
    raise AssertionError("there are faults")


def _next(job: "Job", now: float) -> float | None:
    """When it would fire first, were it known from now on."""
    from interlock.core.fire_times import first_time

    at = None if job.schedule is None else first_time(job.schedule, now)
    return None if at is None or job.schedule is None else at + job.schedule.offset(job.id)


def _print(rows: list[Row], now: float) -> None:
    import sys

    from interlock.cli.format import ago, exact, local
    from interlock.cli.tables import Column, print_table

    def told(at: float | None) -> str:
        """A person reads how long it is until then, too."""
        return exact(at) if at is None or not sys.stdout.isatty() else f"{local(at)[:19]}, {ago(at, now)}"

    if rows:
        columns = [Column("job"), Column("schedule"), Column("next"), Column("declared", gives_way=True)]
        print_table(columns, [(job_id, schedule, told(at), where) for job_id, schedule, at, where in rows])

"""`interlock check`."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from interlock.cli.options import Flags, JsonOption, takes
from interlock.cli.zones import ZoneOption

if TYPE_CHECKING:
    from interlock.config.faults import Faults
    from interlock.model.job import Job


@takes("app", "strict", "lanes")
def command(
    flags: Flags,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files and folders. Default: those of the settings.")
    ] = None,
    tz: ZoneOption = None,
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of documents instead.")] = False,
) -> None:
    """Check files with jobs and services, without a server. Print every fault, or the next fire time of each job.

    Piped: job, schedule, next fire time in UTC and place of declaration, with tabs between them."""
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
        raise WrongUsage("PATH: missing; give the files and folders to check, or an app with -A")
    with redirect_stdout(sys.stderr):  # keep what an app prints out of our output
        app = NO_APP if settings.app is None else of_app(settings.app)
    faults, now = Faults(settings.strict), time.time()
    try:
        loaded = build(read(settings.files, faults), faults, app, now, settings.every_lane())
    except BadConfig:
        _refuse(faults, json)
    jobs = [(one.job, one.where) for one in app.definitions.values()] + [(one.job, one.source) for one in loaded.jobs]
    if json:
        names = ("id", "schedule", "next_at", "source")
        rows = [(job.id, str(job.schedule or ""), next_fire(job, now), where) for job, where in jobs]
        found = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"ok": True, "faults": [], "warnings": loaded.warnings, "jobs": found})
        return
    for warning in loaded.warnings:
        say(f"warning: {safe(warning)}")
    if jobs:
        _print(jobs, now, tz)
    say(f"fine: {loaded.counted(len(app.definitions))}")


def _refuse(faults: "Faults", json: bool) -> NoReturn:
    """Report every fault and end."""
    from interlock.cli.output import safe, say
    from interlock.cli.tables import print_json
    from interlock.model.error import ExitCode

    if json:
        print_json({"ok": False, "faults": faults.lines(), "warnings": faults.warnings, "jobs": []})
        raise typer.Exit(ExitCode.USAGE)
    for warning in faults.warnings:
        say(f"warning: {safe(warning)}")
    faults.check(most=len(faults))
    raise AssertionError("there are faults")


def next_fire(job: "Job", now: float) -> float | None:
    """Return when the job would fire first if it were declared now."""
    from interlock.core.fire_times import first_time

    at = None if job.schedule is None else first_time(job.schedule, now)
    return None if at is None or job.schedule is None else at + job.schedule.offset(job.id)


def _print(jobs: "list[tuple[Job, str]]", now: float, tz: str | None) -> None:
    import sys

    from interlock.cli.format import ago, exact, when
    from interlock.cli.tables import Column, print_table
    from interlock.cli.zones import zone_for, zone_name

    zone = zone_for(tz, [job.schedule for job, _ in jobs])

    def time_text(at: float | None) -> str:
        if at is None or not sys.stdout.isatty():
            return exact(at)
        return f"{when(at, now, zone)} ({ago(at, now)})"

    columns = [Column("job"), Column("schedule"), Column(f"next ({zone_name(zone)})")]
    columns.append(Column("declared", gives_way=True))
    print_table(
        columns, [(job.id, str(job.schedule or ""), time_text(next_fire(job, now)), where) for job, where in jobs]
    )

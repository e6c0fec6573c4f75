"""`interlock check`."""

import sys
import time
from contextlib import redirect_stdout, suppress
from typing import Annotated, NamedTuple

import typer

from interlock.cli.draw.format import ago, exact, when
from interlock.cli.draw.listing import Column, Form, Listing
from interlock.cli.draw.tables import print_json
from interlock.cli.draw.zones import ZoneOption, zone_for, zone_name
from interlock.cli.shared.options import Flags, JsonOption, argument, switch, takes
from interlock.cli.shared.output import WrongUsage
from interlock.config.documents import Faults, read
from interlock.config.sources import build, of_app
from interlock.core.timetable.table import first_time
from interlock.error import BadConfig, ExitCode
from interlock.error_lines import say
from interlock.fields.safe_text import safe
from interlock.model.job import Job


class DeclaredJob(NamedTuple):
    id: str
    schedule: str
    next_at: float | None
    source: str


@takes("app", "strict", "lanes")
def command(
    flags: Flags,
    paths: Annotated[list[str] | None, argument("PATH", "Files and folders. Default: the setting `files`.")] = None,
    tz: ZoneOption = None,
    json: JsonOption = False,
    without_env: Annotated[
        bool, switch("Do not ask for the variables that hold URLs and secrets of hooks.", "--without-env")
    ] = False,
    schema: Annotated[bool, switch("Print the JSON Schema of documents instead.", "--schema")] = False,
) -> None:
    """Check files with jobs and services, without a server. Print every fault, or the next fire time of each job.

    Piped: job, schedule, next fire time in UTC and place of declaration, separated by tabs."""
    if schema:
        from interlock.config.schema import documents_schema

        print_json(documents_schema(), indent=True)
        return
    settings = flags.given(files=paths or None).resolve().settings
    if not settings.files and settings.app is None:
        raise WrongUsage("PATH: missing; give the files and folders to check, or an app with -A")
    with redirect_stdout(sys.stderr):  # the app's own output
        app = of_app(settings.app)
    faults, now, loaded = Faults(settings.strict, not without_env), time.time(), None
    with suppress(BadConfig):
        loaded = build(read(settings.files, faults), faults, app, now, settings.every_lane())
    declared: list[tuple[Job, str]] = []
    if loaded is not None:
        declared += ((definition.job, definition.where) for definition in app.definitions.values())
        declared += ((job.job, job.source) for job in loaded.jobs)
    jobs = [DeclaredJob(job.id, str(job.schedule or ""), next_fire(job, now), where) for job, where in declared]
    zone = zone_for(tz, [job.schedule for job, _ in declared])
    fires = Form(lambda at, now: f"{when(at, now, zone)} ({ago(at, now)})", exact)
    listing = Listing[DeclaredJob](
        "jobs",
        "",
        Column("job", "id"),
        Column("schedule"),
        Column(f"next ({zone_name(zone)})", "next_at", fires),
        Column("declared", "source", gives_way=True),
    )
    if json:
        found = [job._asdict() | {"next_at": exact(job.next_at) or None} for job in jobs]
        print_json({"ok": loaded is not None, "faults": faults.lines(), "warnings": faults.warnings, "jobs": found})
        raise typer.Exit(ExitCode.FINE if loaded is not None else ExitCode.USAGE)
    for warning in faults.warnings:
        say(f"warning: {safe(warning)}")
    faults.check(most=len(faults))
    if jobs:
        listing.show(False, jobs)
    if loaded is not None:
        say(f"fine: {loaded.summary(len(app.definitions))}")


def next_fire(job: Job, now: float) -> float | None:
    """Return the first fire time of a job declared now."""
    at = None if job.schedule is None else first_time(job.schedule, now)
    return None if at is None or job.schedule is None else at + job.schedule.offset(job.id)

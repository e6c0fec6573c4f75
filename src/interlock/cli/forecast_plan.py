"""From what a person asks for to a forecast: which jobs, from when to when, and how long each lasts."""

import os
import time
from collections.abc import Mapping, Sequence
from zoneinfo import ZoneInfo

import msgspec

from interlock.cli.output import WrongUsage, say
from interlock.config import Resolved, lanes
from interlock.config.resolve import DEFAULT
from interlock.config.setting_types import did_you_mean
from interlock.config.sources import FromApp, load
from interlock.model.duration import seconds
from interlock.model.error import BadConfig, BadDuration, BadValue
from interlock.model.job import Job
from interlock.model.schedule import instant
from interlock.model.zone import zone_of
from interlock.simulation.forecast import check_size, forecast
from interlock.simulation.forecast_history import lengths_in
from interlock.simulation.forecast_model import Forecast, Length, Plan

LONGEST = 366 * 86400.0
ASSUMED = Length(1.0, "assumed")
WORTH_SAYING = 50_000
"""runs from which on a person is told why it takes a while"""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    start: float
    until: float
    zone: ZoneInfo
    by_job: dict[str, float]
    """how long runs of these jobs last"""
    others: float | None
    """and those of all others, if that was said"""
    failing: frozenset[str]


def asked_of(begin: str | None, span: str, tz: str, durations: Sequence[str], failing: Sequence[str]) -> Asked:
    try:
        zone_of(tz)
    except BadValue as error:
        raise BadValue("--tz", tz, "a time zone like Europe/Paris or UTC") from error
    start = float(int(time.time())) if begin is None else instant(begin, "--from", tz)
    length = seconds(span, "--for")
    if not 0 < length <= LONGEST:
        raise BadDuration("--for", span, "longer than zero and at most 366d")
    by_job, others = _durations(durations)
    return Asked(
        start=start,
        until=start + length,
        zone=ZoneInfo(tz),
        by_job=by_job,
        others=others,
        failing=frozenset(failing),
    )


def _durations(given: Sequence[str]) -> tuple[dict[str, float], float | None]:
    by_job: dict[str, float] = {}
    others: float | None = None
    for one in given:
        job_id, equals, text = one.rpartition("=")
        known = job_id in by_job if equals else others is not None
        if known:
            raise BadValue("--duration", one, f"the only one for {job_id if equals else 'all other jobs'}")
        if equals:
            by_job[job_id] = seconds(text, f"--duration {job_id}")
        else:
            others = seconds(text, "--duration")
    return by_job, others


def forecast_of(resolved: Resolved, asked: Asked) -> Forecast:
    jobs = _jobs(resolved)
    for field, named in (("--duration", asked.by_job), ("--fail", asked.failing)):
        for job_id in named:
            if job_id not in jobs:
                raise BadValue(field, job_id, f"a job with a schedule{did_you_mean(job_id, jobs)}")
    settings = resolved.settings
    plan = Plan(
        start=asked.start,
        until=asked.until,
        lanes=lanes({}) | (settings.lanes or {}),
        lengths=_lengths(jobs, asked, _database(resolved)),
        workers=settings.workers,
        slots=settings.slots,
        processes=settings.processes,
        failing=asked.failing,
    )
    count = check_size(jobs.values(), plan)
    if count >= WORTH_SAYING:
        say(f"about {count:,} runs: this takes a while")
    return forecast(jobs.values(), plan)


def _jobs(resolved: Resolved) -> dict[str, Job]:
    """Those that have a schedule, of the app and of the files."""
    settings = resolved.settings
    target = settings.app
    if not settings.files and target is None:
        raise WrongUsage("PATH: not given, and it must be: the files and folders with the jobs, or an app with -A")
    app = FromApp()
    if target is not None:
        from interlock.worker.app_loader import load_app

        loaded = load_app(target)
        app = FromApp(target=target, definitions=loaded.definitions, services=loaded.services)
    found = load(settings.files, app)
    every = [one.job for one in app.definitions.values()] + [one.job for one in found.jobs]
    scheduled = {job.id: job for job in every if job.schedule is not None}
    if not scheduled:
        where = ", ".join([*settings.files, *([target] if target is not None else [])])
        raise BadConfig(f"{where}: there is no job with a schedule")
    return scheduled


def _database(resolved: Resolved) -> str | None:
    """What remembers earlier runs, if it is named; on the command line, it must be there."""
    database, source = resolved.settings.database, resolved.sources["database"]
    is_there = source.startswith("flag") or (source != DEFAULT and os.path.exists(database))
    return database if is_there else None


def _lengths(jobs: Mapping[str, Job], asked: Asked, database: str | None) -> dict[str, Length]:
    unknown = [job_id for job_id in jobs if job_id not in asked.by_job]
    remembered = lengths_in(database, unknown) if database is not None and unknown else {}
    others = ASSUMED if asked.others is None else Length(asked.others, "given for all others")
    lengths = {job_id: remembered.get(job_id, others) for job_id in unknown}
    return lengths | {job_id: Length(length, "given") for job_id, length in asked.by_job.items()}

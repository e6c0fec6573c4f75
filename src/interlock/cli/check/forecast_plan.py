"""Plan a forecast from the options of `simulate`: the jobs, the range of time, and the length of runs."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from statistics import median

import msgspec

from interlock.cli.draw.format import counted
from interlock.cli.draw.zones import named_zone
from interlock.cli.shared.output import WrongUsage
from interlock.config import Resolved
from interlock.config.job_documents import named_jobs
from interlock.config.resolve import DEFAULT
from interlock.config.sources import Loaded, load, of_app
from interlock.error import BadConfig, BadDuration, BadValue, Repeated
from interlock.error_lines import say
from interlock.fields.duration import seconds
from interlock.fields.field_types import did_you_mean
from interlock.model.job import Job
from interlock.model.schedule.schedule import instant
from interlock.model.state import State
from interlock.ports.store import Reader, RunFilter
from interlock.simulation.forecast import check_size, forecast
from interlock.simulation.forecast_model import Forecast, Length, Plan
from interlock.stores.open import open_reader

LONGEST = 366 * 86400.0
ASSUMED = Length(1.0, "assumed")
WORTH_SAYING = 50_000  # runs from which a forecast is announced as slow
LAST = 20  # successful runs of a job that make up the median
MOST_PAGES = 20


class ForecastQuestion(msgspec.Struct, frozen=True, kw_only=True):
    start: float
    until: float
    zone: tzinfo
    by_job: dict[str, float]  # given lengths of runs
    others: float | None  # given length for all other jobs
    failing: frozenset[str]


def question_of(
    begin: str | None, span: str, tz: str, durations: Sequence[str], failing: Sequence[str]
) -> ForecastQuestion:
    zone = named_zone(tz)
    start = float(int(time.time())) if begin is None else instant(begin, "--from", tz)
    length = seconds(span, "--for")
    if not 0 < length <= LONGEST:
        raise BadDuration("--for", span, "longer than zero and at most 366d")
    lengths: dict[str | None, float] = {}
    for duration in durations:
        job_id, equals, text = duration.rpartition("=")
        name = job_id if equals else None
        if name in lengths:
            raise Repeated("--duration", name or "all other jobs")
        lengths[name] = seconds(text, f"--duration {job_id}".rstrip())
    return ForecastQuestion(
        start=start,
        until=start + length,
        zone=zone,
        by_job={name: length for name, length in lengths.items() if name is not None},
        others=lengths.get(None),
        failing=frozenset(failing),
    )


def forecast_of(resolved: Resolved, question: ForecastQuestion) -> Forecast:
    jobs, loaded = _declarations(resolved)
    for field, named in (("--duration", question.by_job), ("--fail", question.failing)):
        for job_id in named:
            if job_id not in jobs:
                raise BadValue(field, job_id, f"a job with a schedule{did_you_mean(job_id, jobs)}")
    settings = resolved.settings
    plan = Plan(
        start=question.start,
        until=question.until,
        lanes=settings.every_lane(loaded.lanes),
        tenants=loaded.tenants,
        lengths=_lengths(jobs, question, resolved),
        workers=settings.workers,
        slots=settings.slots,
        processes=settings.processes,
        failing=question.failing,
    )
    count = check_size(jobs.values(), plan)
    if count >= WORTH_SAYING:
        say(f"about {count:,} runs: this takes a while")
    return forecast(jobs.values(), plan)


def _declarations(resolved: Resolved) -> tuple[dict[str, Job], Loaded]:
    """Return the scheduled jobs of the app and of the files with those that they name, and all that the files have."""
    files, target = resolved.settings.files, resolved.settings.app
    if not files and target is None:
        raise WrongUsage("PATH: missing; give files and folders with jobs, or an app with -A")
    app = of_app(target)
    loaded = load(files, app)
    every = [*(definition.job for definition in app.definitions.values()), *(job.job for job in loaded.jobs)]
    known = {job.id: job for job in every}
    scheduled = {job.id: job for job in every if job.schedule is not None}
    added = list(scheduled.values())
    while added:
        named = {job_id for job in added for _, job_id in named_jobs(job)} & known.keys() - scheduled.keys()
        added = [job for job in every if job.id in named]
        scheduled |= {job.id: job for job in added}
    if not scheduled:
        raise BadConfig(f"{', '.join([*files, *filter(None, [target])])}: no job has a schedule")
    return scheduled, loaded


def _lengths(jobs: Mapping[str, Job], question: ForecastQuestion, resolved: Resolved) -> dict[str, Length]:
    """Return the length of each job's runs, as given or from earlier runs. A database given as a flag must exist."""
    database, source = resolved.settings.database, resolved.sources["database"]
    has_past = source.startswith("flag") or (source != DEFAULT and os.path.exists(database))
    unknown = [job_id for job_id in jobs if job_id not in question.by_job]
    past = asyncio.run(past_lengths(database, unknown)) if has_past and unknown else {}
    others = ASSUMED if question.others is None else Length(question.others, "given for all others")
    lengths = {job_id: past.get(job_id, others) for job_id in unknown}
    return lengths | {job_id: Length(length, "given") for job_id, length in question.by_job.items()}


async def past_lengths(database: str, jobs: Sequence[str]) -> dict[str, Length]:
    """Return the median length of each job's latest successful runs, for jobs that have any."""
    reader = open_reader(database)
    await reader.open()
    try:
        found = {job_id: await _durations(reader, job_id) for job_id in jobs}
    finally:
        await reader.close()
    source = f"in {Path(database).name}"
    return {
        job_id: Length(round(median(taken), 3), f"median of {counted(len(taken), 'run')} {source}")
        for job_id, taken in found.items()
        if taken
    }


async def _durations(reader: Reader, job_id: str) -> list[float]:
    taken: list[float] = []
    wanted, before = RunFilter(job_id=job_id, states=frozenset({State.SUCCEEDED})), None
    for _ in range(MOST_PAGES):
        page = await reader.runs(wanted, before, LAST - len(taken))
        taken += [max(0.0, run.ended_at - run.started_at) for run in page.runs if run.ended_at and run.started_at]
        before = page.next
        if before is None or len(taken) >= LAST:
            break
    return taken

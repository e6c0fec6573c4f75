"""The summary of a forecast: figures for each job, and its notable findings."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from interlock.fields.duration import span
from interlock.model.job import Job
from interlock.model.lane import MAIN
from interlock.model.state import TERMINAL, State
from interlock.simulation.forecast_model import (
    CONSTRAINTS,
    LANE,
    PREVIOUS,
    TENANT,
    WORKER,
    Forecast,
    JobForecast,
    Notable,
    Plan,
    RunForecast,
)
from interlock.simulation.forecast_record import ForecastRecord

WAITS = {
    CONSTRAINTS: "its constraints",
    PREVIOUS: "the previous run",
    LANE: "a slot of lane {lane}",
    TENANT: "the limit of tenant default",
    WORKER: "room on a worker",
}


def summary(jobs: Sequence[Job], plan: Plan, record: ForecastRecord) -> Forecast:
    runs = sorted(record.runs, key=lambda run: (run.due_at, run.id))
    by_job: defaultdict[str, list[RunForecast]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    figures = [_job(job, by_job[job.id], plan) for job in jobs if job.schedule is not None or by_job[job.id]]
    notable = [finding for job in figures for finding in _notable(job, by_job[job.id])]
    return Forecast(start=plan.start, until=plan.until, jobs=figures, lanes=record.lanes(), notable=notable, runs=runs)


def _job(job: Job, runs: Sequence[RunForecast], plan: Plan) -> JobForecast:
    waits = [run for run in runs if run.waited_for is not None]
    longest = max(waits, key=lambda run: run.waited, default=None)
    return JobForecast(
        id=job.id,
        schedule="" if job.schedule is None else str(job.schedule),
        lane=next((lane for lane in job.lanes if lane in plan.lanes), MAIN),
        length=plan.lengths[job.id],
        max_concurrent_runs=job.constraints.max_concurrent_runs,
        runs=len(runs),
        states=dict(Counter(str(run.state) for run in runs)),
        missed=sum(run.is_missed for run in runs),
        overlaps=sum(run.beside > 0 for run in runs),
        most_at_once=max((run.beside + 1 for run in runs if run.started_at is not None), default=0),
        waited=len(waits),
        longest_wait=0.0 if longest is None else longest.waited,
        longest_wait_at=None if longest is None else longest.due_at,
        waited_for=dict(Counter(str(run.waited_for) for run in waits)),
        busy=round(sum((run.ended_at or plan.until) - run.started_at for run in runs if run.started_at is not None), 3),
    )


def _notable(job: JobForecast, runs: Sequence[RunForecast]) -> Iterator[Notable]:
    """Yield missed runs by reason, waits by cause, overlaps, and unsuccessful ends by state."""

    def note(what: str, some: Sequence[RunForecast], text: str) -> Notable:
        share = f"{len(some):,} of {len(runs):,}"
        first, last = some[0].due_at, some[-1].due_at
        return Notable(job_id=job.id, what=what, count=len(some), first_at=first, last_at=last, text=share + text)

    for reason in dict.fromkeys(run.reason for run in runs if run.is_missed):
        missed = [run for run in runs if run.is_missed and run.reason == reason]
        what = "missed" if reason.startswith("missed: ") else "skipped"
        yield note(what, missed, f": {reason.removeprefix('missed: ')}")
    for cause, text in WAITS.items():
        if waits := [run for run in runs if run.waited_for == cause]:
            longest = span(max(run.waited for run in waits))
            yield note("waited", waits, f" for {text.format(lane=job.lane)}, at most {longest}")
    if beside := [run for run in runs if run.beside]:
        yield note("overlap", beside, f" started beside another run of the job, at most {job.most_at_once} at once")
    for state in State:
        ended = [run for run in runs if run.state is state]
        if ended and state not in (State.SUCCEEDED, State.SKIPPED):
            unfinished = "" if state in TERMINAL else " when the forecast stopped"
            yield note(str(state), ended, f"{unfinished}: {ended[0].reason}")

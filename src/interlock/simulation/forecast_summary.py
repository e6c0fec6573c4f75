"""What the runs of a forecast add up to: for each job, for each lane, and what is worth a look."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from interlock.model.duration import brief
from interlock.model.job import Job
from interlock.model.state import TERMINAL, State
from interlock.simulation.forecast_model import (
    LANE,
    PREVIOUS,
    WORKER,
    Forecast,
    JobForecast,
    Notable,
    Plan,
    RunForecast,
)
from interlock.simulation.forecast_record import Record

MISSED = "missed"


def summary(jobs: Sequence[Job], plan: Plan, record: Record) -> Forecast:
    runs = sorted(record.runs, key=lambda run: (run.due_at, run.id))
    by_job: defaultdict[str, list[RunForecast]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    told = [_job(job, by_job[job.id], plan) for job in jobs]
    return Forecast(
        start=plan.start,
        until=plan.until,
        jobs=told,
        lanes=record.lanes(),
        notable=[one for job in told for one in _notable(job, by_job[job.id])],
        runs=runs,
    )


def is_missed(run: RunForecast) -> bool:
    return run.state is State.SKIPPED


def _job(job: Job, runs: Sequence[RunForecast], plan: Plan) -> JobForecast:
    waits = [run for run in runs if run.waited_for is not None]
    longest = max(waits, key=lambda run: run.waited, default=None)
    return JobForecast(
        id=job.id,
        schedule=str(job.schedule),
        lane=job.lane if job.lane in plan.lanes else "main",
        length=plan.lengths[job.id],
        max_concurrent_runs=job.max_concurrent_runs,
        runs=len(runs),
        states=dict(Counter(str(run.state) for run in runs)),
        missed=sum(map(is_missed, runs)),
        overlaps=sum(run.beside > 0 for run in runs),
        most_at_once=max((run.beside + 1 for run in runs if run.started_at is not None), default=0),
        waited=len(waits),
        longest_wait=0.0 if longest is None else longest.waited,
        longest_wait_at=None if longest is None else longest.due_at,
        waited_for=dict(Counter(str(run.waited_for) for run in waits)),
        busy=round(sum((run.ended_at or plan.until) - run.started_at for run in runs if run.started_at is not None), 3),
    )


# ── what is worth a look ────────────────────────────────────────────────────────────────────────────────────────────


def _notable(job: JobForecast, runs: Sequence[RunForecast]) -> Iterator[Notable]:
    reasons: defaultdict[str, list[RunForecast]] = defaultdict(list)
    for run in runs:
        if is_missed(run):
            reasons[run.reason].append(run)
    for reason, missed in reasons.items():
        yield _told(job, MISSED, missed, f"{_share(missed, runs)}: {reason.removeprefix('missed: ')}")
    for what in (PREVIOUS, LANE, WORKER):
        waits = [run for run in runs if run.waited_for == what]
        if waits:
            longest = max(run.waited for run in waits)
            text = f"{_share(waits, runs)} for {_WAITS[what](job)}, at most {_span(longest)}"
            yield _told(job, "waited", waits, text)
    beside = [run for run in runs if run.beside]
    if beside:
        text = f"{_share(beside, runs)} began beside another of the job, at most {job.most_at_once} at once"
        yield _told(job, "overlap", beside, text)
    for state in State:
        ended = [run for run in runs if run.state is state]
        if ended and state not in (State.SUCCEEDED, State.SKIPPED):
            going = "" if state in TERMINAL else " at the end, and longer than is looked at"
            yield _told(job, str(state), ended, f"{_share(ended, runs)}{going}: {ended[0].reason}")


_WAITS: dict[str, Callable[[JobForecast], str]] = {
    PREVIOUS: lambda job: "the run before" if job.max_concurrent_runs == 1 else "runs before",
    LANE: lambda job: f"a slot of lane {job.lane}",
    WORKER: lambda job: "room on a worker",
}


def _span(duration: float) -> str:
    """In two units at the most."""
    if duration < 60:
        return brief(duration)
    minutes, seconds = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{count}{unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")) if count]
    return " ".join(parts[:2])


def _share(some: Sequence[RunForecast], runs: Sequence[RunForecast]) -> str:
    return f"{len(some):,} of {len(runs):,}"


def _told(job: JobForecast, what: str, runs: Sequence[RunForecast], text: str) -> Notable:
    first, last = runs[0].due_at, runs[-1].due_at
    return Notable(job_id=job.id, what=what, count=len(runs), first_at=first, last_at=last, text=text)

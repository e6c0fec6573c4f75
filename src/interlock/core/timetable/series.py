"""Series: a due occurrence continues, unless earlier ones of its job still run.


Otherwise it waits in prerun without a due time, until one of those ends, or a later occurrence takes its place.
"""

from collections.abc import Iterator

from interlock.core.jobs.declared import DeclaredJobs
from interlock.core.state import SchedulerState
from interlock.core.timetable.table import Series, TimetableEntry, series_key, series_of
from interlock.core.transition import Pass
from interlock.fields.safe_text import counted
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.job import StoredJob
from interlock.model.run import CATCH_UP, SCHEDULE, Now, Run, parallel_of
from interlock.model.schedule.schedule import CatchUp
from interlock.model.state import State

OVERTAKEN = "missed: the previous run was still active when the next was due"
PAUSED = "paused"
SCHEDULED = (SCHEDULE, CATCH_UP)  # origins of occurrences that a pause stops


def skip(p: Pass, run: Run, reason: str) -> None:
    p.move(run, State.SKIPPED, reason)


def release_or_wait(p: Pass, run: Run) -> None:
    """Let a run leave prerun, or wait for those before it."""
    entry = p.state.timetable.entries.get(run.job_id)
    if _is_paused(entry, run):
        skip(p, run, PAUSED)
        return
    series = series_of(p.state.timetable.series, run)
    if series is None or len(series.live) < _limit(p.state, run):
        _begin(p, run, series)
        return
    overtaken = overtaken_by(entry, run)
    for other in [run for run in series.waiting if run.origin in overtaken and run.state is State.PRERUN]:
        series.waiting.remove(other)
        skip(p, other, OVERTAKEN)
    run.due_at = None
    series.waiting.append(run)
    p.touch(run)


def overtaken_by(entry: TimetableEntry | None, run: Run) -> tuple[str, ...]:
    """Return the origins of waiting runs that this run replaces: only one waits, unless `catch_up` is `all`."""
    if entry is not None and entry.schedule.catch_up is not CatchUp.ALL and run.origin in SCHEDULED:
        return SCHEDULED
    return (SCHEDULE,) if run.origin == SCHEDULE else ()


def _is_paused(entry: TimetableEntry | None, run: Run) -> bool:
    return entry is not None and entry.paused and run.origin in SCHEDULED


def _limit(state: SchedulerState, run: Run) -> float:
    """Return how many runs of its series may be live at once."""
    parallel = parallel_of(run.origin)
    job = state.jobs.get(run.job_id) or state.job_of(run)
    return job.occurrences_at_once if parallel is None else parallel


def _begin(p: Pass, run: Run, series: Series | None) -> None:
    if series is not None:
        series.live.add(run.id)
    if run.due_at is not None and run.due_at <= p.now:
        run.due_at = None
    if run.deadline_at is not None:
        p.state.set_timer(run.deadline_at, run)
    p.move(run, State.PENDING, "due")


def settle(p: Pass, ended: list[Run]) -> None:
    """Continue the runs that waited for those that have ended."""
    for run in ended:
        if run.origin is not None:
            _end(p, run)


def _end(p: Pass, run: Run) -> None:
    table = p.state.timetable
    table.leave(run)
    key = series_key(run)
    series = None if key is None else p.state.timetable.series.get(key)
    if key is not None and series is not None:
        series.live.discard(run.id)
        release_waiting(p, series)
        if not series.live and not series.waiting:
            del p.state.timetable.series[key]
    entry = table.entries.get(run.job_id)
    if entry is not None and run.origin in SCHEDULED:
        _retire(p, entry)


def release_waiting(p: Pass, series: Series) -> None:
    """Let waiting runs continue while there is room."""
    while series.waiting and len(series.live) < _limit(p.state, series.waiting[0]):
        run = series.waiting.popleft()
        if run.state is not State.PRERUN:
            continue
        if _is_paused(p.state.timetable.entries.get(run.job_id), run):
            skip(p, run, PAUSED)
        else:
            _begin(p, run, series)


def _retire(p: Pass, entry: TimetableEntry) -> None:
    """Remove an `at` job after its run, unless it is kept."""
    if entry.schedule.at is None or entry.schedule.keep or entry.next is not None or entry.paused or entry.done:
        return
    entry.done = True
    job_id = entry.job.id
    p.state.jobs.pop(job_id, None)
    if job_id in p.state.of(DeclaredJobs).versions:
        # Its file still declares it; the row records that it has run.
        p.batch.schedules[job_id] = entry.row()
    else:
        del p.state.timetable.entries[job_id]
        p.batch.schedules[job_id] = None
        p.forget(StoredJob, job_id)


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain why an occurrence stays in prerun although its time has come, or will be skipped."""
    if run.state is not State.PRERUN or run.origin is None:
        return
    if _is_paused(state.timetable.entries.get(run.job_id), run):
        text = f"will be skipped unless job {run.job_id} is resumed first"
        yield Reason(kind=ReasonKind.SCHEDULE_PAUSED, text=text, name=run.job_id)
    key = series_key(run)
    series = None if key is None else state.timetable.series.get(key)
    if series is None or run.due_at is not None:
        return
    waiting = [other.id for other in series.waiting if other.state is State.PRERUN]
    place = waiting.index(run.id) + 1
    behind = f", {counted(place - 1, 'run')} ahead of it" if place > 1 else ""
    yield Reason(
        kind=ReasonKind.OVERLAP,
        text=f"waits until an earlier run of job {run.job_id} ends: {len(series.live):,} live, "
        f"{_limit(state, run):,} allowed{behind}",
        name=run.job_id,
        place=place,
        ahead=waiting[: min(place - 1, MOST_NAMED)],
        holders=sorted(series.live)[:MOST_NAMED],
    )


def place(state: SchedulerState, run: Run, now: Now) -> None:
    series = None if run.origin is None else series_of(state.timetable.series, run)
    if series is None:
        return
    if run.state is not State.PRERUN:
        series.live.add(run.id)
    elif run.due_at is None:
        series.waiting.append(run)
    else:
        state.timetable.ahead.setdefault(run.job_id, []).append(run)

"""The timetable: occurrences become runs ahead of their time, and what was missed is made up for or said to be missed.

Every occurrence is a run, under an id that its job and its time make, and the cursor of its job moves in the same
commit: whoever goes on from the store goes on behind it. An occurrence comes into being some seconds ahead, waits in
prerun, and goes on when its time has come; unless earlier ones of its job are still live, for which it waits, until one
that comes later takes its place.
"""

from heapq import heappop

import msgspec

from interlock.core.admission import lane_of
from interlock.core.facts import Needs
from interlock.core.fire_times import following, newest_between
from interlock.core.schedule_table import Entry, Series, series_key, series_of
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model import payload
from interlock.model.job import Job
from interlock.model.run import CATCH_UP, SCHEDULE, Run, occurrence_id, parallel_of
from interlock.model.schedule import CatchUp
from interlock.model.state import State

SCHEDULER = "scheduler"
AGAIN = "~again"
"""behind the id of an occurrence that was skipped, for the run that makes up for it; no tenant has such a name"""
LATE = 1.0
"""seconds behind its time after which an occurrence has been missed"""
MOST_A_PASS = 2000
"""occurrences that one pass creates; then what has arrived has its turn, and the rest follows"""
EARLIER = 1.0
"""seconds by which an occurrence may be created earlier than it has to be"""
MOST_MISSED = 1000
"""occurrences of a job that are recorded one by one when they are missed together; older ones are told of in one"""
MOST_RECORDED = 100_000
"""occurrences of all jobs that are recorded so after a long stop, before jobs are told of in one run each"""
SET_BACK = 60.0
"""seconds by which the clock must be set back for the times in between to come again"""
MOST_ASKED = 5000
"""occurrences that one pass needs to know about"""
MISSED = "missed: nothing was there to start it in time"
UNREACHED = "missed: the clock was set back before its time came"
OVERTAKEN = "missed: the run before it was still going when the next was due"
PAUSED = "paused"


def fire(p: Pass) -> None:
    """Create what is due soon. It wants to be called again at once if that was too much for one pass."""
    table = p.state.timetable
    if p.now < table.wall - SET_BACK:
        for entry in list(table.entries.values()):
            turn_back(p, entry)
    table.wall = p.now
    for job_id in table.unsure:
        if job_id in table.entries:
            table.place(table.entries[job_id])
    table.unsure = {}
    recorded = table.recorded
    _create_until(p, p.now + p.state.limits.prerun, MOST_A_PASS)
    if table.recorded == recorded:
        table.recorded = 0


def fire_ahead(p: Pass) -> None:
    """Create what will be due next where a run has ended, which is to be stored anyway: so most occurrences need no
    commit of their own to come into being."""
    if p.ended:
        _create_until(p, p.now + p.state.limits.prerun + EARLIER, p.occurrences + 2 * len(p.ended))


def _create_until(p: Pass, soon: float, most: int) -> None:
    table, heap = p.state.timetable, p.state.timetable.heap
    while heap and heap[0][0] <= soon and p.occurrences < min(most, MOST_A_PASS) and not p.state.draining:
        due = table.fits(heappop(heap))
        if due is not None:
            _look_at(p, due, soon)


def _look_at(p: Pass, entry: Entry, soon: float) -> None:
    catch_up(p, entry)
    _create(p, entry, soon)
    p.schedules[entry.job.id] = entry.row()
    # A job whose times are uncertain is looked at again once the facts are there.
    if entry.job.id not in p.state.timetable.unsure:
        p.state.timetable.place(entry)


def _create(p: Pass, entry: Entry, soon: float) -> None:
    """Make runs of the times of a job that are near."""
    offset, late = entry.schedule.offset(entry.job.id), _missed_before(p, entry)
    while entry.next is not None and late <= entry.next and entry.next + offset <= soon and p.occurrences < MOST_A_PASS:
        run_id = _id_for(p, entry)
        if run_id is None:
            return
        if run_id:
            run = occurrence(p, entry.job, entry.next, SCHEDULE, run_id)
            p.begin(run)
            p.state.timetable.ahead.setdefault(entry.job.id, []).append(run)
            p.state.set_timer(entry.next + offset, run)
        _advance(entry)


def _id_for(p: Pass, entry: Entry) -> str | None:
    """The id of the run for the next time of a job. It is empty if that time has had its run; None if the store must
    be asked first."""
    assert entry.next is not None
    run_id = occurrence_id(entry.job.id, entry.next, "default")
    if int(entry.next) > int(entry.reached) and run_id not in p.state.runs:
        return run_id
    # What was put a second time for the same instant was wanted a second time.
    free = (State.SKIPPED, State.CANCELLED) if entry.schedule.at is not None else (State.SKIPPED,)
    for one in (run_id, run_id + AGAIN):
        found = p.state_of(one)
        if found is None:
            if one not in p.facts.states:
                _ask(p, entry)
                return None
            found = p.facts.states[one]
        if found is None:
            return one
        if found not in free:
            break
    return ""


def _ask(p: Pass, entry: Entry) -> None:
    """Need the states of the runs that the next times of a job may have."""
    soon = p.now + p.state.limits.prerun
    at = entry.next
    ids: list[str] = []
    while at is not None and int(at) <= int(entry.reached) and at <= soon and len(ids) < MOST_A_PASS:
        run_id = occurrence_id(entry.job.id, at, "default")
        ids += [run_id, run_id + AGAIN]
        at = following(entry.schedule, entry.anchor, at)
    p.state.timetable.unsure[entry.job.id] = ids


def needed(state: SchedulerState, needs: Needs) -> None:
    """Need the uncertain times, up to a limit; the timetable needs the rest again."""
    for run_ids in state.timetable.unsure.values():
        needs.states.update(dict.fromkeys(run_ids))
        if len(needs.states) >= 2 * MOST_ASKED:
            return


def turn_back(p: Pass, entry: Entry) -> None:
    """Where the clock was ahead by far when this job was last looked at, its times come again."""
    far = p.now + p.state.limits.prerun + SET_BACK
    schedule = entry.schedule
    if entry.done or max(entry.cursor, entry.anchor) <= far:
        return
    early = [run for run in p.state.timetable.ahead.get(entry.job.id, ()) if run.scheduled_at > far]
    entry.reached = max(entry.reached, entry.cursor)
    entry.cursor = p.now
    if schedule.once and (entry.next is not None or early):
        entry.anchor = p.now
    if not schedule.once or entry.anchor == p.now:
        entry.next = following(schedule, entry.anchor, p.now - (0 if schedule.cron else 1e-6))
    for run in early:
        p.state.timetable.leave(run)
        skip(p, run, UNREACHED)
    p.schedules[entry.job.id] = entry.row()
    p.state.timetable.place(entry)


def _missed_before(p: Pass, entry: Entry) -> float:
    return p.now - LATE - entry.schedule.offset(entry.job.id)


def _advance(entry: Entry) -> None:
    assert entry.next is not None
    entry.cursor = entry.next
    entry.reached = max(entry.reached, entry.cursor)
    entry.next = following(entry.schedule, entry.anchor, entry.next)


def occurrence(p: Pass, job: Job, at: float, origin: str, run_id: str = "", tenant: str = "default") -> Run:
    """A run for one time of a job, in prerun, and not entered into the books yet."""
    p.occurrences += 1
    due = at if job.schedule is None else at + job.schedule.offset(job.id)
    lane, reason = lane_of(p, job.lane)
    given = payload.EMPTY if job.payload is None else msgspec.json.encode(job.payload)
    return Run(
        run_id or occurrence_id(job.id, at, tenant),
        job.id,
        tenant,
        None,
        None,
        p.now,
        at,
        given,
        None,
        None if job.deadline is None else max(due, p.now) + job.deadline,
        job.version,
        lane,
        State.PRERUN,
        None,
        reason or origin,
        SCHEDULER,
        p.now,
        due_at=due,
        origin=origin,
    )


# ── what was missed ─────────────────────────────────────────────────────────────────────────────────────────────────


def catch_up(p: Pass, entry: Entry) -> None:
    """Run those of the missed occurrences of a job that are to be made up for, and record the others."""
    before, table = _missed_before(p, entry), p.state.timetable
    ahead = table.ahead.get(entry.job.id, ())
    late = [run for run in ahead if run.due_at is not None and run.due_at < p.now - LATE]
    oldest = min([run.scheduled_at for run in late], default=entry.next)
    if oldest is None or (not late and oldest >= before):
        return
    chosen = _chosen(p, entry, oldest, before)
    for run in late:
        table.leave(run)
        if run.scheduled_at in chosen:
            run.origin = CATCH_UP
            p.touch(run)
            go(p, run)
        else:
            skip(p, run, _why_missed(p, entry, run.scheduled_at))
    _skip_unrecorded(p, entry, before, chosen)
    while entry.next is not None and entry.next < before and p.occurrences < MOST_A_PASS:
        run_id = _id_for(p, entry)
        if run_id is None:
            return
        if run_id:
            is_chosen = entry.next in chosen
            run = occurrence(p, entry.job, entry.next, CATCH_UP if is_chosen else SCHEDULE, run_id)
            p.begin(run)
            if is_chosen:
                go(p, run)
            else:
                skip(p, run, _why_missed(p, entry, entry.next))
                table.recorded += 1
        _advance(entry)


def _why_missed(p: Pass, entry: Entry, at: float) -> str:
    """Which option has it that a missed occurrence is not made up for."""
    schedule = entry.schedule
    if schedule.catch_up is CatchUp.NONE:
        return f"{MISSED} (catch_up: none)"
    if at < p.now - schedule.catch_up_window - schedule.offset(entry.job.id):
        return f"{MISSED} (older than catch_up_window)"
    return f"{MISSED} (catch_up: latest)" if schedule.catch_up is CatchUp.LATEST else f"{MISSED} (beyond catch_up_max)"


def _chosen(p: Pass, entry: Entry, oldest: float, before: float) -> list[float]:
    """The times of missed occurrences that are run all the same."""
    schedule = entry.schedule
    if schedule.catch_up is CatchUp.NONE:
        return []
    most = 1 if schedule.catch_up is CatchUp.LATEST else schedule.catch_up_max
    since = max(oldest, p.now - schedule.catch_up_window - schedule.offset(entry.job.id))
    # Up to the last that counts as missed; `before` itself does not.
    found = newest_between(schedule, entry.anchor, since, before, most + 1)
    return [at for at in found if at < before][-most:] if most else []


def _skip_unrecorded(p: Pass, entry: Entry, before: float, chosen: list[float]) -> None:
    """Tell in one run of all those that are too many to be recorded one by one."""
    if entry.next is None or entry.next >= before or p.occurrences >= MOST_A_PASS:
        return
    most = MOST_MISSED if p.state.timetable.recorded < MOST_RECORDED else 1
    recorded = newest_between(entry.schedule, entry.anchor, entry.next, before - 1e-6, most)
    first = min([*recorded[:1], *(at for at in chosen if at >= entry.next)], default=entry.next)
    if first in (entry.next, following(entry.schedule, entry.anchor, entry.next)):
        return
    run_id = _id_for(p, entry)
    if run_id:
        run = occurrence(p, entry.job, entry.next, SCHEDULE, run_id)
        p.begin(run)
        skip(p, run, f"{MISSED}; it stands for all of {first - entry.next:.0f}s, which were too many to record")
    if run_id is not None:
        entry.cursor, entry.next = entry.next, first


def skip(p: Pass, run: Run, reason: str) -> None:
    p.move(run, State.SKIPPED, reason, SCHEDULER)


# ── when its time has come ──────────────────────────────────────────────────────────────────────────────────────────


def due(p: Pass, run: Run) -> None:
    """The time of an occurrence that was created ahead has come, or has passed."""
    entry = p.state.timetable.entries.get(run.job_id)
    is_late = run.due_at is not None and run.due_at < p.now - LATE
    if entry is not None and not entry.paused and is_late and run.origin == SCHEDULE:
        _look_at(p, entry, p.now + p.state.limits.prerun)
        if run.state is not State.PRERUN or run.due_at is None:
            return
    p.state.timetable.leave(run)
    go(p, run)


def go(p: Pass, run: Run) -> None:
    """Let a run go on from prerun, or wait for those before it."""
    if _is_paused(p, run):
        skip(p, run, PAUSED)
        return
    series = series_of(p.state.series, run)
    if series is None or len(series.live) < _most(p, run):
        _begin(p, run, series)
        return
    overtaken = _overtaken_by(p, run)
    for other in [one for one in series.waiting if one.origin in overtaken and one.state is State.PRERUN]:
        series.waiting.remove(other)
        skip(p, other, OVERTAKEN)
    run.due_at = None
    series.waiting.append(run)
    p.touch(run)


def _overtaken_by(p: Pass, run: Run) -> tuple[str, ...]:
    """Where what waits comes from, of which this run takes the place: one waits, unless all are to be made up for."""
    entry = p.state.timetable.entries.get(run.job_id)
    if entry is not None and entry.schedule.catch_up is not CatchUp.ALL and run.origin in (SCHEDULE, CATCH_UP):
        return SCHEDULE, CATCH_UP
    return (SCHEDULE,) if run.origin == SCHEDULE else ()


def _is_paused(p: Pass, run: Run) -> bool:
    entry = p.state.timetable.entries.get(run.job_id)
    return entry is not None and entry.paused and run.origin in (SCHEDULE, CATCH_UP)


def _most(p: Pass, run: Run) -> int:
    parallel = parallel_of(run.origin)
    if parallel is not None:
        return parallel
    job = p.state.jobs.get(run.job_id) or p.state.job_of(run)
    return job.max_concurrent_runs


def _begin(p: Pass, run: Run, series: Series | None) -> None:
    if series is not None:
        series.live.add(run.id)
        if run.origin == SCHEDULE:
            p.lags.append(max(0.0, p.now - (run.due_at if run.due_at is not None else run.scheduled_at)))
    if run.due_at is not None and run.due_at <= p.now:
        run.due_at = None
    if run.deadline_at is not None:
        p.state.set_timer(run.deadline_at, run)
    p.move(run, State.PENDING, "due", SCHEDULER)


def release(p: Pass) -> None:
    """Let those go on that waited for what has ended in this pass."""
    while p.released < len(p.ended):
        run = p.ended[p.released]
        p.released += 1
        if run.origin is not None:
            _ended(p, run)


def _ended(p: Pass, run: Run) -> None:
    table = p.state.timetable
    table.leave(run)
    key = series_key(run)
    series = None if key is None else p.state.series.get(key)
    if key is not None and series is not None:
        series.live.discard(run.id)
        let_go(p, series)
        if not series.live and not series.waiting:
            del p.state.series[key]
    entry = table.entries.get(run.job_id)
    if entry is not None and run.origin in (SCHEDULE, CATCH_UP):
        _retire(p, entry)


def let_go(p: Pass, series: Series) -> None:
    """Those that wait go on as long as there is room."""
    while series.waiting and len(series.live) < _most(p, series.waiting[0]):
        waiting = series.waiting.popleft()
        if waiting.state is State.PRERUN and _is_paused(p, waiting):
            skip(p, waiting, PAUSED)
        elif waiting.state is State.PRERUN:
            _begin(p, waiting, series)


def _retire(p: Pass, entry: Entry) -> None:
    """Remove an `at` job after its run, unless it is to be kept."""
    if entry.schedule.at is None or entry.schedule.keep or entry.next is not None or entry.paused or entry.done:
        return
    entry.done = True
    job_id = entry.job.id
    p.state.jobs.pop(job_id, None)
    if job_id in p.state.declared:
        # It is still in its file; what remains says that it was there.
        p.schedules[entry.job.id] = entry.row()
    else:
        del p.state.timetable.entries[job_id]
        p.schedules[job_id] = None
        p.put_jobs[job_id] = None

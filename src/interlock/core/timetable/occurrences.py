"""The timetable: each occurrence becomes a run ahead of its time; a missed one runs late or is recorded as missed.

The id of an occurrence consists of its job and time, and the job's cursor moves in the commit that creates it. So a
scheduler that continues from the store creates each occurrence exactly once. A run waits for its time in prerun.
"""

from collections.abc import Iterator
from heapq import heappop
from itertools import count

import msgspec

from interlock.core.entry.admission import lane_of
from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.timetable.series import release_or_wait, skip
from interlock.core.timetable.table import TimetableEntry, following, newest_between
from interlock.core.transition import Pass
from interlock.fields import payload
from interlock.model.facets import Facets
from interlock.model.job import Job
from interlock.model.lane import CRON
from interlock.model.run import CATCH_UP, SCHEDULE, Run, occurrence_id
from interlock.model.schedule.schedule import CatchUp
from interlock.model.state import State

AGAIN = "~again"  # in the id of a run that replaces a skipped one; no job and no tenant has such a name
LATE = 1.0  # seconds of lateness from which an occurrence counts as missed
MOST_A_PASS = 2000  # most occurrences that one pass creates, so that commands get their turn
EARLIER = 1.0  # seconds by which an occurrence may be created too early
MOST_MISSED = 1000  # missed occurrences of a job recorded one by one; one record covers all older ones
MOST_RECORDED = 100_000  # the same over all jobs after long downtime; each further job gets one record
SET_BACK = 60.0  # seconds by which a clock must be set back, at once or step by step, for times to come again
MOST_ASKED = 5000  # occurrences that one pass asks the store about
MISSED = "missed: the scheduler could not start it in time"
UNREACHED = "missed: the clock was set back before its time came"


def fire(p: Pass) -> None:
    """Create the occurrences that are due soon, as many as fit in one pass."""
    table = p.state.timetable
    if p.now < table.wall - SET_BACK:
        for entry in list(table.entries.values()):
            turn_back(p, entry)
        table.wall = p.now
    table.wall = max(table.wall, p.now)
    table.created = 0
    for job_id in table.unsure:
        if job_id in table.entries:
            table.place(table.entries[job_id])
    table.unsure = {}
    recorded = table.recorded
    _create_until(p, p.now + p.state.limits.prerun, MOST_A_PASS)
    if table.recorded == recorded:
        table.recorded = 0


def fire_ahead(p: Pass) -> None:
    """Create a few more in the commit of an ended run, so that most need no extra commit."""
    if p.ended:
        _create_until(p, p.now + p.state.limits.prerun + EARLIER, p.state.timetable.created + 2 * len(p.ended))


def _create_until(p: Pass, soon: float, most: int) -> None:
    table, heap = p.state.timetable, p.state.timetable.heap
    while heap and heap[0][0] <= soon and p.state.timetable.created < min(most, MOST_A_PASS) and not p.state.draining:
        entry = table.fits(heappop(heap))
        if entry is not None:
            _look_at(p, entry, soon)


def _look_at(p: Pass, entry: TimetableEntry, soon: float) -> None:
    _catch_up(p, entry)
    _create(p, entry, soon)
    p.batch.schedules[entry.job.id] = entry.row()
    # An unsure job is placed again once the facts have arrived.
    if entry.job.id not in p.state.timetable.unsure:
        p.state.timetable.place(entry)


def _create(p: Pass, entry: TimetableEntry, soon: float) -> None:
    """Create the runs for the near fire times of a job."""
    offset, late = entry.schedule.offset(entry.job.id), _missed_before(p, entry)
    while (
        entry.next is not None
        and late <= entry.next
        and entry.next + offset <= soon
        and p.state.timetable.created < MOST_A_PASS
    ):
        run_id = _id_for(p, entry)
        if run_id is None:
            return
        if run_id:
            run = occurrence(p, entry.job, entry.next, SCHEDULE, run_id)
            p.begin(run)
            p.state.timetable.ahead.setdefault(entry.job.id, []).append(run)
            p.state.set_timer(entry.next + offset, run)
        _advance(entry)


def _id_for(p: Pass, entry: TimetableEntry) -> str | None:
    """Return the id of the run for a job's next time: empty if that has run, None to ask the store first."""
    assert entry.next is not None
    run_id = occurrence_id(entry.job.id, entry.next, "default")
    if int(entry.next) > int(entry.reached) and run_id not in p.state.runs:
        return run_id
    # An `at` job put again for the same instant runs again, even if its run was cancelled.
    free = (State.SKIPPED, State.CANCELLED) if entry.schedule.at is not None else (State.SKIPPED,)
    # Whenever the clock is set back, a time may come again, and its run may be skipped again.
    for turn in count():
        candidate = _id_of_turn(run_id, turn)
        state = p.state_of(candidate)
        if state is None:
            if candidate not in p.facts.states:
                _ask(p, entry, max(2, 2 * turn))
                return None
            state = p.facts.states[candidate]
        if state is None:
            return candidate
        if state not in free:
            break
    return ""


def _id_of_turn(run_id: str, turn: int) -> str:
    return run_id if not turn else f"{run_id}{AGAIN}" if turn == 1 else f"{run_id}{AGAIN}{turn}"


def _ask(p: Pass, entry: TimetableEntry, turns: int) -> None:
    """Ask for the states of the runs that the next times of a job may have, with this many ids for each time."""
    soon = p.now + p.state.limits.prerun
    at = entry.next
    ids: list[str] = []
    while at is not None and int(at) <= int(entry.reached) and at <= soon and len(ids) < MOST_A_PASS:
        run_id = occurrence_id(entry.job.id, at, "default")
        ids += [_id_of_turn(run_id, turn) for turn in range(turns)]
        at = following(entry.schedule, entry.anchor, at)
    p.state.timetable.unsure[entry.job.id] = ids


def next_look(p: Pass) -> Iterator[float]:
    table = p.state.timetable
    if table.unsure:
        yield p.now
    elif table.heap and not p.state.draining:
        yield table.heap[0][0] - p.state.limits.prerun


def needs_unsure(state: SchedulerState, needs: Needs) -> None:
    """Need the states of unsure occurrences, up to a limit; the timetable asks again for the rest."""
    for run_ids in state.timetable.unsure.values():
        needs.states.update(dict.fromkeys(run_ids))
        if len(needs.states) >= 2 * MOST_ASKED:
            return


def turn_back(p: Pass, entry: TimetableEntry) -> None:
    """Let the times of a job come again if the clock was far ahead at the last pass."""
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
    p.batch.schedules[entry.job.id] = entry.row()
    p.state.timetable.place(entry)


def _missed_before(p: Pass, entry: TimetableEntry) -> float:
    return _late_before(p) - entry.schedule.offset(entry.job.id)


def _late_before(p: Pass) -> float:
    return max(p.now - LATE, _restored_at(p))


def _restored_at(p: Pass) -> float:
    """Return the time of the last restore, unless the clock was ahead then: that silences no schedule."""
    return p.state.timetable.restored_at if p.state.timetable.restored_at <= p.now + SET_BACK else 0.0


def _advance(entry: TimetableEntry) -> None:
    assert entry.next is not None
    entry.cursor = entry.next
    entry.reached = max(entry.reached, entry.cursor)
    entry.next = following(entry.schedule, entry.anchor, entry.next)


def occurrence(
    p: Pass, job: Job, at: float, origin: str, run_id: str = "", tenant: str = "default", by: str = "scheduler"
) -> Run:
    """Return a new run in prerun for one fire time of a job; the caller begins it."""
    p.state.timetable.created += 1
    due = at if job.schedule is None else at + job.schedule.offset(job.id)
    lane, reason = lane_of(p, job.lane or CRON)
    return Run(
        run_id or occurrence_id(job.id, at, tenant),
        job.id,
        tenant,
        None,
        None,
        p.now,
        at,
        payload.EMPTY if job.payload is None else msgspec.json.encode(job.payload),
        None,
        by,
        None if job.deadline is None else max(due, p.now) + job.deadline,
        job.version,
        lane,
        State.PRERUN,
        None,
        reason or origin,
        "scheduler",
        p.now,
        due_at=due,
        origin=origin,
        facets=None if job.labels is None else Facets(labels=job.with_labels(None)),
    )


def fall_due(p: Pass, run: Run) -> None:
    """Let an occurrence in prerun continue: its time has come, or passed."""
    entry = p.state.timetable.entries.get(run.job_id)
    is_late = run.due_at is not None and run.due_at < _late_before(p)
    if entry is not None and not entry.paused and is_late and run.origin == SCHEDULE:
        _look_at(p, entry, p.now + p.state.limits.prerun)
        if run.state is not State.PRERUN or run.due_at is None:
            return
    p.state.timetable.leave(run)
    release_or_wait(p, run)


def _catch_up(p: Pass, entry: TimetableEntry) -> None:
    """Run the missed occurrences that `catch_up` selects, and record the others as missed."""
    before, table = _missed_before(p, entry), p.state.timetable
    ahead = table.ahead.get(entry.job.id, ())
    late = [run for run in ahead if run.due_at is not None and run.due_at < _late_before(p)]
    oldest = min([run.scheduled_at for run in late], default=entry.next)
    if oldest is None or (not late and oldest >= before):
        return
    chosen = _chosen(p, entry, oldest, before)
    for run in late:
        table.leave(run)
        if run.scheduled_at in chosen:
            run.origin = CATCH_UP
            p.touch(run)
            release_or_wait(p, run)
        else:
            skip(p, run, _why_missed(p, entry, run.scheduled_at))
    _skip_unrecorded(p, entry, before, chosen)
    while entry.next is not None and entry.next < before and p.state.timetable.created < MOST_A_PASS:
        run_id = _id_for(p, entry)
        if run_id is None:
            return
        if run_id:
            is_chosen = entry.next in chosen
            if is_chosen or AGAIN not in run_id:  # a time that was skipped before is on record
                run = occurrence(p, entry.job, entry.next, CATCH_UP if is_chosen else SCHEDULE, run_id)
                p.begin(run)
                if is_chosen:
                    release_or_wait(p, run)
                else:
                    skip(p, run, _why_missed(p, entry, entry.next))
                    table.recorded += 1
        _advance(entry)


def _catch_up_since(p: Pass, entry: TimetableEntry) -> float:
    since = max(p.now - entry.schedule.catch_up_window, _restored_at(p))
    return since - entry.schedule.offset(entry.job.id)


def _why_missed(p: Pass, entry: TimetableEntry, at: float) -> str:
    """Return the reason with the option that keeps a missed occurrence from running late."""
    if at + entry.schedule.offset(entry.job.id) < _restored_at(p):
        return f"{MISSED} (before the restore: it may have run)"
    if entry.schedule.catch_up is CatchUp.NONE:
        return f"{MISSED} (catch_up: none)"
    if at < _catch_up_since(p, entry):
        return f"{MISSED} (older than catch_up_window)"
    is_latest = entry.schedule.catch_up is CatchUp.LATEST
    return f"{MISSED} (catch_up: latest)" if is_latest else f"{MISSED} (beyond catch_up_max)"


def _chosen(p: Pass, entry: TimetableEntry, oldest: float, before: float) -> list[float]:
    """Return the times of missed occurrences that run late."""
    schedule = entry.schedule
    most = {CatchUp.NONE: 0, CatchUp.LATEST: 1}.get(schedule.catch_up, schedule.catch_up_max)
    # One more, because `before` itself does not count as missed.
    found = newest_between(schedule, entry.anchor, max(oldest, _catch_up_since(p, entry)), before, most + 1)
    return [at for at in found if at < before][-most:] if most else []


def _skip_unrecorded(p: Pass, entry: TimetableEntry, before: float, chosen: list[float]) -> None:
    """Record in one run the missed occurrences that are too many to record one by one."""
    if entry.next is None or entry.next >= before or p.state.timetable.created >= MOST_A_PASS:
        return
    most = MOST_MISSED if p.state.timetable.recorded < MOST_RECORDED else 1
    recorded = newest_between(entry.schedule, entry.anchor, entry.next, before - 1e-6, most)
    first = min([*recorded[:1], *(at for at in chosen if at >= entry.next)], default=entry.next)
    if first in (entry.next, following(entry.schedule, entry.anchor, entry.next)):
        return
    run_id = _id_for(p, entry)
    if run_id and AGAIN not in run_id:
        run = occurrence(p, entry.job, entry.next, SCHEDULE, run_id)
        p.begin(run)
        skip(p, run, f"{MISSED}; stands for all of {first - entry.next:.0f}s, too many to record one by one")
    if run_id is not None:
        entry.cursor, entry.next = entry.next, first

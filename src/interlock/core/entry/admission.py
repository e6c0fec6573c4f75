"""Admission: create new runs, and queue runs that pass the entry in their lane."""

from datetime import UTC, datetime

import msgspec

from interlock.core.entry.lineage import asker, maker
from interlock.core.entry.lineage import place as put_under
from interlock.core.facts import Needs
from interlock.core.guards.job_guard import Guards
from interlock.core.lanes.fill import enqueue
from interlock.core.part import for_special_runs
from interlock.core.policy.judge_state import Judging
from interlock.core.sessions.session import Sessions, memo_name
from interlock.core.sessions.turns import check_room, queue
from interlock.core.state import WAIT, SchedulerState
from interlock.core.tenants.limits import check_tenants
from interlock.core.tenants.tenant import Tenants
from interlock.core.transition import Pass
from interlock.error import Draining, Forbidden, IdempotencyConflict
from interlock.fields import payload
from interlock.model.facets import Facets, OtherRun, SessionFacet, Unique
from interlock.model.job import Job, Priority
from interlock.model.lane import MAIN
from interlock.model.record import Memo
from interlock.model.run import Run, occurrence_id
from interlock.model.state import PENDING, SCHEDULED, State
from interlock.wire.command import Create
from interlock.wire.request import Accepted, NewRun


def create_needs(state: SchedulerState, command: Create, needs: Needs) -> None:
    sessions = state.of(Sessions)
    for new in command.runs:
        if new.idempotency_key is not None:
            needs.keys[new.tenant, new.idempotency_key] = None
        if new.session is not None and sessions.has_memos and (new.tenant, new.session) not in sessions:
            needs.records[Memo, memo_name(new.tenant, new.session)] = None
        if new.occurrence is not None:
            run_id = occurrence_id(new.job_id, new.occurrence, new.tenant)
            needs.digests[run_id] = new.job_id
            if new.tenant == "default":
                needs.note_passed(state, run_id, new.job_id, new.occurrence)


def create(p: Pass, origin: str, command: Create) -> None:
    """Create the runs of one submit: all, or none if any has an error."""
    if p.state.draining:
        raise Draining
    parent = maker(p, command.parent, (new.tenant for new in command.runs)) if command.parent else None
    may_pause = command.only_tenant is None and parent is None
    taken: dict[object, bytes] = {}
    digests: dict[int, bytes] = {}  # of those that may repeat a submit
    coming: dict[tuple[str, str], int] = {}
    for index, new in enumerate(command.runs):
        job = p.state.job(new.job_id)
        if new.idempotency_key is not None or new.occurrence is not None:
            digests[index] = _check_identity(p, new, taken, may_pause)
        if (p.state.lanes.draining or new.session is not None) and _existing(p, new) is None:
            _check_lane(p, new, job)
            check_room(p, new, coming)
    if p.state.of(Tenants):
        _check_tenants(p, command.runs)
    ids, actor = [], asker(command.actor, parent)
    for index, new in enumerate(command.runs):
        run_id = _existing(p, new) if index in digests else None
        if run_id is None:
            created = create_run(p, new, digests.get(index), actor)
            run_id = created.id
            if parent is not None:
                put_under(p, created, parent)
        ids.append(run_id)
    run = p.created.get(ids[0]) if command.show else None
    shown = None if run is None else msgspec.structs.replace(run, payload=None)
    p.answers.append((origin, Accepted(command.request, ids, shown)))


def _check_lane(p: Pass, new: NewRun, job: Job) -> None:
    lane, _ = lane_of(p, new.lane or job.lane or MAIN)
    if lane in p.state.lanes.draining:
        raise Draining(lane)


def _check_tenants(p: Pass, runs: list[NewRun]) -> None:
    created = (new for new in runs if _existing(p, new) is None)
    check_tenants(
        p, ((new.tenant, lane_of(p, new.lane or p.state.jobs[new.job_id].lane or MAIN)[0]) for new in created)
    )


def _check_identity(p: Pass, new: NewRun, taken: dict[object, bytes], may_pause: bool) -> bytes:
    """Check key and occurrence of a new run, and return its digest."""
    digest = payload.digest(new.job_id, new.payload)
    if new.idempotency_key is not None:
        _check_key(p, (new.tenant, new.idempotency_key), digest, taken)
    if new.occurrence is not None:
        _check_occurrence(p, new, new.occurrence, digest, taken)
        if not may_pause:
            _check_schedule(p, new)
    return digest


def _check_key(p: Pass, key: tuple[str, str], digest: bytes, taken: dict[object, bytes]) -> None:
    known = p.run_of_key(key)
    if known is not None and known[1] != digest:
        raise IdempotencyConflict(key[1], known[0])
    if taken.setdefault(key, digest) != digest:
        raise IdempotencyConflict(key[1], "in the same batch")


def _check_occurrence(p: Pass, new: NewRun, at: float, digest: bytes, taken: dict[object, bytes]) -> None:
    run_id = occurrence_id(new.job_id, at, new.tenant)
    known = p.facts.digests.get(run_id)
    run = p.created.get(run_id)
    if run is not None:
        known = payload.digest(run.job_id, run.payload or payload.EMPTY)
    if known not in (None, digest) or taken.setdefault(run_id, digest) != digest:
        raise IdempotencyConflict(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}", run_id, "occurrence")


def _check_schedule(p: Pass, new: NewRun) -> None:
    """Refuse to take the place of an occurrence that a schedule is to create."""
    if new.tenant == "default" and new.job_id in p.state.timetable.entries and _existing(p, new) is None:
        why = "submitting its occurrences needs a token of every tenant, as pausing it does"
        raise Forbidden(f"occurrence: job {new.job_id!r} has a schedule; {why}")


def _existing(p: Pass, new: NewRun) -> str | None:
    """Return the run that this submit repeats, if any."""
    if new.occurrence is not None:
        run_id = occurrence_id(new.job_id, new.occurrence, new.tenant)
        if run_id in p.state.runs or run_id in p.facts.digests or run_id in p.history:
            return run_id
    if new.idempotency_key is None:
        return None
    known = p.run_of_key((new.tenant, new.idempotency_key))
    return None if known is None else known[0]


def create_run(
    p: Pass, new: NewRun, digest: bytes | None, actor: str, why: str = "submitted", retry_of: OtherRun | None = None
) -> Run:
    """Create one run that was checked. It has a digest if it has a key or an occurrence."""
    job, now = p.state.jobs[new.job_id], p.now
    if new.occurrence is not None:
        run_id = occurrence_id(new.job_id, new.occurrence, new.tenant)
    else:
        run_id = p.state.numbers.ids.next(now, p.rng.getrandbits(48))
    if digest is not None:
        if new.idempotency_key is not None:
            p.keys[new.tenant, new.idempotency_key] = (run_id, digest)
        p.batch.keys.taken.append((new.tenant, new.idempotency_key, run_id, digest, now))
    due = new.at if new.at is not None else new.occurrence if new.occurrence is not None else now + (new.delay or 0.0)
    deadline = new.deadline
    if deadline is None and job.deadline is not None:
        deadline = max(due, now) + job.deadline
    lane, reason = lane_of(p, new.lane or job.lane or MAIN)
    ahead = due > now
    run = Run(
        run_id,
        new.job_id,
        new.tenant,
        new.session,
        new.idempotency_key,
        now,
        due,
        new.payload,
        new.delay,
        actor,
        deadline,
        job.version,
        lane,
        State.PRERUN if ahead else PENDING,
        None,
        reason or why,
        actor,
        now,
        origin=new.origin,
        facets=_facets(new, job, retry_of),
    )
    p.begin(run)
    if new.occurrence is not None and new.tenant == "default":
        note_reached(p, new.job_id, new.occurrence)
    if deadline is not None:
        p.state.set_timer(deadline, run)
    if ahead:
        run.due_at = due
        if new.delay is None:
            p.state.set_timer(due, run)
        else:
            p.state.set_span(p.elapsed + new.delay, run, WAIT)
    return run


def _facets(new: NewRun, job: Job, retry_of: OtherRun | None) -> Facets | None:
    labels = job.with_labels(new.labels) if job.labels else new.labels
    session = SessionFacet(new.session_options, new.stamp) if new.session_options or new.stamp is not None else None
    if not (labels or new.unique or new.priority or session or retry_of):
        return None
    return Facets(
        labels=labels or None,
        unique=Unique() if new.unique else None,
        priority=None if new.priority is None else Priority(new.priority),
        session=session,
        retry_of=retry_of,
    )


def note_reached(p: Pass, job_id: str, occurrence: float) -> None:
    """Record in the schedule that this fire time may have a run."""
    entry = p.state.timetable.entries.get(job_id)
    if entry is not None and entry.reached < occurrence:
        entry.reached = occurrence
        p.batch.schedules[entry.job.id] = entry.row()


def lane_of(p: Pass, wanted: str) -> tuple[str, str]:
    """Return the lane for a run, and a warning if it is not the wanted one."""
    return (wanted, "") if wanted in p.state.lanes else (MAIN, f"unknown lane {wanted!r}: uses main")


def _deadline(job: Job, since: float) -> float | None:
    return None if job.deadline is None else since + job.deadline


def admit(p: Pass, run: Run, reason: str = "cleared") -> bool:
    """Queue a run that has passed every other stage of the entry. Judge one again whose verdict may be out of date."""
    guards, unjudged = p.state.of(Guards), p.state.of(Judging).unjudged
    if guards and (guard := guards.get(run.job_id)) is not None:
        guard.holding[run.id] = run
    p.move(run, SCHEDULED, p.cleared_because.get(run.id, reason) if p.cleared_because else reason)
    if not unjudged or run.id not in unjudged:
        if run.session is None:
            enqueue(p.state, run)
        else:
            queue(p, run)
        return True
    # Not into its session: there it could join another run, or take a place.
    unjudged.discard(run.id)
    if not p.state.of(Sessions).keeps(run):
        enqueue(p.state, run)
    p.move(run, PENDING, "the policy has changed")
    return True


def adopt(p: Pass, run: Run, job: Job) -> None:
    """Apply the new definition of its job to a run in prerun. A run with a large payload keeps its definition
    if the key of the limit changed, because only the store has the value."""
    previous = p.state.job_of(run)
    key, previous_key = (None if definition.limit is None else definition.limit.key for definition in (job, previous))
    if key != previous_key:
        if key is not None and run.payload is None:
            return
        p.set_facet(run, limit_value=None if job.limit is None else job.limit.value_of(run.payload))
    lane, previous_lane = (definition.lanes[not run.is_occurrence] for definition in (job, previous))
    if run.lane == previous_lane and lane in p.state.lanes:
        run.lane = lane
    since = run.scheduled_at if run.due_at is None or run.delay is not None else run.due_at
    if run.deadline_at == _deadline(previous, since):
        run.deadline_at = _deadline(job, since)
        if run.deadline_at is not None:
            p.state.set_timer(run.deadline_at, run)
    if job.labels != previous.labels:
        before = previous.labels or {}
        own = {name: text for name, text in run.labels.items() if before.get(name) != text}
        p.set_facet(run, labels=job.with_labels(own))
    run.job_version = job.version
    p.touch(run)


@for_special_runs
def free_key(p: Pass, run: Run) -> None:
    if run.facets is not None and run.facets.unique is not None:
        p.freed.add(run.id)

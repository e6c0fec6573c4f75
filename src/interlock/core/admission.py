"""The entry: new runs come into being, and runs that are due go on to their lane."""

from interlock.core.decisions import Created
from interlock.core.lanes import enqueue
from interlock.core.passing import Pass
from interlock.model.command import Create, Define
from interlock.model.error import Draining, IdempotencyConflict, UnknownJob
from interlock.model.job import Job
from interlock.model.message import NewRun
from interlock.model.run import Run, occurrence_id
from interlock.model.state import State

SCHEDULER = "scheduler"


def create(p: Pass, origin: str, command: Create) -> None:
    """Create the runs of one submit; an error in any of them leaves none."""
    if p.state.draining:
        raise Draining
    taken: dict[tuple[str, str], bytes] = {}
    for place, new in enumerate(command.runs):
        if new.job_id not in p.state.jobs:
            raise UnknownJob(new.job_id)
        if new.idempotency_key is not None:
            _check_key(p, (new.tenant, new.idempotency_key), command, command.digests[place], taken)
    ids = []
    for place, new in enumerate(command.runs):
        existing = _existing(p, new, command, place)
        ids.append(existing if existing is not None else _create_one(p, new, command.actor))
    p.answers.append((origin, Created(command.request, ids)))


def _check_key(
    p: Pass, key: tuple[str, str], command: Create, digest: bytes, taken: dict[tuple[str, str], bytes]
) -> None:
    known = p.keys.get(key) or command.known_keys.get(key)
    if known is not None and known[1] != digest:
        raise IdempotencyConflict(key[1], known[0])
    if taken.setdefault(key, digest) != digest:
        raise IdempotencyConflict(key[1], "in the same batch")


def _existing(p: Pass, new: NewRun, command: Create, place: int) -> str | None:
    """The run that this submit repeats, if there is one; otherwise its key is taken."""
    run_id = None
    if new.occurrence is not None:
        run_id = occurrence_id(new.job_id, new.occurrence, new.tenant)
        if run_id in p.state.runs or run_id in command.known_ids or run_id in p.history:
            return run_id
    if new.idempotency_key is None:
        return None
    key = (new.tenant, new.idempotency_key)
    known = p.keys.get(key) or command.known_keys.get(key)
    if known is not None:
        return known[0]
    if run_id is None:
        run_id = p.state.ids.next(p.now, p.rng.getrandbits(48))
    digest = command.digests[place]
    p.keys[key] = (run_id, digest)
    p.batch.keys.append((*key, run_id, digest))
    _begin(p, new, run_id, command.actor)
    return run_id


def _create_one(p: Pass, new: NewRun, actor: str) -> str:
    if new.occurrence is not None:
        run_id = occurrence_id(new.job_id, new.occurrence, new.tenant)
    else:
        run_id = p.state.ids.next(p.now, p.rng.getrandbits(48))
    _begin(p, new, run_id, actor)
    return run_id


def _begin(p: Pass, new: NewRun, run_id: str, actor: str) -> None:
    job = p.state.jobs[new.job_id]
    now = p.now
    due = new.at if new.at is not None else new.occurrence if new.occurrence is not None else now
    deadline = new.deadline_at
    if deadline is None:
        deadline = _deadline(job, max(due, now))
    wanted = new.lane or job.lane
    lane, reason = (wanted, "submitted") if wanted in p.state.lanes else ("main", f"unknown lane {wanted!r}: uses main")
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
        deadline,
        job.version,
        lane,
        State.PRERUN if ahead else State.PENDING,
        None,
        reason,
        actor,
        now,
    )
    p.begin(run)
    if deadline is not None:
        p.state.set_timer(deadline, run)
    if ahead:
        run.due_at = due
        p.state.set_timer(due, run)
    else:
        admit(p, run)


def _deadline(job: Job, since: float) -> float | None:
    return None if job.deadline is None else since + job.deadline


def admit(p: Pass, run: Run) -> None:
    """From pending to the lane. With no policy and no constraints nothing stands between."""
    p.move(run, State.SCHEDULED, "cleared", SCHEDULER)
    enqueue(p.state, run)


def define(p: Pass, command: Define) -> None:
    """Adopt the definitions: runs still in prerun change with them, the others keep what they started with."""
    before = p.state.jobs
    p.state.jobs = {job.id: job for job in command.jobs}
    for job in command.jobs:
        if job.version not in p.state.versions:
            p.state.versions[job.version] = job
            p.batch.jobs.append(job)
    kept: dict[str, int] = {}
    for run in p.state.runs.values():
        job = p.state.jobs.get(run.job_id, p.state.versions[run.job_version])
        if job.version == run.job_version:
            continue
        if run.state is State.PRERUN:
            _adopt(p, run, job)
        else:
            kept[job.id] = kept.get(job.id, 0) + 1
    for job_id, count in kept.items():
        p.warnings.append(f"job {job_id!r} has changed: {count} runs that have left prerun keep their version")
    for job_id in (one for one in before if one not in p.state.jobs):
        p.warnings.append(f"job {job_id!r} is no longer defined: its runs wait for a worker that knows it")


def _adopt(p: Pass, run: Run, job: Job) -> None:
    previous = p.state.job_of(run)
    if run.lane == previous.lane and job.lane in p.state.lanes:
        run.lane = job.lane
    if run.deadline_at == _deadline(previous, run.scheduled_at):
        run.deadline_at = _deadline(job, run.scheduled_at)
        if run.deadline_at is not None:
            p.state.set_timer(run.deadline_at, run)
    run.job_version = job.version
    p.touch(run)

"""Routing: dispatch runs to their workers under new fences, and try again later when no worker fits."""

from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf

from interlock.core.effects import ask
from interlock.core.entry.lineage import proof_of
from interlock.core.lanes.gates import bounds_of
from interlock.core.lanes.lane import NOWHERE, SHARED, Head, Lane, Line, LineKey, Requirements, RouteKey, SlotKind
from interlock.core.letters.letter import give_up
from interlock.core.routing import roster
from interlock.core.routing.warm_start import KeptWorkers
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.duration import brief
from interlock.model.explanation import Obstacle, Reason, ReasonKind, WorkerFit
from interlock.model.facets import Facets
from interlock.model.job import RANKS, ExecutorKind, Job
from interlock.model.pool import Lack
from interlock.model.run import Now, Run
from interlock.model.state import DISPATCHED
from interlock.wire.effect import ReadInputs
from interlock.wire.message import Dispatch

MOST_KEYS = 10_000
NO_NEEDS: Requirements = ("", (), (), "")


def route_key(state: SchedulerState, run: Run) -> RouteKey:
    job = state.job_of(run)
    needs = needs_of(job, run.labels)
    gates = tuple(bound.name for bound in bounds_of(state, run))
    if job.workflow is not None:
        return NOWHERE, SlotKind.SHARED, gates, NO_NEEDS
    worker_of = run.job_id
    if job.work is not None:
        worker_of = job.work.function_of or roster.ANYWHERE
        if not job.work.is_function:
            return worker_of, SlotKind.SHARED, gates, needs
        job = state.jobs.get(worker_of, job)  # its executor may have changed since
    if job.executor is ExecutorKind.PROCESS:
        room = SlotKind.OWN
    else:
        # Only a process that died during its attempt leaves an exit code without an outcome.
        died = run.crashes > 0 and run.exit_code is not None and run.outcome is None
        room = SlotKind.SUSPECT if died else SlotKind.SHARED
    return worker_of, room, gates, needs


def line_key(state: SchedulerState, run: Run) -> LineKey:
    own = None if run.facets is None else run.facets.priority
    return RANKS[own or state.job_of(run).priority], run.tenant


def keys_of(state: SchedulerState, run: Run) -> tuple[LineKey, RouteKey]:
    """Return the line and the queue in which a run waits."""
    if run.session is not None or run.crashes or (run.facets is not None and not _routes_plainly(run.facets)):
        return line_key(state, run), route_key(state, run)
    found = state.roster.plain_keys.get((run.job_version, run.tenant))
    if found is None:
        found = line_key(state, run), route_key(state, run)
        if state.job_of(run).function_of is None:  # that of the other job may change
            if len(state.roster.plain_keys) > MOST_KEYS:
                state.roster.plain_keys.clear()
            state.roster.plain_keys[run.job_version, run.tenant] = found
    return found


def _routes_plainly(facets: Facets) -> bool:
    """Return whether a run with these facets waits where one of its job without any does."""
    return facets.labels is None and facets.priority is None and facets.limit_value is None and facets.policy is None


def needs_of(job: Job, labels: Mapping[str, str]) -> Requirements:
    """Return what a run of a job with these labels demands of its worker."""
    required = tuple(sorted(require.casefold() for require in job.requires)) if job.requires else ()
    if not labels:
        return job.policy_topic, required, (), ""
    wanted = tuple(sorted((name, value) for name, value in labels.items() if name.startswith(roster.PREFIXES)))
    return job.policy_topic, required, wanted, labels.get(roster.PREFERRED_POOL, "")


TURN_GRACE = 0.5  # seconds between the request to stop a turn, TERM and KILL
LONGEST_PAUSE = 30.0  # seconds between two looks for a worker
MOST_GIVEN_UP = 1000  # runs of a demand that one pass gives up


def dispatch(p: Pass, run: Run, worker: roster.Worker, room: SlotKind, order: int) -> None:
    begin_attempt(p, run, worker, room, order)
    if run.payload is None or run.has_checkpoint or (run.facets is not None and run.has_collected):
        ask(p, ReadInputs(run.id, run.seq))
    else:
        send(p, run, worker, run.payload)


def begin_attempt(p: Pass, run: Run, worker: roster.Worker, room: SlotKind, order: int) -> None:
    """Begin an attempt under a new fence; a turn leaves its workflow in its state."""
    run.fence = max(run.fence, p.state.numbers.first_fence) + 1
    run.attempt += 1
    run.worker_id = worker.id
    run.attempt_started_at = None
    if room is SlotKind.TURN:
        p.touch(run)
    else:
        p.move(run, DISPATCHED, worker.id)
    worker.attempts[run.id] = roster.Attempt(run, roster.NOT_OUT, False, order)
    if room is not SHARED:
        worker.set_apart(run.id, room)


def send(
    p: Pass,
    run: Run,
    worker: roster.Worker,
    payload: bytes,
    checkpoint: bytes | None = None,
    further: tuple[bytes, ...] = (),
    record: bytes | None = None,
) -> None:
    """Send an attempt to its worker; with the record of its workflow, it is a turn."""
    job, judged = p.state.versions[run.job_version], None if run.facets is None else run.facets.policy
    message = Dispatch(
        run.id,
        run.fence,
        run.job_id,
        run.attempt,
        payload,
        run.deadline_at,
        run.id in worker.apart,
        job.grace if record is None else TURN_GRACE,
        checkpoint,
        job.work,
        run.scheduled_at,
        0.0 if run.due_at is None else min(max(0.0, run.due_at - p.now), p.state.limits.lead),
        p.elapsed + p.state.limits.silence,
        further,
        run.session,
        None if judged is None else judged.limits,
        run.tenant,
        None if run.facets is None else run.facets.labels,
        run.parent,
        proof_of(p.state, run.id, run.fence),
        record,
    )
    p.send(worker.id, message)


def explain(state: SchedulerState, run: Run, faults: Mapping[str, str]) -> Iterator[WorkerFit]:
    """Say of each worker whether the run could go there now. `faults` names workers that cannot start a process."""
    job_id, room, _, needs = route_key(state, run)
    for worker in state.workers.values():
        found = _obstacle(state, worker, room, (job_id, needs, run.tenant))
        if found is None:
            yield WorkerFit(id=worker.id, fits=True)
        else:
            yield WorkerFit(id=worker.id, fits=False, obstacle=found[0], text=found[1])
    for name, fault in faults.items():
        yield WorkerFit(id=name, fits=False, obstacle=Obstacle.FAULT, text=f"cannot start a process: {fault}")


def no_worker(state: SchedulerState, run: Run, now: Now, obstacles: str) -> Reason:
    """Explain that no worker takes a run now, and when the next look is if none ever could."""
    job_id, _, _, needs = route_key(state, run)
    demand = state.roster.known_demand((job_id, needs, run.tenant))
    lack = None if demand is None else state.roster.lack(demand)
    text = f"waits for a worker: {obstacles}"
    if demand is None or lack is None:
        return Reason(kind=ReasonKind.NO_WORKER, text=text)
    at = None if demand.alarm == inf else now.wall + demand.alarm - now.elapsed
    text += f" ({lack}; {LACKS[lack]}, {len(demand.tries)} of {roster.MOST_TRIES} tries)"
    return Reason(kind=ReasonKind.NO_WORKER, text=text, name=lack, at=at)


def _obstacle(
    state: SchedulerState, worker: roster.Worker, room: SlotKind, key: roster.DemandKey
) -> tuple[Obstacle, str] | None:
    if not worker.connected:
        return Obstacle.DISCONNECTED, "is not connected"
    if worker.draining or worker.drained:
        return Obstacle.DRAINING, "is draining"
    if worker.silent:
        return Obstacle.SILENT, "is silent"
    if (misfit := state.roster.misfit(worker, key)) is not None:
        return misfit
    found = worker.obstacle(room, state.roster.pools.get(worker.pool))
    if found is Obstacle.FULL:
        return found, "has no free slot" if room is SlotKind.SHARED else "has no free slot for a process of its own"
    if found is not None:
        load = f"cpu {worker.cpu:.0f} %, gpu {worker.gpu:.0f} %"
        return found, f"is overloaded: {worker.shared:,} of {worker.slots:,} slots taken, {load}"
    return None


def park(p: Pass, demand: roster.Demand, lack: Lack | None, lane: Lane, line: Line, head: Head, run: Run) -> None:
    """Let a queue wait until a worker can take its first run. Look again after a while if nobody ever could."""
    state, (order, key) = p.state, head
    demand.parked[lane.name, line.key, key] = None
    if lack is None:
        demand.tries.clear()
        return
    if demand.alarm == inf:
        if p.elapsed < state.of(KeptWorkers).warm_until:
            demand.alarm = state.of(KeptWorkers).warm_until
        else:
            demand.tried = p.elapsed
            demand.tries.append(state.arrival())
            del demand.tries[: -roster.MOST_TRIES]
            demand.alarm = p.elapsed + min(2.0 ** (len(demand.tries) - 1) + p.rng.random() / 2, LONGEST_PAUSE)
        name = str(state.arrival())
        state.roster.alarms[name] = demand
        state.set_alarm(demand.alarm, roster.DEMAND, name)
    if demand.tried == p.elapsed and (tries := demand.tries_of(order)) > 1:
        p.count("dispatch_waits_total", lack)
        again = f"try {tries} of {roster.MOST_TRIES}, the next in {brief(demand.alarm - p.elapsed)}"
        p.note(run, f"{lack}: {LACKS[lack]}, {again}")


LACKS = {
    Lack.NO_POOL_MAPPING: "no active pool takes it",
    Lack.NO_WORKERS: "no worker fits",
    Lack.POOL_OVERLOADED: "the workers that fit are busy with other things",
}


def look_again(p: Pass, name: str, at: float) -> None:
    """Give up the runs that nobody has served in `MOST_TRIES` looks, and let the other parked queues try."""
    demand = p.state.roster.alarms.pop(name, None)
    if demand is None or demand.alarm > p.elapsed:
        return
    demand.alarm = inf
    p.state.roster.settle(p.rng)  # workers that have changed in this pass count
    if p.state.roster.demands.get(demand.key) is not demand:
        return
    lack = p.state.roster.lack(demand)
    if lack is not None and len(demand.tries) >= roster.MOST_TRIES and not p.state.draining:
        _give_up(p, demand, lack)
    if demand.parked:
        p.state.roster.open[id(demand)] = demand
    else:
        demand.tries.clear()


def _give_up(p: Pass, demand: roster.Demand, lack: Lack) -> None:
    left = MOST_GIVEN_UP
    for lane_name, line_key, key in demand.parked:
        lane = p.state.lanes.get(lane_name)
        line = None if lane is None else lane.lines.get(line_key)
        queue = None if line is None else line.queues.get(key)
        if lane is None or queue is None:
            continue
        for entry in list(islice(queue, left)):
            if demand.tries_of(entry[0]) < roster.MOST_TRIES:
                break
            if lane.waits(entry):
                left -= 1
                give_up(p, entry[1], lack, f"{LACKS[lack]} in {roster.MOST_TRIES} tries")


def unpark(p: Pass) -> bool:
    """Let the queues at open demands try again; return whether there are any."""
    state, found = p.state, False
    demands, state.roster.open = state.roster.open, {}
    for demand in demands.values():
        parked, demand.parked, waits = demand.parked, {}, False
        for lane_name, line_key, key in parked:
            lane = state.lanes.get(lane_name)
            line = None if lane is None else lane.lines.get(line_key)
            if line is not None and key in line.queues:
                state.lanes.mark_startable(lane_name).add_head(line, (line.queues[key][0][0], key))
                found = waits = True
        if not waits:
            demand.tries.clear()  # its runs have ended, and the next one begins anew
    return found

"""Workers as they are shown, and what a person does with them: drain, resume and remove.

A drain outlasts broken links and, in the snapshot of the workers, restarts of the scheduler. It ends when somebody
resumes the worker, or when the worker is forgotten.
"""

from msgspec.structs import replace

from interlock.core.attempts.liveness import worker_down
from interlock.core.lanes.lane import SlotKind
from interlock.core.routing.roster import UNDECLARED, Worker
from interlock.core.routing.warm_start import KeptWorkers
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows.turn_table import Turns
from interlock.error import UnknownWorker, WrongStatus
from interlock.fields.field import copy_fields
from interlock.fields.field_types import did_you_mean
from interlock.model import pool as m
from interlock.model.audit import AuditKind
from interlock.model.run import Now
from interlock.wire.command import WorkerDown
from interlock.wire.message import Drain
from interlock.wire.request import ValueAnswer
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers


def report_all(question: AskWorkers, state: SchedulerState, now: Now) -> ValueAnswer:
    wanted = [worker for worker in state.workers.values() if question.pool in (None, worker.pool)]
    wanted.sort(key=lambda worker: (worker.pool, worker.id))
    found = [worker_info(state, worker, now.elapsed) for worker in wanted]
    return ValueAnswer(question.request, m.WorkerList(workers=found))


def report_one(question: AskWorker, state: SchedulerState, now: Now) -> ValueAnswer:
    return ValueAnswer(question.request, worker_info(state, _find(state, question.worker_id), now.elapsed))


def report_pools(question: AskPools, state: SchedulerState, now: Now) -> ValueAnswer:
    declared = state.roster.pools
    others = {worker.pool for worker in state.workers.values()} - declared.keys()
    pools = [_pool_info(state, name, declared.get(name)) for name in (*declared, *sorted(others))]
    return ValueAnswer(question.request, m.PoolList(pools=pools))


def _pool_info(state: SchedulerState, name: str, declared: m.PoolSpec | None) -> m.PoolInfo:
    workers = [worker for worker in state.workers.values() if worker.pool == name]
    found = copy_fields(
        m.PoolInfo,
        declared or m.ONE_POOL,
        id=name,
        declared=declared is not None,
        workers=len(workers),
        ready=sum(state_of(state, worker) is m.WorkerState.READY for worker in workers),
        active=sum(len(worker.attempts) for worker in workers),
        slots=sum(worker.slots for worker in workers),
    )
    if declared is None and state.roster.pools:
        # Beside declared pools, it gets nothing.
        return replace(found, status=m.PoolStatus.INACTIVE, topics=(), offers=(), ready=0)
    return found


def worker_info(state: SchedulerState, worker: Worker, elapsed: float) -> m.WorkerInfo:
    return copy_fields(
        m.WorkerInfo,
        worker,
        region=worker.labels.get(m.REGION),
        state=state_of(state, worker),
        active=len(worker.attempts),
        heard_ago=max(0.0, elapsed - worker.heard),
        jobs=len(worker.jobs),
        capabilities=list(worker.capabilities),
        labels=dict(worker.labels),
        tenants=None if worker.tenants is None else sorted(worker.tenants),
    )


def state_of(state: SchedulerState, worker: Worker) -> m.WorkerState:
    pools = state.roster.pools
    if not worker.connected:
        return m.WorkerState.AWAY
    if worker.silent:
        return m.WorkerState.SILENT
    if worker.draining or worker.drained or pools.get(worker.pool, UNDECLARED).status is not m.PoolStatus.ACTIVE:
        return m.WorkerState.DRAINING
    obstacle = worker.obstacle(SlotKind.SHARED, pools.get(worker.pool))
    return m.WorkerState.READY if obstacle is None else m.WorkerState(obstacle)


def act(p: Pass, origin: str, command: ActOnWorker) -> None:
    worker, actor = _find(p.state, command.worker_id), command.actor or origin
    before = worker.draining, worker.drained
    if command.action is m.WorkerAction.REMOVE and not worker.connected:
        shown = worker_info(p.state, worker, p.elapsed)
        worker_down(p, origin, WorkerDown(worker.id, True, f"worker {worker.id} was removed by {actor}"))
    else:
        _change(p, worker, command.action)
        shown = worker_info(p.state, worker, p.elapsed)
    if before != (worker.draining, worker.drained) or worker.id not in p.state.workers:
        p.audit(AuditKind.WORKER_CHANGED, actor, "", worker.id, action=command.action, pool=worker.pool)
    p.answers.append((origin, ValueAnswer(command.request, shown)))


def _change(p: Pass, worker: Worker, action: m.WorkerAction) -> None:
    p.state.roster.changed(worker)
    if action is m.WorkerAction.REMOVE:
        worker.draining = True
        p.send(worker.id, Drain())
    elif action is m.WorkerAction.RESUME and worker.draining:
        raise WrongStatus(f"worker: {worker.id!r} is leaving, and cannot be resumed; start another one")
    else:
        worker.drained = action is m.WorkerAction.DRAIN
        if not worker.drained:
            p.state.of(Turns).joined.append(worker.id)
        p.state.of(KeptWorkers).look_at = p.state.of(KeptWorkers).write_at = p.elapsed  # store it in this pass


def _find(state: SchedulerState, worker_id: str) -> Worker:
    if worker_id not in state.workers:
        raise UnknownWorker(worker_id, did_you_mean(worker_id, state.workers))
    return state.workers[worker_id]

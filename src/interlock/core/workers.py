"""Workers as they are shown, and what a person does with them: drain, resume and remove.

A drained worker keeps its mark while it is away, and a memo keeps it over restarts of the scheduler. The mark goes when
somebody resumes or removes the worker, or its process has ended.
"""

from interlock.core.lane import Room
from interlock.core.liveness import worker_down
from interlock.core.state import DRAINED, SchedulerState, Worker
from interlock.core.transition import Pass
from interlock.model.audit import AuditKind
from interlock.model.command import WorkerDown
from interlock.model.error import UnknownWorker, WrongStatus
from interlock.model.field_types import did_you_mean
from interlock.model.message import Drain
from interlock.model.worker_info import REGION, WorkerAction, WorkerInfo, WorkerList, WorkerState
from interlock.model.worker_request import ActOnWorker, AskWorker, AskWorkers, WorkerReport, WorkersReport


def report_all(question: AskWorkers, state: SchedulerState, elapsed: float) -> WorkersReport:
    wanted = [one for one in state.workers.values() if question.pool in (None, one.pool)]
    wanted.sort(key=lambda one: (one.pool, one.id))
    return WorkersReport(question.request, WorkerList(workers=[worker_info(one, elapsed) for one in wanted]))


def report_one(question: AskWorker, state: SchedulerState, elapsed: float) -> WorkerReport:
    return WorkerReport(question.request, worker_info(_find(state, question.worker_id), elapsed))


def worker_info(worker: Worker, elapsed: float) -> WorkerInfo:
    return WorkerInfo(
        id=worker.id,
        pool=worker.pool,
        region=worker.labels.get(REGION),
        state=state_of(worker),
        drained=worker.drained,
        active=len(worker.attempts),
        slots=worker.slots,
        processes=worker.processes,
        cpu=worker.cpu,
        memory=worker.memory,
        gpu=worker.gpu,
        heard_ago=max(0.0, elapsed - worker.heard) if worker.heard else None,
        skew=worker.skew,
        jobs=len(worker.jobs),
        capabilities=list(worker.capabilities),
        labels=dict(worker.labels),
        tenants=None if worker.tenants is None else sorted(worker.tenants),
    )


def state_of(worker: Worker) -> WorkerState:
    if not worker.connected:
        return WorkerState.AWAY
    if worker.silent:
        return WorkerState.SILENT
    if worker.draining or worker.drained:
        return WorkerState.DRAINING
    if worker.free(Room.SHARED) <= 0:
        return WorkerState.FULL
    return WorkerState.OVERLOADED if max(worker.cpu, worker.gpu) >= 90.0 else WorkerState.READY


def act(p: Pass, origin: str, command: ActOnWorker) -> None:
    worker, actor = _find(p.state, command.worker_id), command.actor or origin
    before = worker.draining, worker.drained
    if command.action is WorkerAction.REMOVE and not worker.connected:
        shown = worker_info(worker, p.elapsed)
        worker_down(p, origin, WorkerDown(worker.id, True, f"worker {worker.id} was removed by {actor}"))
    else:
        _change(p, worker, command.action)
        shown = worker_info(worker, p.elapsed)
    if before != (worker.draining, worker.drained) or worker.id not in p.state.workers:
        p.audit(AuditKind.WORKER_CHANGED, actor, "", worker.id, action=command.action, pool=worker.pool)
    p.answers.append((origin, WorkerReport(command.request, shown)))


def _change(p: Pass, worker: Worker, action: WorkerAction) -> None:
    if action is WorkerAction.REMOVE:
        worker.draining = True
        p.send(worker.id, Drain())
    elif action is WorkerAction.RESUME and worker.draining:
        raise WrongStatus(f"worker: {worker.id!r} is leaving, and cannot be resumed; start another one")
    else:
        worker.drained = action is WorkerAction.DRAIN
        p.batch.memos[DRAINED + worker.id] = b"1" if worker.drained else None


def _find(state: SchedulerState, worker_id: str) -> Worker:
    if worker_id not in state.workers:
        raise UnknownWorker(worker_id, did_you_mean(worker_id, state.workers))
    return state.workers[worker_id]

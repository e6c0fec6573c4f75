"""Routing: pick the worker that a run goes to, and dispatch it under a new fence."""

from collections.abc import Iterator, Mapping

from interlock.core.effects import ask
from interlock.core.lane import Room, RouteKey
from interlock.core.state import ANYWHERE, NOT_OUT, Attempt, SchedulerState, Worker
from interlock.core.transition import Pass
from interlock.model.effect import ReadInputs
from interlock.model.explanation import Obstacle, WorkerFit
from interlock.model.message import Dispatch
from interlock.model.run import Run
from interlock.model.state import State


def pick(state: SchedulerState, key: RouteKey) -> Worker | None:
    """Return the worker with the most free slots that knows the job. A silent worker is the last choice, so that it
    does not get back the work it lost; it is still a choice, because a worker without attempts sends no heartbeats."""
    job_id, room, _ = key
    best: Worker | None = None
    silent: Worker | None = None
    most = 0
    for worker in state.workers.values():
        if worker.is_open and (job_id == ANYWHERE or job_id in worker.jobs):
            free = worker.free(room)
            if worker.silent:
                silent = worker if free > 0 else silent
            elif free > most:
                best, most = worker, free
    return best if best is not None else silent


def dispatch(p: Pass, run: Run, worker: Worker, room: Room, order: int) -> None:
    run.fence += 1
    run.attempt += 1
    run.worker_id = worker.id
    run.attempt_started_at = None
    p.move(run, State.DISPATCHED, worker.id)
    worker.attempts[run.id] = Attempt(run, NOT_OUT, False, order)
    if room is not Room.SHARED:
        worker.apart[run.id] = room
    if run.payload is None or run.has_checkpoint or run.has_collected:
        ask(p, ReadInputs(run.id, run.seq))
    else:
        send(p, run, worker, run.payload, None, ())


def send(
    p: Pass, run: Run, worker: Worker, payload: bytes, checkpoint: bytes | None, further: tuple[bytes, ...]
) -> None:
    job = p.state.job_of(run)
    message = Dispatch(
        run.id,
        run.fence,
        run.job_id,
        run.attempt,
        payload,
        run.deadline_at,
        run.id in worker.apart,
        job.grace,
        checkpoint,
        job.work,
        run.scheduled_at,
        0.0 if run.due_at is None else max(0.0, run.due_at - p.now),
        p.elapsed + p.state.limits.silence,
        further,
        run.session,
        None if run.judged is None else run.judged.limits,
    )
    p.send(worker.id, message)


def explain(state: SchedulerState, run: Run, faults: Mapping[str, str]) -> Iterator[WorkerFit]:
    """Say of each worker whether the run could go there now. `faults` names workers that cannot start a process."""
    job_id, room, _ = state.route_key(run)
    for worker in state.workers.values():
        if not worker.connected:
            yield WorkerFit(id=worker.id, fits=False, obstacle=Obstacle.DISCONNECTED, text="is not connected")
        elif worker.draining or worker.drained:
            yield WorkerFit(id=worker.id, fits=False, obstacle=Obstacle.DRAINING, text="is draining")
        elif job_id not in (ANYWHERE, *worker.jobs):
            text = f"does not know job {job_id}"
            yield WorkerFit(id=worker.id, fits=False, obstacle=Obstacle.UNKNOWN_JOB, text=text)
        elif worker.free(room) <= 0:
            text = "has no free slot" if room is Room.SHARED else "has no free slot for a process of its own"
            yield WorkerFit(id=worker.id, fits=False, obstacle=Obstacle.FULL, text=text)
        elif worker.silent:
            text = "was silent, so it is the last choice"
            yield WorkerFit(id=worker.id, fits=True, obstacle=Obstacle.SILENT, text=text)
        else:
            yield WorkerFit(id=worker.id, fits=True)
    for name, fault in faults.items():
        yield WorkerFit(id=name, fits=False, obstacle=Obstacle.FAULT, text=f"cannot start a process: {fault}")

"""Who is there and who is silent.

An attempt is alive as long as its worker says so. The scheduler hears it in heartbeats; when none has come for three
intervals of elapsed time, the attempt is lost: its fence is raised, so that whatever the worker may still send is known
as old, the worker is told to stop it, and the run goes another way. A worker that comes back, to this scheduler or to
the next one, first says what it holds; both sides then drop what the other does not know.
"""

from interlock.core.settle import begin, current, give_back, lose
from interlock.core.state import NOT_OUT, Attempt, Lines, Worker
from interlock.core.transition import Pass
from interlock.model.command import Stalled, WorkerDown, WorkerUp
from interlock.model.message import Checkpoint, Heard, Heartbeat, Held, LogLine, Progress, Stop
from interlock.model.state import State

STALE = "stale"


def heartbeat(p: Pass, worker_id: str, message: Heartbeat) -> None:
    for held in message.held:
        attempt = current(p, worker_id, held.run_id, held.fence)
        if attempt is None:
            p.send(worker_id, Stop(held.run_id, held.fence, STALE))
        else:
            attempt.run.heartbeats += 1
            _hear(p, attempt, held)
    p.send(worker_id, Heard(message.at, p.elapsed))


def _hear(p: Pass, attempt: Attempt, held: Held) -> None:
    """A live attempt is spoken of. What either side may have missed is said again: its start, and that it must stop."""
    attempt.heard = p.elapsed
    attempt.accepted = True
    if held.begun:
        begin(p, attempt.run)
    if attempt.run.stop is not None:
        p.send(str(attempt.run.worker_id), Stop(held.run_id, held.fence, attempt.run.stop))


def worker_up(p: Pass, command: WorkerUp) -> None:
    worker = p.state.workers.get(command.worker_id)
    if worker is None:
        worker = p.state.workers[command.worker_id] = Worker(command.worker_id)
    worker.slots = command.slots
    worker.processes = command.processes
    worker.jobs = command.jobs
    worker.draining = command.draining
    worker.connected = True
    worker.silent = False
    known = set()
    for held in command.held:
        attempt = current(p, worker.id, held.run_id, held.fence)
        if attempt is None:
            p.send(worker.id, Stop(held.run_id, held.fence, STALE))
            continue
        known.add(held.run_id)
        _hear(p, attempt, held)
    for attempt in list(worker.attempts.values()):
        if attempt.run.id in known:
            continue
        if attempt.run.state is State.DISPATCHED:
            give_back(p, attempt, "never reached its worker")
        else:
            lose(p, attempt.run, f"worker {worker.id} no longer has it")


def worker_down(p: Pass, command: WorkerDown) -> None:
    worker = p.state.workers.get(command.worker_id)
    if worker is None:
        return
    worker.connected = False
    if command.dead:
        for attempt in list(worker.attempts.values()):
            if attempt.heard == NOT_OUT:
                give_back(p, attempt, command.reason)
            else:
                lose(p, attempt.run, command.reason)
    _forget(p, worker)


def worker_leaving(p: Pass, worker_id: str) -> None:
    worker = p.state.workers.get(worker_id)
    if worker is not None:
        worker.draining = True


def _forget(p: Pass, worker: Worker) -> None:
    if not worker.connected and not worker.attempts:
        p.state.workers.pop(worker.id, None)


def check_silence(p: Pass) -> None:
    """Find the attempts nobody has heard of for too long, and when to look again."""
    if p.state.liveness_due is None or p.elapsed < p.state.liveness_due:
        return
    silence = p.state.limits.silence
    oldest: float | None = None
    for worker in list(p.state.workers.values()):
        for attempt in list(worker.attempts.values()):
            # The sum, not the difference: it is the very number the next look was set to, rounding included.
            if p.elapsed < attempt.heard + silence:
                oldest = attempt.heard if oldest is None else min(oldest, attempt.heard)
                continue
            run = attempt.run
            worker.silent = True
            p.send(worker.id, Stop(run.id, run.fence, STALE))
            if run.state is State.DISPATCHED and not attempt.accepted and worker.connected:
                give_back(p, attempt, f"no word from {worker.id} for {silence:g}s; it may have begun there")
            else:
                lose(p, run, f"no heartbeat from {worker.id} for {silence:g}s")
        _forget(p, worker)
    p.state.liveness_due = None if oldest is None else oldest + silence


def stalled(p: Pass, command: Stalled) -> None:
    """The scheduler was away itself: count no silence for that span."""
    for worker in p.state.workers.values():
        for attempt in worker.attempts.values():
            attempt.heard += command.seconds
    if p.state.liveness_due is not None:
        p.state.liveness_due += command.seconds


def progress(p: Pass, worker_id: str, message: Progress) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        p.state.progress[message.run_id] = (message.percent, message.text)
        p.progressed[message.run_id] = attempt.run


def log_line(p: Pass, worker_id: str, message: LogLine) -> None:
    """Keep a line, up to the limits of a run's log. What passes them is cut, and one last line says so.

    That last line brings the log beyond a limit, which nothing else does: its size alone tells, after a restart too,
    that the log is full and has said so.
    """
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is None:
        return
    state, limits = p.state, p.state.limits
    run_id, number, text = message.run_id, message.number, message.text
    known = state.lines.get(run_id)
    if known is None or known.attempt != attempt.run.attempt:
        known = state.lines[run_id] = Lines(attempt.run.attempt)
    if known.has(number):
        return
    lines, size = state.log_sizes.get(run_id, (0, 0))
    if lines > limits.log_lines or size > limits.log_bytes:
        state.log_lines_dropped += 1
        return
    known.add(number)
    level = message.level
    length = len(text) if text.isascii() else len(text.encode())
    full = lines == limits.log_lines or size + length > limits.log_bytes
    if full:
        state.log_lines_dropped += 1
        text = "" if lines == limits.log_lines else text.encode()[: limits.log_bytes - size].decode(errors="ignore")
        length = len(text.encode())
    if text or not full:
        p.batch.logs.append((run_id, attempt.run.attempt, number, message.at, level, text))
        lines, size, number = lines + 1, size + length, number + 1
    if full:
        text = limits.log_full
        p.batch.logs.append((run_id, attempt.run.attempt, number, message.at, "warning", text))
        lines, size = lines + 1, size + len(text)
    state.log_sizes[run_id] = (lines, size)


def checkpoint(p: Pass, worker_id: str, message: Checkpoint) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        p.batch.checkpoints.append((message.run_id, message.value))
        if not attempt.run.has_checkpoint:
            attempt.run.has_checkpoint = 1
            p.touch(attempt.run)

"""Liveness: which workers are connected, and which attempts are silent.

A worker names its attempts in every heartbeat. An attempt that no heartbeat has named for three intervals of elapsed
time is lost: the scheduler raises its fence, so that later messages of it are stale, asks the worker to stop it, and
retries the run elsewhere. A worker that connects, to this scheduler or the next, first lists its attempts; then both
sides drop those that the other does not know.
"""

from collections.abc import Iterator

from interlock.core.attempts.settle import begin, current, give_back, lose, start_reason
from interlock.core.attempts.silence import Silence, watch_silence
from interlock.core.effects import is_pending
from interlock.core.lanes.lane import SlotKind
from interlock.core.policy.judge_state import Judging
from interlock.core.routing.dispatch import route_key, send
from interlock.core.routing.roster import NOT_OUT, Attempt, Worker
from interlock.core.routing.warm_start import KeptWorkers
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows.turn_table import Turns
from interlock.fields.duration import span
from interlock.model.explanation import Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import ON_WORKER, State
from interlock.wire import message as m
from interlock.wire.command import HandedOver, Stalled, WorkerDown, WorkerUp

STALE = "stale"


def heartbeat(p: Pass, worker_id: str, message: m.Heartbeat) -> None:
    for held in message.held:
        attempt = current(p, worker_id, held.run_id, held.fence)
        if attempt is None:
            p.send(worker_id, m.Stop(held.run_id, held.fence, STALE))
        else:
            attempt.run.heartbeats += 1
            _hear(p, attempt, held)
    p.send(worker_id, m.Heard(message.at, p.elapsed))


def note_load(p: Pass, worker_id: str, message: m.Load) -> None:
    worker = p.state.workers.get(worker_id)
    if worker is not None:
        worker.heard, worker.silent = p.elapsed, False
        worker.cpu, worker.memory, worker.gpu = message.cpu, message.memory, message.gpu
        p.state.roster.changed(worker)
        watch_silence(p.state, p.elapsed)
    # A worker that is to leave hears so again until it has left: the first word may be lost.
    p.send(worker_id, m.Drain() if worker is not None and worker.draining else m.Seen())


def _hear(p: Pass, attempt: Attempt, held: m.Held) -> None:
    """Record a sign of life, and repeat messages that a broken link may have lost: the start, the request to stop."""
    attempt.heard = p.elapsed
    attempt.accepted = True
    if held.begun:
        begin(p, attempt.run)
    if attempt.run.stop is not None:
        p.send(str(attempt.run.worker_id), m.Stop(held.run_id, held.fence, attempt.run.stop))


def worker_up(p: Pass, origin: str, command: WorkerUp) -> None:
    worker = p.state.workers.setdefault(command.worker_id, Worker(command.worker_id))
    p.state.roster.leave(worker)
    p.state.roster.changed(worker)
    worker.slots = command.slots
    worker.processes = command.processes
    worker.jobs = command.jobs
    worker.draining = worker.draining or command.draining
    worker.pool = command.pool
    worker.capabilities = command.capabilities
    worker.labels = command.labels
    worker.tenants = command.tenants
    worker.skew = command.skew
    worker.connected = True
    worker.silent = False
    worker.heard = p.elapsed
    watch_silence(p.state, p.elapsed)
    p.state.of(KeptWorkers).look_at = 0.0
    p.state.of(Turns).joined.append(worker.id)
    known = set()
    for held in command.held:
        attempt = current(p, worker.id, held.run_id, held.fence)
        if attempt is None:
            p.send(worker.id, m.Stop(held.run_id, held.fence, STALE))
            continue
        known.add(held.run_id)
        _hear(p, attempt, held)
    for attempt in list(worker.attempts.values()):
        if attempt.run.id in known:
            continue
        if attempt.run.state is State.DISPATCHED:
            if attempt.heard != NOT_OUT:  # an earlier process of the same id may have begun it
                p.set_facet(attempt.run, unheard=True)
            give_back(p, attempt, "never reached its worker")
        else:
            lose(p, attempt.run, f"worker {worker.id} no longer has it")


def worker_down(p: Pass, origin: str, command: WorkerDown) -> None:
    worker = p.state.workers.get(command.worker_id)
    if worker is None:
        return
    worker.connected = False
    p.state.roster.changed(worker)
    if command.dead:
        for attempt in list(worker.attempts.values()):
            if attempt.heard == NOT_OUT:
                give_back(p, attempt, command.reason)
            else:
                lose(p, attempt.run, command.reason)
    if not worker.attempts and (command.dead or worker.draining):
        p.state.roster.forget(worker)
    else:
        watch_silence(p.state, worker.heard)


def worker_leaving(p: Pass, worker_id: str, message: m.Leaving) -> None:
    worker = p.state.workers.get(worker_id)
    if worker is not None:
        worker.draining = True
        p.state.roster.changed(worker)


def inputs_read(p: Pass, run: Run, inputs: tuple[bytes, bytes | None, tuple[bytes, ...]]) -> None:
    """Send a dispatch after its payloads and checkpoint were read."""
    worker = p.state.workers[str(run.worker_id)]
    if run.stop is not None or run.is_held or run.id in p.state.of(Judging).unjudged:
        give_back(p, worker.attempts[run.id], "not yet sent to its worker")
    else:
        send(p, run, worker, *inputs)


def handed_over(p: Pass, origin: str, command: HandedOver) -> None:
    """Start to count silence for the attempts in these dispatches."""
    for worker_id, messages in command.sends.items():
        worker = p.state.workers.get(worker_id)
        attempts = {} if worker is None else worker.attempts
        is_out = False
        for message in messages:
            if type(message) is m.Dispatch:
                attempt = attempts.get(message.run_id)
                if attempt is not None and attempt.run.fence == message.fence and not attempt.accepted:
                    attempt.heard = command.at
                    is_out = True
        if is_out:
            watch_silence(p.state, command.at)


def check_silence(p: Pass) -> None:
    """Lose attempts and pass over workers that have been silent for too long, and set the time of the next check."""
    watch, silence = p.state.of(Silence), p.state.limits.silence
    if watch.due is None or p.elapsed < watch.due:
        return
    oldest: float | None = None
    for worker in list(p.state.workers.values()):
        for attempt in list(worker.attempts.values()):
            # The sum, not the difference: it equals the time of the next check, rounding included.
            if p.elapsed < attempt.heard + silence:
                oldest = attempt.heard if oldest is None else min(oldest, attempt.heard)
                continue
            run = attempt.run
            p.send(worker.id, m.Stop(run.id, run.fence, STALE))
            if run.state is State.DISPATCHED and not attempt.accepted and worker.connected:
                p.set_facet(run, unheard=True)
                give_back(p, attempt, f"no word from {worker.id} for {silence:g}s; it may have begun there")
            else:
                lose(p, run, f"no heartbeat from {worker.id} for {silence:g}s")
        if p.elapsed < worker.heard + silence:
            oldest = worker.heard if oldest is None else min(oldest, worker.heard)
        elif worker.connected:
            worker.silent = True
            p.state.roster.changed(worker)
        elif not worker.attempts and not worker.drained:
            p.state.roster.forget(worker)
    watch.due = None if oldest is None else oldest + silence


def stalled(p: Pass, origin: str, command: Stalled) -> None:
    """Exclude a span in which the scheduler itself stood still from silence."""
    for worker in p.state.workers.values():
        for attempt in worker.attempts.values():
            attempt.heard += command.seconds
        worker.heard += command.seconds
    if (watch := p.state.of(Silence)).due is not None:
        watch.due += command.seconds


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain the attempt of a run on its worker."""
    worker = state.workers.get(run.worker_id or "")
    attempt = None if worker is None else worker.attempts.get(run.id)
    if worker is None or attempt is None or run.state not in ON_WORKER:
        return
    if run.stop is not None:
        text = f"was asked to stop by {run.stop_actor}: {run.stop_reason}"
        yield Reason(kind=ReasonKind.STOPPING, text=text, name=run.stop_actor)
    if run.state is State.STARTING:
        lasts = span(now.wall - run.changed_at)
        text = f"has been starting on worker {worker.id} for {lasts}: {start_reason(state, run)}"
        yield Reason(kind=ReasonKind.STARTING, text=text, name=worker.id, since=run.changed_at, at=run.due_at)
    elif run.state is not State.DISPATCHED:
        lasts, heard = span(now.wall - run.changed_at), span(now.elapsed - attempt.heard)
        text = (
            f"has been executing on worker {worker.id} for {lasts} (attempt {run.attempt}, last heard from {heard} ago)"
        )
        yield Reason(kind=ReasonKind.EXECUTING, text=text, name=worker.id, since=run.attempt_started_at)
    elif run.due_at is not None and 0 < run.due_at - now.wall <= state.limits.lead:
        # More would be left only if the wall clock was set back, and its worker counts elapsed time.
        text = f"waits on worker {worker.id} for its time, due in {span(run.due_at - now.wall)}"
        yield Reason(kind=ReasonKind.SCHEDULED_TIME, text=text, name=worker.id, at=run.due_at)
    elif not is_pending(state, run):
        text = f"went to worker {worker.id} {span(now.wall - run.changed_at)} ago and has not begun"
        yield Reason(kind=ReasonKind.SENT, text=text, name=worker.id, since=run.changed_at)
    if not worker.connected and attempt.heard != NOT_OUT:
        left = max(0.0, attempt.heard + state.limits.silence - now.elapsed)
        text = f"will count as lost in {span(left)} unless its worker reconnects"
        yield Reason(kind=ReasonKind.WORKER_AWAY, text=text, name=worker.id, at=now.wall + left)


def place(state: SchedulerState, run: Run, now: Now) -> None:
    """Expect a stored attempt from its worker, until that is silent for too long."""
    if run.worker_id is not None:
        worker = state.workers.setdefault(run.worker_id, Worker(run.worker_id, heard=now.elapsed))
        worker.attempts[run.id] = Attempt(run, now.elapsed, run.state is not State.DISPATCHED, state.arrival())
        if (room := route_key(state, run)[1]) is not SlotKind.SHARED:
            worker.set_apart(run.id, room)
        watch_silence(state, now.elapsed)

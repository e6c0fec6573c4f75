"""The way of a run, top to bottom: take in what arrived, notice silence, fire what is due, admit, dispatch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core import (
    actions,
    admission,
    approvals,
    audit,
    bulk,
    constraints,
    effects,
    job_changes,
    judge,
    lane_changes,
    lanes,
    letters,
    liveness,
    outbox,
    output,
    rerun,
    sessions,
    settle,
    sweep,
    timers,
    timetable,
    warm_start,
    workers,
)
from interlock.core.decisions import Decisions, Failed
from interlock.core.facts import Facts, Needs
from interlock.core.series import release
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.error import InterlockError, InvalidTransition
from interlock.model.child_info import KeptService
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire import (
    approval_request,
    audit_request,
    command,
    delivery_request,
    effect,
    lane_request,
    letter_request,
    message,
    output_request,
    request,
    worker_request,
)

if TYPE_CHECKING:
    from random import Random

Command = tuple[str, Any]  # sender (a worker's id, or the client to answer) and message or command
NO_FACTS = Facts()


def needs(state: SchedulerState, commands: Sequence[Command]) -> Needs:
    """Return the facts that a step with these commands needs from the store."""
    found = Needs()
    for _, content in commands:
        find_needs = _NEEDS.get(type(content))
        if find_needs is not None:
            find_needs(state, content, found)
    timetable.needs_unsure(state, found)
    rerun.needs_next_page(state, found)
    return found


def step(
    state: SchedulerState, commands: Sequence[Command], now: Now, rng: "Random", facts: Facts = NO_FACTS
) -> Decisions:
    """Take in a batch and decide. Change `state`; the shell must store the decisions before it sends anything."""
    p = Pass(state=state, now=now.wall, elapsed=now.elapsed, rng=rng, facts=facts)
    timers.follow_wall_clock(p)
    for origin, content in commands:
        handle = _HANDLERS[type(content)]
        try:
            handle(p, origin, content)
        except InvalidTransition as error:
            p.problems.append(str(error))
            if hasattr(content, "request"):
                p.answers.append((origin, Failed(content.request, error)))
        except InterlockError as error:
            p.answers.append((origin, Failed(content.request, error)))
    job_changes.adopt_changes(p)
    bulk.proceed(p)
    liveness.check_silence(p)
    effects.proceed(p, _APPLIERS)
    timetable.fire(p)
    timers.fire(p)
    _release(p)
    timetable.fire_ahead(p)
    judge.resume(p, _enter)
    while p.entering or min(p.released, p.settled) < len(p.ended):
        _enter(p)
        _release(p)
    lanes.fill(p)
    warm_start.keep(p)
    state.sweep()
    return p.finish()


def _release(p: Pass) -> None:
    """Wake the runs that waited for those that ended."""
    constraints.release(p)
    release(p)
    sessions.release(p)


def _enter(p: Pass) -> None:
    """Lead every run that became pending through the stages of the entry."""
    entering, p.entering = p.entering, []
    for run in entering:
        if run.state is not State.PENDING:
            continue
        for keeps in _STAGES:
            if keeps(p, run):
                break
        else:
            admission.admit(p, run)


def _start_draining(p: Pass, origin: str, content: command.StartDraining) -> None:
    p.state.draining = True


def _note_services(p: Pass, origin: str, content: command.NoteServices) -> None:
    for service, kept in content.kept:
        if kept is None:
            p.forget(KeptService, service)
        else:
            p.keep(KeptService(service, kept))
    p.batch.service_log += content.lines


_HANDLERS: dict[type, Callable[[Pass, str, Any], None]] = {
    message.Started: settle.started,
    message.Finished: settle.finished,
    message.Lost: settle.lost,
    message.Returned: settle.returned,
    message.Heartbeat: liveness.heartbeat,
    message.Load: liveness.note_load,
    message.Progress: liveness.progress,
    message.Usage: sessions.note_usage,
    message.LogLine: liveness.log_line,
    message.Checkpoint: liveness.checkpoint,
    message.Leaving: liveness.worker_leaving,
    message.Unread: letters.unread,
    command.Create: admission.create,
    request.ActOnRun: bulk.act,
    letter_request.Replay: actions.act,
    letter_request.DropLetters: letters.drop,
    lane_request.ActOnSession: sessions.act,
    request.StartBulk: bulk.start,
    request.SetPaused: job_changes.pause,
    request.DropJob: job_changes.drop,
    lane_request.CreateLane: lane_changes.create,
    lane_request.SetLane: lane_changes.set_values,
    lane_request.ActOnLane: lane_changes.act,
    worker_request.ActOnWorker: workers.act,
    delivery_request.ReportSent: outbox.report_sent,
    delivery_request.Redeliver: outbox.redeliver,
    command.Define: job_changes.define,
    command.Put: job_changes.put,
    command.Refill: job_changes.refill,
    command.PolicyMoved: judge.policy_moved,
    approval_request.Resolve: approvals.resolve,
    approval_request.ReleaseOutput: output.release_output,
    output_request.ReportScans: output.report_scans,
    command.Answered: effects.answered,
    command.HandedOver: liveness.handed_over,
    command.WorkerUp: liveness.worker_up,
    command.WorkerDown: liveness.worker_down,
    command.Stalled: liveness.stalled,
    command.Sweep: sweep.sweep,
    audit_request.NoteRefusals: audit.note_refusals,
    command.NoteTokens: audit.note_tokens,
    command.StartDraining: _start_draining,
    command.NoteServices: _note_services,
}

_NEEDS: dict[type, Callable[[SchedulerState, Any, Needs], None]] = {
    command.Create: admission.create_needs,
    request.ActOnRun: actions.needs_run,
    letter_request.Replay: actions.needs_run,
    letter_request.DropLetters: letters.needs_letters,
    request.StartBulk: rerun.needs_page,
    lane_request.ActOnSession: sessions.act_needs,
    delivery_request.ReportSent: outbox.needs_deliveries,
    delivery_request.Redeliver: outbox.needs_delivery,
    approval_request.Resolve: approvals.resolve_needs,
    approval_request.ReleaseOutput: output.release_needs,
    output_request.ReportScans: output.report_needs,
    command.Define: job_changes.needs_latest,
    command.Put: job_changes.needs_latest,
    command.Refill: job_changes.needs_states,
    command.Sweep: sweep.needs_runs,
}

_STAGES: tuple[Callable[[Pass, Run], bool], ...] = (
    actions.has_expired, actions.stays_held, judge.judge, constraints.constrain,
)  # fmt: skip
"""the stages between pending and the queue, in order; a stage returns True for a run that it ends or keeps"""

_APPLIERS: dict[type[effect.Effect], effects.Apply] = {
    effect.ReadInputs: liveness.inputs_read,
    effect.ReadPrevious: constraints.previous_read,
    effect.CallHook: constraints.hook_answered,
    effect.ReadPayload: judge.payload_read,
    effect.CheckPolicy: judge.policy_answered,
}

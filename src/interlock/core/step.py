"""The way of a run, top to bottom: what arrived, what fell due, who is silent, who may go."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from interlock.core import (
    admission,
    bulk,
    deadlines,
    effects,
    handover,
    hold,
    job_changes,
    lanes,
    liveness,
    run_actions,
    settle,
    timers,
    timetable,
)
from interlock.core.decisions import Decisions, Failed
from interlock.core.facts import Facts, Needs
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model import command, effect, message, request
from interlock.model.error import InterlockError, InvalidTransition
from interlock.model.run import Now, Run
from interlock.model.state import State

if TYPE_CHECKING:
    from random import Random

Command = tuple[str, Any]
"""who it comes from (a worker's id, or whom to answer), and a message or a command"""

NO_FACTS = Facts()


def needs(state: SchedulerState, commands: Sequence[Command]) -> Needs:
    """Return what a step with these commands has to know of the store."""
    found = Needs()
    for _, content in commands:
        asks = _NEEDS.get(type(content))
        if asks is not None:
            asks(state, content, found)
    timetable.needed(state, found)
    return found


def step(
    state: SchedulerState, commands: Sequence[Command], now: Now, rng: "Random", facts: Facts = NO_FACTS
) -> Decisions:
    """Take in a batch and decide. Changes `state`; what it returns must be stored before anybody is told."""
    p = Pass(state, now, rng, facts)
    timers.follow_wall_clock(p)
    for origin, content in commands:
        handle = _HANDLERS[type(content)]
        try:
            handle(p, origin, content)
        except InvalidTransition as error:
            p.problems.append(str(error))
        except InterlockError as error:
            p.answers.append((origin, Failed(content.request, error)))
    job_changes.adopt_changes(p)
    bulk.proceed(p)
    liveness.check_silence(p)
    effects.proceed(p, _APPLIERS)
    timetable.fire(p)
    timers.fire(p)
    timetable.release(p)
    timetable.fire_ahead(p)
    while p.entering:
        _enter(p)
        timetable.release(p)
    lanes.fill(p)
    return p.decisions()


def _enter(p: Pass) -> None:
    """Lead every run that has become pending through the stages of the entry."""
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
    p.batch.kept += content.kept
    p.batch.service_log += content.lines


_HANDLERS: dict[type, Callable[[Pass, str, Any], None]] = {
    message.Started: settle.started,
    message.Finished: settle.finished,
    message.Lost: settle.lost,
    message.Returned: settle.returned,
    message.Heartbeat: liveness.heartbeat,
    message.Progress: liveness.progress,
    message.LogLine: liveness.log_line,
    message.Checkpoint: liveness.checkpoint,
    message.Leaving: lambda p, origin, _: liveness.worker_leaving(p, origin),
    command.Create: admission.create,
    request.ActOnRun: run_actions.act,
    request.StartBulk: bulk.start,
    request.SetPaused: job_changes.pause,
    request.DropJob: job_changes.drop,
    command.Define: job_changes.define,
    command.Put: job_changes.put,
    command.Refill: job_changes.refill,
    command.Quarantine: settle.quarantine,
    command.Answered: effects.answered,
    command.HandedOver: handover.handed_over,
    command.WorkerUp: lambda p, _, content: liveness.worker_up(p, content),
    command.WorkerDown: lambda p, _, content: liveness.worker_down(p, content),
    command.Stalled: lambda p, _, content: liveness.stalled(p, content),
    command.StartDraining: _start_draining,
    command.NoteServices: _note_services,
}

_NEEDS: dict[type, Callable[[SchedulerState, Any, Needs], None]] = {
    command.Create: admission.create_needs,
    request.ActOnRun: run_actions.needs_run,
    command.Quarantine: run_actions.needs_run,
    command.Define: job_changes.needs_latest,
    command.Put: job_changes.needs_latest,
    command.Refill: job_changes.needs_states,
}
"""the facts a command needs, for those that need any"""

_STAGES: tuple[Callable[[Pass, Run], bool], ...] = (deadlines.expired, hold.is_held)
"""what a pending run passes on its way to the queue, in order; a stage returns True for a run that it ends or keeps"""

_APPLIERS: dict[type[effect.Effect], effects.Apply] = {effect.ReadInputs: handover.inputs_read}
"""what the answer to an effect does to its run"""

"""The actions of clients on runs: on one run, or on many with a bulk request."""

from collections.abc import Callable

from interlock.core.facts import Needs
from interlock.core.state import SchedulerState
from interlock.core.stop import cancel_run
from interlock.core.transition import Pass
from interlock.model.command import Quarantine
from interlock.model.error import RunPruned, UnknownRun
from interlock.model.facets import Hold
from interlock.model.request import ActOnRun, StateReport
from interlock.model.run import Run
from interlock.model.run_action import RunAction
from interlock.model.state import State


def needs_run(state: SchedulerState, command: ActOnRun | Quarantine, needs: Needs) -> None:
    if command.run_id not in state.runs:
        needs.runs[command.run_id] = None


def act(p: Pass, origin: str, command: ActOnRun) -> None:
    run = p.find(command.run_id)
    if run is None:
        raise (RunPruned if command.run_id in p.facts.pruned else UnknownRun)(command.run_id)
    if run.ended_at is None:
        ACTIONS[command.action](p, run, command.reason or command.action.done, command.actor or origin)
    p.answers.append((origin, StateReport(command.request, run.id, run.state)))


def hold(p: Pass, run: Run, reason: str, actor: str) -> bool:
    """Keep a run from starting until it is released. Its deadline goes on."""
    if run.is_held:
        return False
    p.set_facet(run, hold=Hold(by=actor, at=p.now))
    if run.state is State.SCHEDULED:
        p.move(run, State.PENDING, reason, actor)
    return True


def release(p: Pass, run: Run, reason: str, actor: str) -> bool:
    if not run.is_held:
        return False
    p.set_facet(run, hold=None)
    if run.state is State.PENDING:
        p.entering.append(run)
    return True


def stays_held(p: Pass, run: Run) -> bool:
    """The stage of the entry: a held run stays pending."""
    return run.is_held


ACTIONS: dict[RunAction, Callable[[Pass, Run, str, str], bool]] = {
    RunAction.CANCEL: cancel_run,
    RunAction.HOLD: hold,
    RunAction.RELEASE: release,
}
"""the effect of each on a live run, with a reason and an actor; False if nothing was left to do"""

"""What clients have done to runs: to one of them, or to many with a bulk request."""

from collections.abc import Callable

from interlock.core.facts import Needs
from interlock.core.hold import hold, release
from interlock.core.state import SchedulerState
from interlock.core.stop import cancel_run
from interlock.core.transition import Pass
from interlock.model.command import Quarantine
from interlock.model.error import RunPruned, UnknownRun
from interlock.model.request import ActOnRun, StateReport
from interlock.model.run import Run
from interlock.model.run_action import RunAction

ACTIONS: dict[RunAction, Callable[[Pass, Run, str, str], bool]] = {
    RunAction.CANCEL: cancel_run,
    RunAction.HOLD: hold,
    RunAction.RELEASE: release,
}
"""what each does to a run that has not ended, with a reason and an actor; False if there was nothing to do"""


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

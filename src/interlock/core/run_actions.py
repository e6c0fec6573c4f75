"""What clients have done to runs: to one of them, or to many with a bulk request."""

from collections.abc import Callable

from interlock.core.stopping import cancel_run
from interlock.core.transition import Pass
from interlock.model.error import UnknownRun
from interlock.model.request import ActOnRun, StateReport
from interlock.model.run import Run
from interlock.model.run_action import RunAction

ACTIONS: dict[RunAction, Callable[[Pass, Run, str, str], bool]] = {RunAction.CANCEL: cancel_run}
"""what each does to a run that has not ended, with a reason and an actor; False if there was nothing to do"""


def act(p: Pass, origin: str, command: ActOnRun) -> None:
    run = p.state.runs.get(command.run_id)
    if run is None:
        # The shell asks the store for a run that has ended; one that ended in this very pass is not there yet.
        run = next((one for one in p.ended if one.id == command.run_id), None)
        if run is None:
            raise UnknownRun(command.run_id)
    else:
        ACTIONS[command.action](p, run, command.reason or command.action.done, command.actor or origin)
    p.answers.append((origin, StateReport(command.request, run.id, run.state)))

"""`interlock workflow resume` and `workflow abandon`."""

from collections.abc import Callable
from typing import Annotated

from interlock.cli.draw.tables import each, report_each
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.server import RUN_HELP, client_of, run_of
from interlock.error import NotHalted, UnknownRun
from interlock.model.workflow_info import WorkflowAction

HELP = {
    WorkflowAction.RESUME: "Resume halted workflows.\n\nEach gets another turn, on any worker that has its "
    "function. If the code still does not fit, the run halts again.",
    WorkflowAction.ABANDON: "Abandon halted workflows.\n\nEach ends as `cancelled` once its live steps have "
    "stopped. No step starts, and nothing is undone: for that, use `interlock cancel RUN --compensate`. The audit has "
    "an entry.",
}


def command_of(name: str) -> Callable[..., None]:
    action = WorkflowAction(name)

    @takes(*FINDING)
    def command(
        flags: Flags,
        runs: Annotated[list[str], argument("RUN", RUN_HELP, completion.halted)],
        reason: Annotated[str, option("TEXT", "Reason to record with the run.")] = "",
        json: JsonOption = False,
    ) -> None:
        with client_of(flags) as client:

            def act(name: str) -> dict[str, str]:
                done = client.act_on_workflow(run_of(client, name), action, reason)
                return {"id": done.id, "state": done.state}

            report_each(each(runs, act, UnknownRun, NotHalted), json, "runs", lambda one: "\t".join(one.values()))

    command.__doc__ = f"{HELP[action]}\n\nPiped: run and state, separated by a tab."
    return command

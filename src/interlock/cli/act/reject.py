"""`interlock reject`."""

from typing import Annotated

from interlock.cli.act.approve import REASON
from interlock.cli.draw.tables import present
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import ApprovalArgument, approval_of, client_of


@takes(*FINDING)
def command(flags: Flags, run: ApprovalArgument, reason: Annotated[str, REASON], json: JsonOption = False) -> None:
    """Reject a run that waits for an approval. It ends as denied.

    Piped: id and state, separated by a tab."""
    with client_of(flags) as client:
        run_id = approval_of(client, run)
        told = {"id": run_id, "state": client.reject(run_id, reason)}
    present(json, lambda: told, lambda: ["\t".join(told.values())], lambda: f"rejected {run_id}")

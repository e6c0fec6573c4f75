"""`interlock workflow record`."""

from interlock.cli.draw.tables import print_json
from interlock.cli.shared.options import FINDING, Flags, takes
from interlock.cli.shared.server import RunArgument, client_of, run_of


@takes(*FINDING)
def command(flags: Flags, run: RunArgument) -> None:
    """Print the record of a workflow that is a function, as JSON.

    It has the round, the steps that the function asked for, and their ends in order of completion. Secrets are masked,
    and withheld results are left out.

    `interlock.testing.replay(app, FILE)` checks in a test whether the function still fits it."""
    with client_of(flags) as client:
        print_json(client.record(run_of(client, run)))

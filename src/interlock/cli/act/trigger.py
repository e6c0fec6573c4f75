"""`interlock trigger`."""

from functools import partial
from typing import Any

from interlock.cli.act.submit import ParameterOption, PayloadOption, WaitOption, print_id, wait_for
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.payloads import parameters_explained, read_one
from interlock.cli.shared.run_options import takes_run_options
from interlock.cli.shared.server import JobArgument, client_of
from interlock.fields.duration import seconds
from interlock.wire.new_run import TRIGGER


@takes(*FINDING)
@partial(takes_run_options, names=TRIGGER)
def command(
    *,
    flags: Flags,
    job: JobArgument,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    wait: WaitOption = None,
    options: dict[str, Any],
    json: JsonOption = False,
) -> None:
    """Run a job now, beside its schedule, and print the id of the run. `--wait` prints the result instead.

    This works for paused jobs too. Without a payload, the run gets the job's own."""
    limit = seconds(wait, "--wait") if wait else None
    with client_of(flags) as client, parameters_explained(parameter):
        handle = client.trigger(job, read_one(payload, parameter or []), **options)
        if wait is None:
            print_id(handle, json)
        else:
            wait_for(client, [handle], limit, json)

"""`interlock event`."""

from typing import Annotated

from interlock.cli.act.submit import ParameterOption
from interlock.cli.draw.tables import present
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, switch, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.payloads import read_one, read_value
from interlock.cli.shared.server import RUN_HELP, client_of, run_of


@takes(*FINDING)
def command(
    flags: Flags,
    names: Annotated[list[str], argument("[RUN] NAME", f"{RUN_HELP} Then the name of the event.", completion.runs)],
    payload: Annotated[
        str | None, option("JSON|@FILE|-", "Value: any JSON, from a file, or from standard input.")
    ] = None,
    parameter: ParameterOption = None,
    workflow: Annotated[str | None, option("ID", "Send it to a run of this workflow.", "--workflow")] = None,
    key: Annotated[str | None, option("KEY", "Idempotency key of that run.", "--key")] = None,
    tenant: Annotated[str | None, option("TENANT", "Tenant of that run.", "--tenant")] = None,
    or_start: Annotated[bool, switch("Start that run if none is live.", "--or-start")] = False,
    start_payload: Annotated[
        str | None, option("JSON|@FILE|-", "Arguments of a run that is started.", "--start-payload")
    ] = None,
    once: Annotated[str | None, option("KEY", "Key that makes the event safe to repeat.", "--idempotency-key")] = None,
    json: JsonOption = False,
) -> None:
    """Send an event to a workflow: `interlock event RUN NAME -p cents=5`, or by the idempotency key of its run:
    `interlock event --workflow ID --key KEY NAME`. The value of the event is that of `--payload`, or a JSON object of
    the arguments of `-p`, and otherwise null.

    The event is kept until a step reads it, once and in order. The command prints the id of the event's run."""
    value = read_one(payload, parameter) if parameter else read_value(payload)
    if (workflow is None) != (key is None) or (workflow is None and (or_start or tenant)):
        raise WrongUsage("--workflow: give it together with --key; --or-start and --tenant need both")
    if start_payload is not None and not or_start:
        raise WrongUsage("--start-payload: is for a run that is started; give --or-start too")
    if len(names) != (1 if workflow is not None else 2):
        raise WrongUsage("NAME: give RUN and NAME, or only NAME after --workflow ID --key KEY")
    with client_of(flags) as client:
        if workflow is not None and key is not None:
            start = read_one(start_payload, [], "--start-payload")
            sent = client.send_workflow_event(
                workflow, key, names[0], value, tenant=tenant, or_start=or_start, payload=start, idempotency_key=once
            )
        else:
            sent = client.send_event(run_of(client, names[0]), names[1], value, once)
    present(json, lambda: {"id": sent}, lambda: [sent], lambda: sent)

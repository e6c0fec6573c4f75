"""`interlock dlq edit`."""

from typing import Annotated

from interlock.cli.act.letters import LetterArgument, id_of
from interlock.cli.act.submit import ParameterOption, PayloadOption, print_id
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.payloads import parameters_explained, read_one
from interlock.cli.shared.server import client_of


@takes(*FINDING)
def command(
    flags: Flags,
    letter: LetterArgument,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    reason: Annotated[str, option("TEXT", "Reason to record with the new run.")] = "edited and replayed",
    json: JsonOption = False,
) -> None:
    """Replay a dead letter with other arguments, and print the id of the new run.

    The arguments you give replace those of the same name; others, and secrets among them, keep their values. They are
    checked like those of a submit."""
    changes = read_one(payload, parameter or [])
    if not changes:
        raise WrongUsage("give the arguments to change with -p or --payload; interlock dlq replay changes none")
    with client_of(flags) as client, parameters_explained(parameter):
        print_id(client.replay(id_of(client, letter), changes, reason), json)

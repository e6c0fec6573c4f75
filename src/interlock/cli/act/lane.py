"""`interlock lane`."""

from typing import Annotated

from interlock.cli.draw.tables import present
from interlock.cli.look.lanes import LANES
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import check_choice
from interlock.cli.shared.server import client_of
from interlock.error import BadUse, MissingField
from interlock.fields.field_types import FieldPath
from interlock.model.lane import LIMIT, LaneAction, LaneOptions

CREATE, SET = "create", "set"
ACTIONS = (CREATE, SET, *map(str, LaneAction))
NO_RATE = "none"


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str,
        argument("ACTION", "One of create, set, pause, resume and drain.", completion.of(*ACTIONS)),
    ],
    name: Annotated[str, argument("NAME", "Name of the lane.", completion.lanes)],
    limit: Annotated[str | None, option("NUMBER", "Runs that may execute in it at once.")] = None,
    rate: Annotated[str | None, option("N/s", "Maximum start rate, such as 10/s or 5/m; 'none' removes it.")] = None,
    burst: Annotated[str | None, option("NUMBER", "Starts allowed at once after an idle period.")] = None,
    json: JsonOption = False,
) -> None:
    """Create, set, pause, resume or drain a lane, and print it.

    A paused lane starts no runs; a draining one also refuses new ones, with the code `draining`. Active runs finish,
    and waiting runs stay until `resume`. Restarts and reloads keep all of it. Creating a lane that exists changes
    nothing. Setting a value back to the declared one removes the override.

    Piped: a line like that of `interlock lanes`."""
    check_choice("action", action, ACTIONS)
    values = LaneOptions()
    if limit is not None:
        values["limit"] = LIMIT.read(limit, FieldPath("--limit"))
    if rate is not None:
        values["rate"] = None if rate == NO_RATE else rate
    if burst is not None:
        values["burst"] = LIMIT.read(burst, FieldPath("--burst"))
    if action in set(LaneAction) and values:
        raise BadUse(f"--{next(iter(values))}", f"cannot be combined with {action}")
    if action == CREATE and "limit" not in values:
        raise MissingField("--limit")
    if action == SET and not values:
        raise BadUse("set", "needs --limit, --rate or --burst")
    with client_of(flags) as client:
        if action == CREATE:
            lane = client.create_lane(name, **values)
        elif action == SET:
            lane = client.set_lane(name, **values)
        else:
            lane = client.act_on_lane(name, action)
    present(json, lambda: lane, lambda: [LANES.line(lane)], lambda: LANES.table([lane]))

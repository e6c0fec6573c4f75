"""`interlock config`."""

from typing import Annotated, Any, NamedTuple

import msgspec

from interlock.cli.draw.listing import Column, Listing
from interlock.cli.draw.tables import present, print_json
from interlock.cli.shared.options import SERVER_FLAGS, Flags, JsonOption, switch, takes
from interlock.config.schema import json_schema
from interlock.config.settings import CLIENT_SETTINGS, SETTINGS
from interlock.fields.sockets import without_password

MASKED = "********"


class Effective(NamedTuple):
    """A setting as it counts; secrets are masked."""

    name: str
    value: Any
    text: str  # the value as a person would write it
    source: str


EFFECTIVE = Listing[Effective](
    "settings", "", Column("setting", "name"), Column("value", "text", wrap=True), Column("from", "source")
)


@takes(*SERVER_FLAGS, "url", "token")
def command(
    flags: Flags,
    json: JsonOption = False,
    schema: Annotated[bool, switch("Print the JSON Schema of interlock.yaml instead.", "--schema")] = False,
) -> None:
    """Show the effective settings, and the source of each."""
    if schema:
        print_json(json_schema(), indent=True)
        return
    rows = effective(flags)
    present(
        json,
        lambda: {"settings": {row.name: {"value": row.value, "source": row.source} for row in rows}},
        lambda: map(EFFECTIVE.line, rows),
        lambda: EFFECTIVE.table(rows),
    )


def effective(flags: Flags) -> list[Effective]:
    resolved = flags.resolve()
    rows: list[Effective] = []
    for struct, table in ((resolved.settings, SETTINGS), (resolved.client, CLIENT_SETTINGS)):
        for name, setting in table.items():
            value = getattr(struct, name)
            if name == "database":
                value = without_password(value)
            if name == "lanes":
                lanes = ((f"lanes.{lane}", spec.limit) for lane, spec in sorted(resolved.settings.every_lane().items()))
                rows += [Effective(lane, limit, str(limit), resolved.sources[lane]) for lane, limit in lanes]
                continue
            text = setting.kind.show(value)
            if name == "tokens":
                value = [{"name": one.name, "role": one.role, "tenant": one.tenant} for one in value]
            elif setting.secret and value is not None:
                value = text = MASKED
            rows.append(Effective(name, msgspec.to_builtins(value), text, resolved.sources[name]))
    return rows

"""`interlock config`."""

from typing import Annotated, Any

import msgspec

from interlock.cli.draw.tables import Column, present, print_json, rich_table, tabbed
from interlock.cli.shared.options import SERVER_FLAGS, Flags, JsonOption, switch, takes
from interlock.config.schema import json_schema
from interlock.config.settings import CLIENT_SETTINGS, SETTINGS

MASKED = "********"


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
    columns = [Column("setting"), Column("value", wrap=True), Column("from")]
    cells = [(row[0], *row[2:]) for row in rows]
    present(
        json,
        lambda: {"settings": {name: {"value": value, "source": source} for name, value, _, source in rows}},
        lambda: (tabbed(*row) for row in cells),
        lambda: rich_table(columns, cells),
    )


def effective(flags: Flags) -> list[tuple[str, Any, str, str]]:
    """Return name, value, value as a person would write it, and source of each setting; secrets are masked."""
    resolved = flags.resolve()
    rows: list[tuple[str, Any, str, str]] = []
    for struct, table in ((resolved.settings, SETTINGS), (resolved.client, CLIENT_SETTINGS)):
        for name, setting in table.items():
            value = getattr(struct, name)
            if name == "lanes":
                lanes = ((f"lanes.{lane}", spec.limit) for lane, spec in sorted(resolved.settings.every_lane().items()))
                rows += [(lane, limit, str(limit), resolved.sources[lane]) for lane, limit in lanes]
                continue
            text = setting.kind.show(value)
            if name == "tokens":
                value = [{"name": one.name, "role": one.role, "tenant": one.tenant} for one in value]
            elif setting.secret and value is not None:
                value = text = MASKED
            rows.append((name, msgspec.to_builtins(value), text, resolved.sources[name]))
    return rows

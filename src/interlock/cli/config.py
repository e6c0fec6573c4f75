"""`interlock config`."""

from typing import Annotated, Any

import typer

from interlock.cli.options import SERVER_FLAGS, Flags, JsonOption, takes

MASKED = "********"


@takes(*SERVER_FLAGS, "url", "token")
def command(
    flags: Flags,
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of interlock.yaml instead.")] = False,
) -> None:
    """Show the effective settings, and the source of each."""
    from interlock.cli.tables import Column, print_json, print_table

    if schema:
        from interlock.config.schema import json_schema

        print_json(json_schema(), indent=True)
        return
    rows = effective(flags)
    if json:
        print_json({"settings": {name: {"value": value, "source": source} for name, value, _, source in rows}})
    else:
        columns = [Column("setting"), Column("value", wrap=True), Column("from")]
        print_table(columns, [[name, text, source] for name, _, text, source in rows])


def effective(flags: Flags) -> list[tuple[str, Any, str, str]]:
    """Name, value, the value as a person would write it, and source of each setting; secrets are masked."""
    import msgspec

    from interlock.config.settings import CLIENT_SETTINGS, SETTINGS

    resolved = flags.resolve()
    rows: list[tuple[str, Any, str, str]] = []
    for struct, table in ((resolved.settings, SETTINGS), (resolved.client, CLIENT_SETTINGS)):
        for name, setting in table.items():
            value = getattr(struct, name)
            if name == "lanes":
                for lane, limit in sorted(resolved.settings.every_lane().items()):
                    rows.append((f"lanes.{lane}", limit, str(limit), resolved.sources[f"lanes.{lane}"]))
                continue
            text = setting.kind.show(value)
            if name == "tokens":
                value = [{"name": one.name, "role": one.role, "tenant": one.tenant} for one in value]
            elif setting.secret and value is not None:
                value = text = MASKED
            rows.append((name, msgspec.to_builtins(value), text, resolved.sources[name]))
    return rows

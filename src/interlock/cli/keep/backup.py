"""`interlock backup`."""

from typing import Annotated

from interlock.cli.shared.options import Flags, JsonOption, argument, switch, takes


@takes("database")
def command(
    flags: Flags,
    file: Annotated[str, argument("FILE", "New file for the copy.")],
    force: Annotated[bool, switch("Replace the file if it exists.", "--force")] = False,
    json: JsonOption = False,
) -> None:
    """Copy the database into a file, as it is at one moment.

    A scheduler may use the database meanwhile. Only the owner can read the file."""
    from pathlib import Path

    from interlock.cli.draw.tables import plain, present, tabbed
    from interlock.stores.sqlite.backup import back_up

    made = back_up(flags.resolve().settings.database_file(), Path(file), force)
    present(
        json,
        lambda: made,
        lambda: [tabbed(made.path, str(made.runs), str(made.bytes))],
        lambda: f"{plain(made.path)}: {made.runs:,} runs, {made.bytes:,} bytes",
    )

"""`interlock vacuum`."""

from interlock.cli.shared.options import Flags, JsonOption, takes


@takes("database")
def command(flags: Flags, json: JsonOption = False) -> None:
    """Give the space of pruned runs back to the disk.

    Stop the scheduler first. Rarely needed: new runs reuse the space. Piped: path, bytes before and after."""
    from interlock.cli.draw.tables import plain, present, tabbed
    from interlock.stores.sqlite.backup import vacuum

    done = vacuum(flags.resolve().settings.database_file())
    present(
        json,
        lambda: done,
        lambda: [tabbed(done.path, str(done.before), str(done.after))],
        lambda: f"{plain(done.path)}: {done.before:,} bytes before, {done.after:,} after",
    )

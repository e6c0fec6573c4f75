"""`interlock restore`."""

from typing import Annotated

from interlock.cli.shared.options import Flags, JsonOption, argument, takes


@takes("database")
def command(
    flags: Flags, file: Annotated[str, argument("FILE", "Backup to restore.")], json: JsonOption = False
) -> None:
    """Replace the database by a backup, and print what is lost.

    Stop the scheduler first. The previous database gets another name."""
    from pathlib import Path

    from interlock.cli.draw.tables import plain, present, tabbed
    from interlock.fields.json_form import rfc3339
    from interlock.stores.sqlite.backup import restore

    done = restore(Path(file), flags.resolve().settings.database_file())
    made = "" if done.made_at is None else f" of {rfc3339(done.made_at)}"
    lost = "an unknown number of" if done.lost is None else f"{done.lost:,}"
    lines = [
        f"{plain(done.path)} restored from the backup{made}, with {done.runs:,} runs",
        f"lost: {lost} runs that were acknowledged since, with their results and keys; their work may have been done",
        f"{done.live:,} runs had not ended in the backup; they continue from there and may execute again",
        "fire times until now are recorded as missed",
    ]
    if done.replaced is not None:
        lines.append(f"the previous database is {plain(done.replaced)}")
    shown = [done.path, str(done.runs), str(done.live), "" if done.lost is None else str(done.lost)]
    present(json, lambda: done, lambda: [tabbed(*shown, done.replaced or "")], lambda: "\n".join(lines))

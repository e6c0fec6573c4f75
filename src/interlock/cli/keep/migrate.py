"""`interlock migrate`."""

from typing import Annotated

from interlock.cli.shared.options import JsonOption, option


def command(
    *,
    source: Annotated[str, option("FILE", "SQLite file to move.", "--from")],
    target: Annotated[str, option("URL", "postgresql://… with an empty schema.", "--to")],
    json: JsonOption = False,
) -> None:
    """Move a database from a file to PostgreSQL.

    Stop the scheduler first. Counts and hashes of all rows are compared, and the file is closed for good.
    If it was interrupted, repeat it. Piped: table, rows."""
    from shlex import quote

    from interlock.cli.draw.tables import plain, present, tabbed
    from interlock.stores.open import move_to_server

    moved = move_to_server(source, target)
    if moved.rows:
        count = f"{moved.rows['runs']:,} runs, {sum(moved.rows.values()):,} rows in {len(moved.rows)} tables"
        done = f"{plain(moved.path)} moved to {plain(moved.to)}: {count}; counts and hashes are equal"
    else:
        done = f"{plain(moved.path)} was moved to {plain(moved.to)} by an earlier command"
    present(
        json,
        lambda: moved,
        lambda: [tabbed(table, str(rows)) for table, rows in moved.rows.items()],
        lambda: f"{done}\nstart it with: interlock up --db {quote(plain(moved.to))}",
    )

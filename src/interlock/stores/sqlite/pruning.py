"""Delete what was found to prune, each call in one transaction."""

import sqlite3
from collections.abc import Mapping, Sequence

from interlock.model.letter import DeadLetter
from interlock.model.record import Record
from interlock.ports.store import MOST_PRUNED
from interlock.stores.sql.lookups import read_position
from interlock.stores.sql.pruning import read_unreached
from interlock.stores.sql.view import at_once
from interlock.stores.sqlite.queries import QUERIES, SqliteView, as_json

PARTS = (
    "prune_history", "prune_logs", "prune_checkpoints", "prune_payloads", "prune_records", "prune_runs",
)  # fmt: skip
"""in this order, because the others are found by their runs"""


def prune(numbers: Sequence[int], connection: sqlite3.Connection) -> int:
    """Delete these runs; workflows with all their steps."""
    unreached = at_once(read_unreached(SqliteView(connection)))  # of a retry that may have begun after the search
    gone = [number for number in numbers if number >= unreached]
    steps = [row[0] for row in connection.execute(QUERIES["find_steps"], {"numbers": as_json(gone)})]
    values = {"numbers": as_json([*gone, *steps])}
    for name in PARTS:
        deleted = connection.execute(QUERIES[name], values).rowcount
    return deleted


def prune_keys(numbers: Sequence[int], connection: sqlite3.Connection) -> int:
    return connection.execute(QUERIES["prune_keys"], {"numbers": as_json(numbers)}).rowcount


def prune_records(kind: type[Record], before: float, most: int, connection: sqlite3.Connection) -> int:
    unreached = at_once(read_unreached(SqliteView(connection), of_letters=kind is DeadLetter))
    values = {"kind": kind.kind, "before": before, "most": most, "limit": MOST_PRUNED, "unreached": unreached}
    keys = connection.execute(QUERIES["find_old_records"], values).fetchall()
    connection.executemany(QUERIES["forget_record"], keys)
    return len(keys)


def prune_services(cuts: Mapping[str, int], connection: sqlite3.Connection) -> int:
    newest, pruned = at_once(read_position(SqliteView(connection))), 0
    for service, cut in cuts.items():
        values = {"service": service, "cut": cut, "newest": newest, "limit": MOST_PRUNED - pruned}
        pruned += connection.execute(QUERIES["prune_service"], values).rowcount
    return pruned

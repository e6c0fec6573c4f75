"""Read records of any kind."""

import sqlite3

from msgspec.structs import asdict

from interlock.model.record import R, RecordFilter
from interlock.ports.store import MOST_RECORD_BYTES, MOST_RECORDS, RecordRows
from interlock.stores.sqlite.database import one_view
from interlock.stores.sqlite.queries import QUERIES, RECORDS


def read_record(kind: type[R], id: str, connection: sqlite3.Connection) -> R | None:
    row = connection.execute(QUERIES["get_record"], (kind.kind, id)).fetchone()
    return None if row is None else kind.read(*row)


def load_records(kind: type[R], connection: sqlite3.Connection) -> list[R]:
    """Return all records of a kind, oldest first, without those that cannot be read."""
    found = (kind.read(*row) for row in connection.execute(QUERIES["load_records"], (kind.kind,)))
    return [record for record in found if record is not None]


def list_records(
    kind: type[R], wanted: RecordFilter, before: int, limit: int, connection: sqlite3.Connection
) -> RecordRows[R]:
    place = "all_records" if wanted.run is None else "records_of_run"
    place = place if wanted.id_prefix is None else "records_by_id"
    find, find_floor = RECORDS[place]
    values = asdict(wanted) | {"kind": kind.kind, "before": before, "most": MOST_RECORDS, "limit": limit + 1}
    floor, size, following = None, 0, None
    found: list[R] = []
    with one_view(connection):
        if place == "all_records":
            floor = connection.execute(find_floor, values).fetchone()
        for number, id, value in connection.execute(find, values | {"floor": 0 if floor is None else floor[0]}):
            if len(found) == limit or size > MOST_RECORD_BYTES:
                return RecordRows(found, following)
            following, size = number, size + len(value)
            if (record := kind.read(id, value)) is not None:
                found.append(record)
    return RecordRows(found, None if floor is None else floor[0] + 1)

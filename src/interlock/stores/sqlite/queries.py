"""The statements of queries.sql by name, with the columns of runs and records filled in."""

import re
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from itertools import chain
from typing import Any

from interlock.model.audit import AuditEntry
from interlock.model.record import Columns
from interlock.model.run import UPDATES, Run

COLUMNS = Run.__struct_fields__
AUDIT_COLUMNS = AuditEntry.__struct_fields__
RECORD_VALUES = (*("order_key" if name == "order" else name for name in Columns._fields), "value")
CHUNKS = (800, 200, 50)
"""Rows that one statement may take. The writing thread releases the interpreter lock for each statement; to get it back
from a busy loop can cost more than the statement, so there should be few of them."""

_LARGE = ("payload", "result")
_SMALL = {"payload": "CASE WHEN length(payload) <= :small_payload THEN payload END"}


def _bodies() -> dict[str, str]:
    text = files("interlock.stores.sqlite").joinpath("queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _fill(body: str, values: dict[str, str]) -> str:
    """Insert these values, and values into them; others are inserted later."""
    return re.sub(r"\{(\w+)\}", lambda match: _fill(values[match[1]], values) if match[1] in values else match[0], body)


_BODIES = _bodies()
QUERIES = {
    name: _fill(
        body,
        {
            **_BODIES,
            "all_columns": ", ".join(COLUMNS),
            "loaded": ", ".join(_SMALL.get(column, column) for column in COLUMNS),
            "listed": ", ".join("NULL" if column in _LARGE else column for column in COLUMNS),
            "record_values": ", ".join(RECORD_VALUES),
            "excluded_record": ", ".join(f"excluded.{column}" for column in RECORD_VALUES),
            "audit_columns": ", ".join(AUDIT_COLUMNS),
        },
    )
    for name, body in _BODIES.items()
}
LISTINGS = {
    place: (
        QUERIES["list_runs"].format(place=QUERIES[place]),
        QUERIES["find_floor_of_all" if place == "all_runs" else "find_floor"].format(place=QUERIES[place]),
    )
    for place in (
        "all_runs",
        "live_runs",
        "runs_by_id",
        "runs_of_job",
        "runs_of_parent",
        "runs_of_root",
        "unsuccessful_runs",
    )
}
"""set of runs to look at → the statement that finds some, and the one that finds how far down it may look"""

RECORDS = {
    place: (QUERIES["list_records"].format(place=QUERIES[place]), QUERIES["find_floor"].format(place=QUERIES[place]))
    for place in ("all_records", "records_by_id", "records_of_run")
}


class ManyRows:
    """A statement for many rows at once. A row of an update begins with the id."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        places = {column: f"column{place}" for place, column in enumerate(columns, start=1)}
        if name == "update_run":
            columns = columns[1:]
        row = f"({', '.join('?' * len(places))})"
        values = {
            "columns": ", ".join(columns),
            "new_columns": ", ".join(f"new.{places[column]}" for column in columns),
            "new_id": "column1",
            "new_seq": places.get("seq", ""),
        }
        text = _fill(QUERIES[name], values)
        self._texts = {count: _fill(text, {"rows": ", ".join([row] * count)}) for count in (*CHUNKS, 1)}

    def write(self, connection: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
        start = 0
        for chunk in CHUNKS:
            while len(rows) - start >= chunk:
                connection.execute(self._texts[chunk], list(chain.from_iterable(rows[start : start + chunk])))
                start += chunk
        if start < len(rows):
            connection.executemany(self._texts[1], rows[start:])


INSERT_RUNS = {width: ManyRows("insert_run", COLUMNS[:width]) for width in (Run.PLAIN, len(COLUMNS))}
"""by the number of values in a row"""
UPDATE_RUNS = {group: ManyRows("update_run", ("id", *columns)) for group, columns in UPDATES.items()}
PUT_RECORDS = ManyRows("put_record", ("kind", "id", *RECORD_VALUES))
INSERT_HISTORY = ManyRows("insert_history", ("position", "run_id", "seq", "entries"))


def migrations() -> list[str]:
    """Return the scripts that make the schema, in order; their number is its version."""
    folder = files("interlock.stores.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [folder.joinpath(name).read_text() for name in names]

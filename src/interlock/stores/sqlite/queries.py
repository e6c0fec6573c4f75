"""The statements of queries.sql by name, with the columns of `Run` filled in."""

import re
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from itertools import chain
from typing import Any

from interlock.model.run import Run

COLUMNS = Run.__struct_fields__
CHANGING = COLUMNS[Run.CONSTANT :]


CHUNKS = (800, 200, 50)
"""How many rows one statement may take. The writing thread lets go of the interpreter lock while a statement runs; to
get it back from a loop that is busy can cost more than the statement, so there should be few of them."""

_WIDTHS = {"insert_run": len(COLUMNS), "update_run": 1 + len(CHANGING), "insert_history": 4}
"""the statements that take many rows at once, and how many values a row has"""

_LARGE = ("payload", "result")
_SMALL = {"payload": "CASE WHEN length(payload) <= :small_payload THEN payload END"}


def _read(rows: int) -> dict[str, str]:
    text = files("interlock.stores.sqlite").joinpath("queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    bodies = {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    return {name: _fill(name, body, rows, bodies) for name, body in bodies.items()}


def _fill(name: str, body: str, rows: int, bodies: dict[str, str]) -> str:
    width = _WIDTHS.get(name, 0)
    row = f"({', '.join('?' * width)})"
    fill = {
        **bodies,
        "place": "{place}",
        "columns": ", ".join(COLUMNS),
        "loaded": ", ".join(_SMALL.get(column, column) for column in COLUMNS),
        "listed": ", ".join("NULL" if column in _LARGE else column for column in COLUMNS),
        "changing": ", ".join(CHANGING),
        "rows": ", ".join([row] * rows),
        "new_changing": ", ".join(f"new.column{place}" for place in range(2, len(CHANGING) + 2)),
        "new_id": "column1",
        "new_seq": f"column{CHANGING.index('seq') + 2}",
    }
    return re.sub(r"\{(\w+)\}", lambda match: fill[match[1]], body)


QUERIES = _read(1)
LISTINGS = {
    place: (QUERIES["list_runs"].format(place=QUERIES[place]), QUERIES[floor].format(place=QUERIES[place]))
    for place, floor in (
        ("all_runs", "find_floor_of_all"),
        ("live_runs", "find_floor"),
        ("runs_of_job", "find_floor"),
        ("unsuccessful_runs", "find_floor"),
    )
}
"""by which runs are looked at: the statement that finds some, and the one that tells how far down it may look"""
_MANY = {(name, rows): query for rows in CHUNKS for name, query in _read(rows).items() if name in _WIDTHS}


def write_rows(connection: sqlite3.Connection, name: str, rows: Sequence[Sequence[Any]]) -> None:
    """Execute one of the statements that take many rows, for all of these."""
    start = 0
    for chunk in CHUNKS:
        while len(rows) - start >= chunk:
            connection.execute(_MANY[name, chunk], list(chain.from_iterable(rows[start : start + chunk])))
            start += chunk
    if start < len(rows):
        connection.executemany(QUERIES[name], rows[start:])


def migrations() -> list[str]:
    """The scripts that make the schema, in order; the number of them is the schema's version."""
    folder = files("interlock.stores.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [folder.joinpath(name).read_text() for name in names]

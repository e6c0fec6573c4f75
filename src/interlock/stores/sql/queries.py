"""The statements of queries.sql by name, with the columns of runs, records and the audit filled in."""

import re
from collections.abc import Mapping
from importlib.resources import files

from interlock.model.audit import AuditEntry
from interlock.model.record import Columns
from interlock.model.run import Run

COLUMNS = Run.__struct_fields__
AUDIT_COLUMNS = AuditEntry.__struct_fields__
RECORD_VALUES = (*("order_key" if name == "order" else name for name in Columns._fields), "value")

_LARGE = ("payload", "result")
_SMALL = {"payload": "CASE WHEN length(payload) <= :small_payload THEN payload END"}
_SHARED = {
    "all_columns": ", ".join(COLUMNS),
    "loaded": ", ".join(_SMALL.get(column, column) for column in COLUMNS),
    "listed": ", ".join("NULL" if column in _LARGE else column for column in COLUMNS),
    "audit_columns": ", ".join(AUDIT_COLUMNS),
}

_SEARCHED = {"listed": "facets, id, job_id, session, reason, error"}

_PLACES = {
    "runs": (
        "all_runs", "live_runs", "runs_by_id", "runs_of_job", "runs_of_parent", "runs_of_root", "unsuccessful_runs",
    ),
    "records": ("all_records", "records_by_id", "records_of_run"),
}  # fmt: skip
"""the rows that a page of runs or records may be looked for in"""


def bodies(package: str) -> dict[str, str]:
    """Return the statements of a package as they are written."""
    text = files(package).joinpath("queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.M)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def fill(body: str, values: Mapping[str, str]) -> str:
    """Insert these values, and values into them; others are inserted later."""
    return re.sub(r"\{(\w+)\}", lambda match: fill(values[match[1]], values) if match[1] in values else match[0], body)


def shared(dialect: Mapping[str, str]) -> dict[str, str]:
    """Return the statements that every database has, in a dialect. `list PLACE` finds some of the rows of a place,
    `search PLACE` what a text of theirs is looked for in, and `floor PLACE` how far down it may look."""
    written = bodies("interlock.stores.sql")
    values = {**written, **_SHARED, **dialect}
    found = {name: fill(body, values) for name, body in written.items()}
    for listed, places in _PLACES.items():
        for place in places:
            at = {"place": found[place]}
            floor = "find_floor_of_all" if place == "all_runs" else "find_floor"
            found[f"list {place}"] = fill(found[f"list_{listed}"], at)
            if listed == "runs":
                found[f"search {place}"] = fill(written["list_runs"], values | at | _SEARCHED)
            found[f"floor {place}"] = fill(found[floor], at)
    return found


def scripts(package: str) -> list[str]:
    """Return the scripts that make a schema, in order; their number is its version."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [folder.joinpath(name).read_text() for name in names]

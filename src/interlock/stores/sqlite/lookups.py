"""Read runs, and records of any kind; answer questions about single ones and jobs."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from interlock.core.workflows.flow import EndedStep, left_to_undo
from interlock.model.facets import Facets
from interlock.model.job import read_job
from interlock.model.record import R, RecordFilter
from interlock.model.run import Run
from interlock.model.state import State
from interlock.ports.store import MOST_RECORD_BYTES, MOST_RECORDS, Found, Inputs, Lookup, RecordRows
from interlock.stores.sqlite.database import one_view
from interlock.stores.sqlite.queries import QUERIES, RECORDS

Row = tuple[Any, ...]

facets_decoder = msgspec.msgpack.Decoder(Facets)
_STATES = {str(state): state for state in State}  # faster than a call of the class, which refuses damaged values


def read_runs(rows: Iterable[tuple[Any, ...]]) -> Iterator[Run]:
    """Yield runs that share equal texts: a million of them may wait."""
    shared: dict[str, str] = {}
    for row in rows:
        run = read_run(row)
        for name in ("job_id", "tenant", "job_version", "lane", "reason", "actor", "created_by"):
            text = getattr(run, name)
            setattr(run, name, shared.setdefault(text, text))
        yield run


def read_run(row: tuple[Any, ...]) -> Run:
    run = Run(*row)
    run.state = _STATES.get(run.state) or State(run.state)
    run.previous = None if run.previous is None else _STATES.get(run.previous) or State(run.previous)
    if run.facets is not None:
        run.facets = facets_decoder.decode(run.facets)  # type: ignore[arg-type] # as it comes from the file
    return run


_FIRST = itemgetter(0)
_READS: dict[str, tuple[str, Callable[[Row], object]]] = {
    "runs": ("get_run", read_run),
    "inputs": ("get_inputs", lambda row: Inputs(*row)),
    "states": ("get_state", lambda row: State(row[0])),
    "previous": ("get_previous", lambda row: (row[0], State(row[1]), bool(row[2]))),
    "digests": ("get_digest", _FIRST),
    "pruned": ("get_tenant_of_pruned", _FIRST),
    "keys": ("get_key", tuple),
    "versions": ("get_job", lambda row: read_job(row[0])),
    "first_times": ("get_first_time", _FIRST),
    "latest_times": ("get_latest_time", _FIRST),
}
"""question → the statement that answers it for one key, and how its row is read"""


def look_up(wanted: Lookup, connection: sqlite3.Connection) -> Found:
    found: dict[str, dict[Any, Any]] = {}
    with one_view(connection):
        for name, (query, read) in _READS.items():
            given = (wanted.after,) if name == "latest_times" else ()
            for key in getattr(wanted, name):
                values = (*key, *given) if isinstance(key, tuple) else (key, *given)
                row = connection.execute(QUERIES[query], values).fetchone()
                if row is not None and (answer := read(row)) is not None:
                    found.setdefault(name, {})[key] = answer
        for run_id, inputs in found.get("inputs", {}).items():
            further = connection.execute(QUERIES["get_further_payloads"], (run_id,)).fetchall()
            found["inputs"][run_id] = replace(inputs, further=tuple(map(_FIRST, further)))
        for run_id in wanted.steps:
            rows = connection.execute(QUERIES["get_steps"], (run_id,))
            found.setdefault("steps", {})[run_id] = [EndedStep.of(read_run(row)) for row in rows]
        for run_id in wanted.sagas:
            rows = connection.execute(QUERIES["get_saga"], (run_id,))
            known = ((id, None if facets is None else facets_decoder.decode(facets)) for id, facets in rows)
            found.setdefault("sagas", {})[run_id] = left_to_undo(run_id, known)
        records = [((kind.kind, id), read_record(kind, id, connection)) for kind, id in wanted.records]
    return Found(**found, records={key: record for key, record in records if record is not None})


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

"""The arguments of `commit_batch`: an array for each kind of rows."""

from collections.abc import Sequence
from typing import Any

from interlock.core.decisions import Batch
from interlock.model.run import UPDATES, Run
from interlock.stores.sql import rows as r
from interlock.stores.sql.view import Row

_FACETS_OF_RUN = Run.__struct_fields__.index("facets")
_FACETS_OF_UPDATE = {group: 1 + columns.index("facets") for group, columns in UPDATES.items() if "facets" in columns}
_LATER = Run.__struct_defaults__[
    Run.PLAIN - len(Run.__struct_fields__) :
]  # values of the fields that a plain row leaves out

COMMIT = f"SELECT commit_batch({', '.join(f'${place}' for place in range(1, 27))})"


def arguments(batch: Batch) -> list[Any]:
    """Return the arguments after those of the fence."""
    plain, whole = _created(batch.created)
    updates = {group: batch.updated.get(group, []) for group in UPDATES}
    for group, place in _FACETS_OF_UPDATE.items():
        updates[group] = _with_facets(updates[group], place)
    return [
        plain, whole,
        updates["entry"], updates["execution"], updates["facets"], updates["all"],
        r.history_rows(batch), r.log_rows(batch), batch.logs.redacted, list(r.published_rows(batch)),
        batch.keys.taken, batch.keys.freed, batch.inputs.checkpoints, batch.inputs.copied,
        r.job_rows(batch), r.schedule_rows(batch), r.dropped_schedules(batch),
        r.service_rows(batch), [r.audit_row(entry) for entry in batch.audit],
        [r.record_row(record) for record in batch.records.values() if record is not None], r.forgotten_records(batch),
        batch.past_runs,
    ]  # fmt: skip


def _created(rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return rows with the first fields only, or with all: one of the two, because both share one order."""
    if all(len(row) == Run.PLAIN for row in rows):
        return rows, ()
    filled = [(*row, *_LATER[len(row) - Run.PLAIN :]) for row in rows]
    return (), _with_facets(filled, _FACETS_OF_RUN)


def _with_facets(rows: Sequence[Row], place: int) -> list[Row]:
    return [
        row if row[place] is None else (*row[:place], r.encode_facets(row[place]), *row[place + 1 :]) for row in rows
    ]

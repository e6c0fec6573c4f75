"""Load the live part of a store; answer questions about single runs, jobs and records; list records."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from msgspec.structs import asdict, replace

from interlock.core.workflows.flow import EndedStep, left_to_undo
from interlock.model.audit import AuditHead
from interlock.model.job import read_job
from interlock.model.record import R, Record, RecordFilter
from interlock.model.state import State
from interlock.ports.store import MOST_RECORD_BYTES, MOST_RECORDS, Found, Inputs, Lookup, RecordRows, Snapshot
from interlock.stores.sql.rows import decode_facets, read_run, read_schedule, share_texts
from interlock.stores.sql.view import Row, View, only

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


async def look_up(wanted: Lookup, view: View) -> Found:
    found: dict[str, dict[Any, Any]] = {}
    for name, (query, read) in _READS.items():
        if keys := getattr(wanted, name):
            given = (wanted.after,) if name == "latest_times" else ()
            answers = found[name] = {}
            async for key, row in view.each(query, keys, *given):
                if (answer := read(row)) is not None:
                    answers[key] = answer
    if has_inputs := list(found.get("inputs", ())):
        async for run_id, row in view.each("get_further_payloads", has_inputs):
            inputs = found["inputs"][run_id]
            found["inputs"][run_id] = replace(inputs, further=(*inputs.further, row[0]))
    if wanted.steps or wanted.sagas:
        found |= await _look_up_workflows(wanted, view)
    if wanted.records:
        kinds = {(kind.kind, id): kind for kind, id in wanted.records}
        read_all = [(key, kinds[key].read(*row)) async for key, row in view.each("get_record", list(kinds))]
        found["records"] = {key: record for key, record in read_all if record is not None}
    return Found(**found)


async def _look_up_workflows(wanted: Lookup, view: View) -> dict[str, dict[Any, Any]]:
    steps: dict[str, list[EndedStep]] = {run_id: [] for run_id in wanted.steps}
    async for run_id, row in view.each("get_steps", wanted.steps):
        steps[run_id].append(EndedStep.of(read_run(row)))
    below: dict[str, list[tuple[str, Any]]] = {run_id: [] for run_id in wanted.sagas}
    async for run_id, (id, facets) in view.each("get_saga", wanted.sagas):
        below[run_id].append((id, None if facets is None else decode_facets(facets)))
    return {"steps": steps, "sagas": {run_id: left_to_undo(run_id, known) for run_id, known in below.items()}}


async def read_record(kind: type[R], id: str, view: View) -> R | None:
    async for _, row in view.each("get_record", [(kind.kind, id)]):
        return kind.read(*row)
    return None


async def read_position(view: View) -> int:
    position: int = max(await only(view, "get_positions"))
    return position


async def read_audit_end(view: View) -> AuditHead:
    return AuditHead(*(await view.first("get_audit_end") or ()))


async def load(small_payload: int, kinds: Sequence[type[Record]], view: View) -> Snapshot:
    """Return the live part of a store, without records and versions of jobs that cannot be read at all."""
    shared: dict[str, str] = {}
    loaded = view.rows("load_runs", {"small_payload": small_payload})
    sizes = view.rows("load_log_sizes")
    jobs = [read_job(row[0]) async for row in view.rows("load_jobs")]
    records = [kind.read(*row) for kind in kinds async for row in view.rows("load_records", {"kind": kind.kind})]
    return Snapshot(
        runs=[share_texts(read_run(row), shared) async for row in loaded],
        jobs=[job for job in jobs if job is not None],
        position=await read_position(view),
        log_sizes={run_id: (lines, size, bool(is_full)) async for run_id, lines, size, is_full in sizes},
        log_marks={row[0]: (row[1], row[2]) async for row in view.rows("load_log_marks")},
        schedules=[read_schedule(row) async for row in view.rows("load_schedules")],
        records=[record for record in records if record is not None],
        reaches={row[0]: row[1] async for row in view.rows("load_reaches")},
        memos={row[0]: row[1] async for row in view.rows("load_memos")},
        has_session_memos=bool((await only(view, "has_session_memos"))[0]),
        audit=await read_audit_end(view),
    )


async def list_records(kind: type[R], wanted: RecordFilter, before: int, limit: int, view: View) -> RecordRows[R]:
    place = "all_records" if wanted.run is None else "records_of_run"
    place = place if wanted.id_prefix is None else "records_by_id"
    values = asdict(wanted) | {"kind": kind.kind, "before": before, "most": MOST_RECORDS, "limit": limit + 1}
    floor = await view.first(f"floor {place}", values) if place == "all_records" else None
    size, following = 0, None
    found: list[R] = []
    async for number, id, value in view.rows(f"list {place}", values | {"floor": 0 if floor is None else floor[0]}):
        if len(found) == limit or size > MOST_RECORD_BYTES:
            return RecordRows(found, following)
        following, size = number, size + len(value)
        if (record := kind.read(id, value)) is not None:
            found.append(record)
    return RecordRows(found, None if floor is None else floor[0] + 1)

"""The reading half of a store with tables. A database adds how to get a view of them."""

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from interlock.core.audit import HEAD
from interlock.model.audit import AuditFilter, AuditHead
from interlock.model.record import Memo, R, Record, RecordFilter
from interlock.model.run import Transition, shows_text
from interlock.model.session_info import SessionEvent
from interlock.ports import store as port
from interlock.stores.event_page import EventPage, last_position
from interlock.stores.sql import rows as r
from interlock.stores.sql.lookups import list_records, look_up, read_audit_end, read_position, read_record
from interlock.stores.sql.view import Row, View, only
from interlock.wire.message import CHUNKS

T = TypeVar("T")
Work = Callable[[View], Coroutine[Any, Any, T]]
EventKind = tuple[str, Callable[[Row], port.StoredEvent | port.ServiceEntry]]

_LARGEST = 2**63 - 1
_head_decoder = msgspec.json.Decoder(AuditHead)


class SqlReader(port.Reader):
    @abstractmethod
    async def _read(self, work: Work[T], whole: bool = True) -> T:
        """Do `work`, whose statements see the tables as one commit left them if `whole`."""

    async def _rows(self, name: str, values: Mapping[str, Any], read: Callable[[Row], T]) -> list[T]:
        async def work(view: View) -> list[T]:
            return [read(row) async for row in view.rows(name, values)]

        return await self._read(work, whole=False)

    async def look_up(self, wanted: port.Lookup) -> port.Found:
        return await self._read(partial(look_up, wanted))

    async def unscanned(self, run_ids: Sequence[str]) -> list[port.Unscanned]:
        async def work(view: View) -> list[port.Unscanned]:
            results = {
                run_id: row[0]
                async for run_id, row in view.each("get_result", run_ids)
                if r.decode_facets(row[1]).is_unscanned
            }
            lines: dict[str, list[Row]] = {run_id: [] for run_id in results}
            async for run_id, row in view.each("get_held_lines", list(results)):
                lines[run_id].append(row)
            return [_unscanned(run_id, result, lines[run_id]) for run_id, result in results.items()]

        return await self._read(work)

    async def runs(self, wanted: port.RunFilter, before: int | None, limit: int) -> port.RunRows:
        place = _place(wanted)
        values = asdict(wanted) | {
            "states": sorted(wanted.states) or None,
            "before": _LARGEST if before is None else _in_range(before),
            "most": port.most_looked_at(wanted),
            "most_with_prefix": port.MOST_WITH_PREFIX,
            # One more than asked for tells whether there is another page.
            "limit": limit + 1,
        }

        async def work(view: View) -> port.RunRows:
            floor = await view.first(f"floor {place}", values)
            values["floor"] = 0 if floor is None else floor[0]
            rows = await _rows_of(view, wanted, place, values)
            runs = [r.read_run(row[1:]) for row in rows[:limit]]
            end = None if floor is None else floor[0] + 1
            following = rows[limit - 1][0] if len(rows) > limit else end
            if wanted.text is None or following is None:
                return port.RunRows(runs, following)
            return port.RunRows(runs, following, (await only(view, "get_created", {"number": following}))[0])

        return await self._read(work)

    async def live_counts(self, tenant: str | None = None) -> dict[str, int]:
        return dict(await self._rows("count_live", {"tenant": tenant}, lambda row: (row[0], row[1])))

    async def history(self, run_id: str) -> list[Transition]:
        rows = await self._rows("get_history", {"run_id": run_id}, lambda row: r.decode_history(row[0]))
        return [entry for entries in rows for entry in entries]

    async def logs(self, run_id: str, after: int = 0, limit: int | None = None) -> list[port.LogEntry]:
        values = {"run_id": run_id, "after": _in_range(after), "limit": _LARGEST if limit is None else limit}
        return await self._rows("get_logs", values, lambda row: port.LogEntry(*row))

    async def events(self, after: int, limit: int, wanted: port.EventFilter = port.EVERY_EVENT) -> port.EventRows:
        after = _in_range(after)
        values = asdict(wanted) | {"after": after, "limit": limit}
        kinds: list[EventKind] = []
        if wanted.service is None:
            of_run = "" if wanted.run_id is None else "_of_run"
            kinds = [(f"transitions{of_run}", r.read_transitions), (f"lines{of_run}", r.read_line)]
        if wanted.run_id is wanted.job_id is wanted.tenant is None:
            kinds.append(("services" if wanted.service is None else "services_of_service", r.read_service_entry))
        elif wanted.of_tenant is not None:
            values["service"] = SessionEvent.LOGS + wanted.of_tenant
            kinds.append(("services_of_service", r.read_service_entry))
        elif wanted.service is None:
            kinds.append(("violations" if wanted.run_id is None else "violations_of_run", r.read_service_entry))

        async def work(view: View) -> port.EventRows:
            newest = await read_position(view)
            until = last_position(wanted, after, newest)
            rows: list[tuple[Row, Callable[[Row], port.StoredEvent | port.ServiceEntry]]] = []
            for name, read in kinds:
                page = EventPage[Row](limit, until, _size_of, itemgetter(0))
                async for row in view.rows(f"get_{name}", values | {"reach": until}):
                    if page.add(row):
                        break
                until = page.until
                rows += [(row, read) for row in page.events]
            # A row that one query left behind may come before the last of another.
            rows = sorted((row for row in rows if row[0][0] <= until), key=lambda row: row[0][0])
            if len(rows) > limit:
                rows = rows[:limit]
                until = rows[-1][0][0]
            return port.EventRows([read(row) for row, read in rows], max(after, until), until < newest)

        return await self._read(work)

    async def service_log(
        self, service: str, after: int = 0, limit: int | None = None, last: bool = False
    ) -> list[port.ServiceEntry]:
        values = {"service": service, "after": _in_range(after), "limit": _LARGEST if limit is None else limit}
        name = "get_last_of_service" if last else "get_services_of_service"
        found = await self._rows(name, values, r.read_service_entry)
        return found[::-1] if last else found

    async def position(self) -> int:
        return await self._read(read_position, whole=False)

    async def records(
        self,
        kind: type[R],
        wanted: RecordFilter = port.EVERY_RECORD,
        before: int | None = None,
        limit: int = port.MOST_RECORDS,
    ) -> port.RecordRows[R]:
        start = _LARGEST if before is None else _in_range(before)
        return await self._read(partial(list_records, kind, wanted, start, limit))

    async def counts(self, kind: type[Record], wanted: RecordFilter) -> dict[str, int]:
        values = asdict(wanted) | {"kind": kind.kind}
        return dict(await self._rows("count_records", values, lambda row: (row[0], row[1])))

    async def audit(
        self, after: int, limit: int, wanted: AuditFilter = port.EVERY_ENTRY, last: bool = False
    ) -> port.AuditRows:
        async def work(view: View) -> port.AuditRows:
            memo, newest = await read_record(Memo, HEAD, view), await read_audit_end(view)
            start = _in_range(max(after, newest.number - port.MOST_LOOKED_AT) if last else after)
            reach = min(start + port.MOST_LOOKED_AT, newest.number)
            values = asdict(wanted) | {"after": start, "reach": reach, "limit": limit}
            found = view.rows("list_last_of_audit" if last else "list_audit", values)
            entries = [r.read_audit_entry(row) async for row in found]
            head = AuditHead() if memo is None else _head_decoder.decode(memo.value)
            if last:
                return port.AuditRows(entries[::-1], None, head)
            reached = entries[-1].number if len(entries) == limit else reach
            return port.AuditRows(entries, reached if reached < newest.number else None, head)

        return await self._read(work)

    async def due_times(self, kind: type[Record]) -> dict[str, float]:
        return dict(await self._rows("get_due_times", {"kind": kind.kind}, lambda row: (row[0], row[1])))

    async def due(self, kind: type[R], queue: str, now: float, limit: int) -> list[R]:
        values = {"kind": kind.kind, "queue": queue, "now": now, "limit": limit}
        found = await self._rows("get_due", values, lambda row: kind.read(*row))
        return [record for record in found if record is not None]


async def _rows_of(view: View, wanted: port.RunFilter, place: str, values: Mapping[str, Any]) -> list[Row]:
    if wanted.text is None:
        return [row async for row in view.rows(f"list {place}", values)]
    found: list[int] = []
    async for row in view.rows(f"search {place}", {**values, "limit": _LARGEST}):
        if shows_text(wanted.text, r.decode_labels(row[1]), *row[2:]):
            found.append(row[0])
            if len(found) == values["limit"]:
                break
    return [row async for row in view.rows("get_numbered", {"numbers": found})]


def _unscanned(run_id: str, result: bytes | None, lines: list[Row]) -> port.Unscanned:
    names = sorted({name for line in lines for name in line[4:]})
    chunks = [(line[1], line[2]) for line in lines if line[4] == CHUNKS]
    return port.Unscanned(run_id, result, [(line[1], line[2], line[3]) for line in lines], names, chunks)


def _size_of(row: Row) -> int:
    """The large column comes last, or last but one in a row of a service without a change."""
    return len(row[-1] or row[-2])


def _place(wanted: port.RunFilter) -> str:
    if wanted.id_prefix is not None:
        return "runs_by_id"
    if wanted.parent is not None or wanted.root is not None:
        return "runs_of_root" if wanted.parent is None else "runs_of_parent"
    if wanted.only_live:
        return "live_runs"
    if wanted.only_unsuccessful:
        return "unsuccessful_runs"
    return "all_runs" if wanted.job_id is None else "runs_of_job"


def _in_range(number: int) -> int:
    """Return the nearest number that a database can compare with: a client may send any cursor."""
    return max(0, min(number, _LARGEST))

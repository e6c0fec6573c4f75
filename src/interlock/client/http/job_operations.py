"""The operations of both clients on jobs, lanes, dead letters and the audit that are more than one request."""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from interlock.client.declared import PAGE, Awaits, pages
from interlock.client.handle import RunAccess, RunHandle, Typed
from interlock.client.http.exchange import ClientPolicy, ClientTransport, Exchange
from interlock.client.http.gateway_operations import GatewayOperations
from interlock.client.http.request import Submitted, filled, request_of, run_fields
from interlock.error import Forbidden, NotHere
from interlock.fields import payload as payloads
from interlock.fields.duration import Duration, seconds
from interlock.interface import job_operations as j
from interlock.interface import record_operations as records
from interlock.interface.bodies import Defined, JobsBody
from interlock.interface.job_document import JobFields, document_of
from interlock.interface.run_builder import check_options, new_run
from interlock.model.audit import AuditEntry, AuditKind, AuditReport, Chain
from interlock.model.job_info import Backfilled, JobInfo, Timetable
from interlock.model.lane import LaneInfo, LaneOptions
from interlock.model.letter import LetterCode
from interlock.model.schedule.schedule import Schedule
from interlock.wire.lane_request import LaneChangeBody, SetLane
from interlock.wire.new_run import TriggerOptions
from interlock.wire.operation import Declared
from interlock.wire.parameter import Instant

T = TypeVar("T")


class LetterOptions(TypedDict, total=False):
    """A choice of dead letters."""

    code: LetterCode | str | None
    job: str | None
    tenant: str | None
    since: Instant | None
    until: Instant | None
    replayed: bool | None


class JobOperations(Awaits, GatewayOperations, RunAccess):
    def __init__(self, policy: ClientPolicy, transport: ClientTransport) -> None:
        self._policy = policy
        self._exchange = Exchange(policy, transport)
        self._waiting: set[object] = set()

    async def _send(self, request: Declared[T]) -> T:
        return await self._exchange.fetch(request_of(request), type(request).answer)

    @overload
    def handle(self, run_id: str) -> RunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, job: Typed[T]) -> RunHandle[T]: ...
    def handle(self, run_id: str, job: Typed[Any] | None = None) -> RunHandle[Any]:
        """Return a handle on the run with this id. With its job, the result has the type of the function's."""
        return RunHandle(run_id, self, None if job is None else job.result_type)

    async def schedule_times(self, schedule: Schedule, count: int = 5, after: Instant | None = None) -> list[float]:
        """Return when a schedule would fire if it were declared now, or at `after`."""
        if schedule.once:
            raise NotHere("schedule", "once", "here: its time depends on when it is declared", "use at, every or cron")
        request = j.ReadScheduleTimes(
            count=count,
            after=after,
            cron=schedule.cron,
            tz=schedule.tz,
            every=None if schedule.every is None else f"{schedule.every}s",
            wait=None if schedule.every is None else f"{schedule.wait}s",
            at=None if schedule.at is None else datetime.fromtimestamp(schedule.at, UTC).isoformat(),
        )
        return (await self._send(request)).times

    async def timetable(self, span: Duration = "24h", limit: int = 100) -> Timetable:
        """Return when jobs fire within `span` from now, for at most `limit` jobs."""
        return await self._send(j.ReadTimetable(f"{seconds(span, 'span'):.3f}s", limit))

    async def trigger(
        self, job_id: str, payload: Mapping[str, Any] | None = None, **options: Unpack[TriggerOptions]
    ) -> RunHandle[Any]:
        """Run a job now, besides its schedule, by default with its own payload. The run is durable when this
        returns."""
        check_options(options, TriggerOptions)
        now = self._policy.now()
        new = new_run(job_id, payload, now=now, **options)
        body = run_fields(new, now, options.get("tenant") is not None)
        del body["job"]  # it is in the path
        request = request_of(j.TriggerJob(job_id), body, [new])
        return self.handle((await self._exchange.fetch(request, Submitted)).id)

    async def backfill(
        self,
        job_id: str,
        start: Instant,
        end: Instant,
        *,
        max_parallel: int = 1,
        payload: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        dry_run: bool = False,
    ) -> Backfilled:
        """Create the runs that a job's schedule has from `start` up to before `end`, at most `max_parallel` of them
        live at once. Occurrences that already have a run are left alone. With `dry_run`, create nothing, and say which
        runs would be made."""
        given = _arguments(payload)
        return await self._send(
            j.BackfillJob(job_id, start, end, max_parallel=max_parallel, payload=given, tenant=tenant, dry_run=dry_run)
        )

    async def put_job(
        self, job_id: str, definition: Mapping[str, Any] | None = None, **fields: Unpack[JobFields]
    ) -> JobInfo:
        """Define a job, or replace one that was put before, by the fields of a document `kind: Job`; `run` may be a job
        of the server's app, or its id. `BadConfig`, with a line for each fault, if the server refuses it."""
        check_options(fields, JobFields)
        request = request_of(j.PutJob(job_id), document_of(definition, fields))
        return await self._exchange.fetch(request, JobInfo)

    async def put_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[str]:
        """Define up to 10,000 jobs, each with its `id`, all or none; return their ids."""
        given = enumerate(definitions)
        jobs = [msgspec.Raw(document_of(definition, {}, f"definitions[{index}]")) for index, definition in given]
        request = request_of(j.PutManyJobs(), JobsBody(jobs=cast(Any, jobs)))
        return (await self._exchange.fetch(request, Defined)).ids

    async def set_lane(self, name: str, **values: Unpack[LaneOptions]) -> LaneInfo:
        """Set values of a lane, whatever is declared; a rate of None removes it. Setting a value back to the
        declared one removes the override."""
        check_options(values, LaneOptions)
        body = filled(LaneChangeBody, **values)
        if "rate" in values and values["rate"] is None:
            body = msgspec.structs.replace(body, rate=None)
        return await self._send(SetLane(0, name, body))

    async def dead_letter_counts(self, **asked: Unpack[LetterOptions]) -> dict[str, int]:
        """Return the number of dead letters that match the filter, by reason code."""
        return (await self._send(records.ReadLetters(**asked, limit=1))).counts or {}

    async def replay(
        self, letter_id: str, payload: Mapping[str, Any] | None = None, reason: str = ""
    ) -> RunHandle[Any]:
        """Run a dead letter again; return a handle on the new run. Arguments in `payload` replace those of the same
        name."""
        return self.handle((await self._send(records.ReplayLetter(letter_id, _arguments(payload), reason))).id)

    async def drop_dead_letters(self, *, everything: bool = False, **asked: Unpack[LetterOptions]) -> int:
        """Drop the dead letters that match the filter, or all with `everything`; return their number. They go 1,000 at
        a time: if this fails halfway, the others remain."""
        request, total, more = records.DropManyLetters(everything=everything, **asked), 0, True
        while more:
            page = await self._send(request)
            total, more = total + page.dropped, page.more
        return total

    def audit(
        self,
        *,
        kind: AuditKind | str | None = None,
        actor: str | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        since: Instant | None = None,
        last: int | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """Yield entries of the audit, oldest first: all that match the filter, or the `last` ones, at most 1,000."""
        size = PAGE if last is None else last
        request = records.ReadAudit(
            kind=kind, actor=actor, tenant=tenant, subject=subject, since=since, last=last is not None, limit=size
        )
        return self._entries(request)

    async def _entries(self, request: records.ReadAudit) -> AsyncIterator[AuditEntry]:
        async for page in pages(self, request):
            for entry in page.entries:
                yield entry

    async def verify_audit(self, head: str | None = None) -> AuditReport:
        """Read the whole audit and find entries that were altered, removed or reordered. `head`, the hash of an entry
        that you have kept elsewhere, shows whether the audit was rewritten or cut since. Needs every tenant."""
        chain, page = Chain(head), None
        async for page in pages(self, records.ReadAudit(limit=records.AUDIT_PAGE)):
            if page.head is None:
                raise Forbidden("tenant: to verify the audit, use a token of all tenants")
            for entry in page.entries:
                chain.add(entry)
        return chain.end(None if page is None else page.head)


def _arguments(payload: Mapping[str, Any] | None) -> Any:
    """Return arguments as JSON has them."""
    return None if payload is None else payloads.decode(payloads.encode(dict(payload), "payload"))

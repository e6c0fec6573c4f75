"""The operations of both clients on jobs, schedules, lanes, workers, sessions, deliveries, dead letters, approvals and
the audit, each written once."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import msgspec

from interlock.client.handle import RunAccess, RunHandle, Typed
from interlock.client.http.exchange import ClientPolicy, ClientTransport, Exchange
from interlock.client.http.request import Submitted, filled, parts_of, request_of, run_fields
from interlock.client.scheduler_operations import AwaitedOperations
from interlock.error import BadValue, Forbidden, NotHere
from interlock.fields import payload as payloads
from interlock.fields.duration import Duration, seconds
from interlock.interface import operations as table
from interlock.interface import queries as q
from interlock.interface import record_operations as records
from interlock.interface.approval_view import ApprovalDetail, ApprovalInfo, ApprovalPage, ReleaseBody, ResolveBody
from interlock.interface.bodies import BackfillBody, JobsBody, LaneBody, LaneChangeBody
from interlock.interface.job_document import JobFields, document_of
from interlock.interface.letter_view import LetterDetail, LetterInfo, LetterPage, LettersBody, ReplayBody
from interlock.interface.new_run_body import TriggerBody
from interlock.interface.operation import Operation, Query
from interlock.interface.run_builder import Instant, check_options, instant, new_run
from interlock.interface.run_view import BulkInfo, LogPage, RunPage
from interlock.interface.step_view import StepPage
from interlock.model.audit import AuditEntry, AuditKind, AuditPage, AuditReport, Chain
from interlock.model.delivery import DeliveryInfo, DeliveryPage, DeliveryState
from interlock.model.job_info import Backfilled, JobInfo, JobPage, LoggedRun, Timetable
from interlock.model.lane import LaneInfo, LaneOptions
from interlock.model.letter import LetterCode
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.new_run import TriggerOptions
from interlock.wire.operation import Order, Question

T = TypeVar("T")
Page = TypeVar("Page", ApprovalPage, AuditPage, DeliveryPage, JobPage, LetterPage, LogPage, RunPage, StepPage)

PAGE = 500


class LetterOptions(TypedDict, total=False):
    """A choice of dead letters."""

    code: LetterCode | str | None
    job: str | None
    tenant: str | None
    since: Instant | None
    until: Instant | None
    replayed: bool | None


def _letters(asked: LetterOptions) -> dict[str, Any]:
    """Return the fields of a filter, with its times in seconds."""
    check_options(asked, LetterOptions)
    times = {"since": asked.get("since"), "until": asked.get("until")}
    return {**asked, **{name: instant(at, name) for name, at in times.items() if at is not None}}


class JobOperations(RunAccess, AwaitedOperations):
    def __init__(self, policy: ClientPolicy, transport: ClientTransport) -> None:
        self._policy = policy
        self._exchange = Exchange(policy, transport)
        self._waiting: set[object] = set()

    async def _call(
        self,
        operation: Operation[T],
        *path: str,
        query: Query | None = None,
        body: msgspec.Struct | bytes | None = None,
        key: str | None = None,
        endless: bool = False,
    ) -> T:
        request = request_of(operation, *path, query=query, body=body, key=key)
        return await self._exchange.fetch(request, operation.answer, endless=endless)

    async def _send(self, request: Question[T] | Order[T]) -> T:
        operation, path, query = parts_of(request)
        return await self._call(operation, *path, query=query)

    async def _pages(self, operation: Operation[Page], query: Query, *path: str) -> AsyncIterator[Page]:
        while True:
            page = await self._call(operation, *path, query=query)
            yield page
            if page.next is None:
                return
            query = msgspec.structs.replace(query, cursor=page.next)

    async def _items(
        self,
        operation: Operation[Page],
        query: Query,
        items: Callable[[Page], Sequence[T]],
        limit: int | None = None,
        *path: str,
    ) -> AsyncIterator[T]:
        async for page in self._pages(operation, query, *path):
            for item in items(page)[:limit]:
                yield item
            if limit is not None and (limit := limit - len(items(page))) <= 0:
                return

    @overload
    def handle(self, run_id: str) -> RunHandle[Any]: ...
    @overload
    def handle(self, run_id: str, job: Typed[T]) -> RunHandle[T]: ...
    def handle(self, run_id: str, job: Typed[Any] | None = None) -> RunHandle[Any]:
        """Return a handle on the run with this id. With its job, the result has the type of the function's."""
        return RunHandle(run_id, self, None if job is None else job.result_type)

    def jobs(self) -> AsyncIterator[JobInfo]:
        """Yield every job, in the order of declaration."""
        return self._items(table.jobs, q.JobsQuery(limit=PAGE), lambda page: page.jobs)

    async def job(self, job_id: str) -> JobInfo:
        """Return a job as it is now."""
        return await self._call(table.job, job_id)

    async def create_lane(self, name: str, limit: int, *, rate: str | None = None, burst: int = 1) -> LaneInfo:
        """Create a lane that outlasts restarts and reloads; one that exists is returned unchanged."""
        return await self._call(table.create_lane, body=filled(LaneBody, id=name, limit=limit, rate=rate, burst=burst))

    async def set_lane(self, name: str, **values: Unpack[LaneOptions]) -> LaneInfo:
        """Set values of a lane, whatever is declared; a rate of None removes it. Setting a value back to the
        declared one removes the override."""
        check_options(values, LaneOptions)
        body = filled(LaneChangeBody, **values)
        if "rate" in values and values["rate"] is None:
            body = msgspec.structs.replace(body, rate=None)
        return await self._call(table.set_lane, name, body=body)

    def deliveries(
        self,
        *,
        run: str | None = None,
        job: str | None = None,
        tenant: str | None = None,
        state: DeliveryState | str | None = None,
        id_prefix: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[DeliveryInfo]:
        """Yield webhooks that are owed or were sent, newest first: all that match the filter, or `limit` of them."""
        asked = {"run": run, "job": job, "tenant": tenant, "state": state, "id_prefix": id_prefix}
        query = filled(q.DeliveriesQuery, **asked, limit=page_size(limit))
        return self._items(records.deliveries, query, lambda page: page.deliveries, limit)

    async def delivery(self, delivery_id: str) -> DeliveryInfo:
        """Return a delivery as it is now."""
        return await self._call(records.delivery, delivery_id)

    def dead_letters(self, *, limit: int | None = None, **asked: Unpack[LetterOptions]) -> AsyncIterator[LetterInfo]:
        """Yield dead letters, newest first: all that match the filter, or `limit` of them."""
        query = filled(q.LettersQuery, **_letters(asked), limit=page_size(limit))
        return self._items(records.letters, query, lambda page: page.letters, limit)

    async def dead_letter_counts(self, **asked: Unpack[LetterOptions]) -> dict[str, int]:
        """Return the number of dead letters that match the filter, by reason code."""
        query = filled(q.LettersQuery, **_letters(asked), limit=1)
        return (await self._call(records.letters, query=query)).counts or {}

    async def dead_letter(self, letter_id: str) -> LetterDetail:
        """Return a dead letter with its run and the history. Its id is that of the run."""
        return await self._call(records.letter, letter_id)

    async def replay(
        self, letter_id: str, payload: Mapping[str, Any] | None = None, reason: str = ""
    ) -> RunHandle[Any]:
        """Run a dead letter again; return a handle on the new run. Arguments in `payload` replace those of the same
        name."""
        changes = None if payload is None else payloads.decode(payloads.encode(dict(payload), "payload"))
        body = filled(ReplayBody, reason=reason, payload=changes)
        return self.handle((await self._call(records.replay, letter_id, body=body, key=os.urandom(16).hex())).id)

    async def replay_many(
        self, reason: str = "", *, everything: bool = False, **asked: Unpack[LetterOptions]
    ) -> BulkInfo:
        """Replay the dead letters that match the filter and were not replayed, or all with `everything`. The request
        is durable when this returns; `bulk_progress` follows its execution on the server."""
        body = filled(LettersBody, reason=reason, everything=everything, **_letters(asked))
        return await self._call(records.replay_many, body=body, key=os.urandom(16).hex())

    async def drop_dead_letter(self, letter_id: str) -> None:
        """Drop a dead letter. Its run is kept like any other."""
        await self._call(records.drop_letter, letter_id)

    async def drop_dead_letters(self, *, everything: bool = False, **asked: Unpack[LetterOptions]) -> int:
        """Drop the dead letters that match the filter, or all with `everything`; return their number. They go 1,000 at
        a time: if this fails halfway, the others remain."""
        body, total, more = filled(LettersBody, everything=everything, **_letters(asked)), 0, True
        while more:
            page = await self._call(records.drop_letters, body=body)
            total, more = total + page.dropped, page.more
        return total

    def approvals(
        self, *, job: str | None = None, tenant: str | None = None, limit: int | None = None
    ) -> AsyncIterator[ApprovalInfo]:
        """Yield runs that wait for an approval, newest first: all that match the filter, or `limit` of them."""
        query = filled(q.ApprovalsQuery, job=job, tenant=tenant, limit=page_size(limit))
        return self._items(records.approvals, query, lambda page: page.approvals, limit)

    async def approval(self, run_id: str) -> ApprovalDetail:
        """Return what an approver needs to know about a run. `NoApproval` if none was asked for."""
        return await self._call(records.approval, run_id)

    async def approve(self, run_id: str, reason: str, seen: str | None = None) -> State:
        """Approve a run, so that it may start, and return its state. Pass `seen` of the approval that you looked at:
        if the request or the policy has changed since, this raises `StaleApproval`. If the connection breaks, the call
        is not repeated, because it may have happened."""
        body = filled(ResolveBody, reason=reason, seen=seen)
        return (await self._call(records.approve, run_id, body=body)).state

    async def reject(self, run_id: str, reason: str) -> State:
        """End a run that waits for an approval as denied; return its state. Not repeated, like `approve`."""
        return (await self._call(records.reject, run_id, body=filled(ResolveBody, reason=reason))).state

    async def release_output(self, run_id: str, reason: str) -> State:
        """Hand out the result of a run that is output_quarantined; return its state, which stays. `NotQuarantined` for
        any other run."""
        body = filled(ReleaseBody, reason=reason)
        return (await self._call(records.release_output, run_id, body=body)).state

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
        moment = None if since is None else instant(since, "since")
        asked = {"kind": kind, "actor": actor, "tenant": tenant, "subject": subject, "since": moment}
        query = filled(q.AuditQuery, **asked, last=None if last is None else True, limit=PAGE if last is None else last)
        return self._items(records.audit, query, lambda page: page.entries)

    async def verify_audit(self, head: str | None = None) -> AuditReport:
        """Read the whole audit and find entries that were altered, removed or reordered. `head`, the hash of an entry
        that you have kept elsewhere, shows whether the audit was rewritten or cut since. Needs every tenant."""
        chain, page = Chain(head), None
        async for page in self._pages(records.audit, q.AuditQuery(limit=q.AUDIT_PAGE)):
            if page.head is None:
                raise Forbidden("tenant: to verify the audit, use a token of all tenants")
            for entry in page.entries:
                chain.add(entry)
        return chain.end(None if page is None else page.head)

    async def job_log(self, job_id: str, limit: int = 20) -> list[LoggedRun]:
        """Return the runs of a job that have begun or ended, newest first, each with the first 16 KiB of its output."""
        return (await self._call(table.job_log, job_id, query=filled(q.JobLogQuery, limit=limit))).runs

    async def next_times(self, job_id: str, count: int = 5, after: Instant | None = None) -> list[float]:
        """Return the next times at which a job fires, in seconds since 1970; with `after`, those later than it."""
        return (await self._call(table.next_times, job_id, query=filled(q.TimesQuery, **_times(count, after)))).times

    async def schedule_times(self, schedule: Schedule, count: int = 5, after: Instant | None = None) -> list[float]:
        """Return when a schedule would fire if it were declared now, or at `after`."""
        if schedule.once:
            raise NotHere("schedule", "once", "here: its time depends on when it is declared", "use at, every or cron")
        query = filled(
            q.ScheduleQuery,
            **_times(count, after),
            cron=schedule.cron,
            tz=schedule.tz,
            every=None if schedule.every is None else f"{schedule.every}s",
            wait=None if schedule.every is None else f"{schedule.wait}s",
            at=None if schedule.at is None else datetime.fromtimestamp(schedule.at, UTC).isoformat(),
        )
        return (await self._call(table.schedule_times, query=query)).times

    async def timetable(self, span: Duration = "24h", limit: int = 100) -> Timetable:
        """Return when jobs fire within `span` from now, for at most `limit` jobs."""
        query = filled(q.TimetableQuery, span=f"{seconds(span, 'span'):.3f}s", limit=limit)
        return await self._call(table.timetable, query=query)

    async def trigger(
        self, job_id: str, payload: Mapping[str, Any] | None = None, **options: Unpack[TriggerOptions]
    ) -> RunHandle[Any]:
        """Run a job now, besides its schedule, by default with its own payload. The run is durable when this
        returns."""
        check_options(options, TriggerOptions)
        now = self._policy.now()
        new = new_run(job_id, payload, now=now, **options)
        body = TriggerBody(**run_fields(new, now, options.get("tenant")))
        request = request_of(table.trigger, job_id, body=body, runs=[new])
        return self.handle((await self._exchange.fetch(request, Submitted)).id)

    async def pause(self, job_id: str) -> JobInfo:
        """Pause the schedule of a job until it is resumed. Active runs continue."""
        return await self._call(table.pause, job_id)

    async def resume(self, job_id: str) -> JobInfo:
        """Let a paused job fire again from its next time on; nothing is caught up."""
        return await self._call(table.resume, job_id)

    async def backfill(
        self,
        job_id: str,
        start: Instant,
        end: Instant,
        *,
        max_parallel: int = 1,
        payload: Mapping[str, Any] | None = None,
        tenant: str | None = None,
    ) -> Backfilled:
        """Create the runs that a job's schedule has from `start` up to before `end`, at most `max_parallel` of them
        live at once. Occurrences that already have a run are left alone."""
        body = filled(
            BackfillBody, start=instant(start, "start"), end=instant(end, "end"), max_parallel=max_parallel,
            tenant=tenant,
        )  # fmt: skip
        if payload is not None:
            encoded = cast(Any, msgspec.Raw(payloads.encode(payload, "payload")))
            body = msgspec.structs.replace(body, payload=encoded)
        return await self._call(table.backfill, job_id, body=body)

    async def put_job(
        self, job_id: str, definition: Mapping[str, Any] | None = None, **fields: Unpack[JobFields]
    ) -> JobInfo:
        """Define a job, or replace one that was put before, by the fields of a document `kind: Job`; `run` may be a job
        of the server's app, or its id. `BadConfig`, with a line for each fault, if the server refuses it."""
        check_options(fields, JobFields)
        return await self._call(table.put_job, job_id, body=document_of(definition, fields))

    async def put_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> list[str]:
        """Define up to 10,000 jobs, each with its `id`, all or none; return their ids."""
        given = enumerate(definitions)
        jobs = [msgspec.Raw(document_of(definition, {}, f"definitions[{index}]")) for index, definition in given]
        return (await self._call(table.put_jobs, body=JobsBody(jobs=cast(Any, jobs)))).ids

    async def delete_job(self, job_id: str) -> JobInfo:
        """Delete a job that was put; return it as it was. Its runs are kept."""
        return await self._call(table.delete_job, job_id)


def page_size(limit: int | None, most: int = PAGE) -> int:
    """Return the size of the pages to ask for, given the number of wanted items."""
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadValue("limit", limit, "a whole number of 1 or more")
    return min(most, limit or most)


def _times(count: int, after: Instant | None) -> dict[str, Any]:
    return {"count": count, "after": None if after is None else instant(after, "after")}

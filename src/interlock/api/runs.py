"""Operations on runs: submits and actions go to the scheduler, everything else is read from the store."""

import asyncio
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from interlock import error as e
from interlock.api.call import Handlers, HttpCall, Reply, handlers_of, moment_of, seconds_of
from interlock.api.cursors import LOGS, cursor_of, read_cursor
from interlock.api.listing import read_page
from interlock.api.patience import ask
from interlock.client.connection import Connection
from interlock.core.workflows.stored_record import stored_record
from interlock.fields import payload
from interlock.fields.secret import is_marked, mask
from interlock.interface import run_operations as op
from interlock.interface import run_view as v
from interlock.interface.bodies import SubmittedBatch
from interlock.interface.job_operations import TriggerJob
from interlock.interface.operation import operations_of
from interlock.interface.record_view import RunRecord, digest_of
from interlock.interface.run_builder import check_size, new_run
from interlock.interface.step_view import StepGraph, StepPage
from interlock.model.access import EVERY_TENANT, Caller
from interlock.model.bulk import ActedOn, BulkRequest, RunAction
from interlock.model.delivery import Delivery
from interlock.model.explanation import MOST_NAMED, Explanation, explain_end, with_deliveries
from interlock.model.facets import ProgressInfo
from interlock.model.record import RecordFilter
from interlock.model.run import TRIGGER, UNSUCCESSFUL, Run, stats_of
from interlock.model.state import TERMINAL
from interlock.model.workflow import Workflow
from interlock.ports.store import MOST_LOOKED_AT, MOST_SEARCHED, Lookup, Reader, RunFilter, RunRows
from interlock.task_set import TaskSet
from interlock.wire import request as r
from interlock.wire.claim import read_claim
from interlock.wire.event_request import SendEvent
from interlock.wire.message import CHUNKS

MOST_SUBMITTING = 64 * 1024 * 1024  # bytes of payloads that may wait for the scheduler's answer
LISTINGS = 2  # lists read at once: each may look at many runs, and other reads must not wait behind them
SEARCH_SECONDS = 1.0  # after which a request with a text looks no further
MOST_LISTED = 1000  # runs of a page that is read from the store
MOST_MATCHING = 10_000  # runs that a dry run counts
MOST_READS = 10  # of a record whose run goes on meanwhile
MOST_SECRETS = 10_000  # versions of jobs whose secret arguments are remembered


class RunHandlers:
    def __init__(self, reader: Reader, connection: Connection, secret_names: Sequence[str]) -> None:
        self._reader = reader
        self._connection = connection
        self._waits = TaskSet()  # callers who wait for a run to end
        self._submitting = 0  # bytes of payloads that the scheduler has not answered for
        self._listing = asyncio.Semaphore(LISTINGS)
        self._secret_names = tuple(secret_names)
        self._secrets: dict[str, tuple[str, ...]] = {}  # job version → its secret arguments
        self.handlers: Handlers = {
            **handlers_of(self),
            **dict.fromkeys(operations_of(op.ActOnRuns), self.act_on_many),
        }

    def close(self) -> None:
        """Answer callers who wait for a run with the run as it is."""
        self._waits.cancel()

    # ── submitting ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, call: HttpCall[op.SubmitRun]) -> Reply:
        return await self._submit_one(call, call.body, None)

    async def trigger(self, call: HttpCall[TriggerJob]) -> Reply:
        return await self._submit_one(call, call.body, TRIGGER)

    async def _submit_one(self, call: HttpCall[Any], body: Any, origin: str | None) -> Reply:
        limit = seconds_of(call.request.wait)
        accepted = await self._submit([self._new(body, call.key, call, time.time(), origin)], call)
        run_id = accepted.run_ids[0]
        headers = ((b"location", f"/api/v1/runs/{run_id}".encode("latin-1")),)
        if limit:
            return Reply(await call.while_connected(self.detail(run_id, call.caller, limit)), headers)
        run = accepted.run or await self.find(run_id, call.caller)
        return Reply(v.info_of(run), headers)

    async def submit_many(self, call: HttpCall[op.SubmitRuns]) -> SubmittedBatch:
        key, now = call.key, time.time()
        runs = []
        for place, body in enumerate(call.body.runs):
            own = None if key is None or body.idempotency_key is not None else f"{key}/{place}"
            runs.append(self._new(body, own, call, now, None))
        return SubmittedBatch(ids=(await self._submit(runs, call)).run_ids)

    async def _submit(self, runs: list[r.NewRun], call: HttpCall[Any]) -> r.Accepted:
        """Durable when this returns, all or none."""
        check_size(runs)
        size = sum(len(run.payload) for run in runs)
        if self._submitting and self._submitting + size > MOST_SUBMITTING:
            raise e.Overloaded("the scheduler has not taken earlier submits yet; try again")
        self._submitting += size
        try:
            caller = call.caller
            message = r.Submit(0, runs, caller.name, len(runs) == 1, caller.only_tenant, call.parent)
            return await ask(self._connection, message)
        finally:
            self._submitting -= size

    def _new(self, body: Any, key: str | None, call: HttpCall[Any], now: float, origin: str | None) -> r.NewRun:
        if key is not None and body.idempotency_key not in (None, key):
            raise e.BadUse(
                "idempotency_key", f"{body.idempotency_key!r} in the body differs from {key!r} in the header"
            )
        given = msgspec.structs.asdict(body)
        job, arguments = given.pop("job", None) or call.request.job_id, given.pop("payload")
        # A run of no particular tenant gets that of the run that makes it.
        own = read_claim(call.parent).tenant if body.tenant is None and call.parent else body.tenant
        given["tenant"] = call.caller.tenant_for(own)
        given["idempotency_key"] = body.idempotency_key if key is None else key
        return msgspec.structs.replace(new_run(job, arguments, now=now, **given), origin=origin)

    # ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def send_event(self, call: HttpCall[op.SendRunEvent]) -> ActedOn:
        run = await self.find(call.request.run_id, call.caller)
        return await self._send_event(call, SendEvent(0, call.request.name, b"", run.id, tenant=run.tenant))

    async def send_workflow_event(self, call: HttpCall[op.SendWorkflowEvent]) -> ActedOn:
        request = call.request
        if request.payload is not None and not request.or_start:
            raise e.BadUse("payload", "is for a run that is started; add or_start")
        given = b"" if request.payload is None else payload.encode(request.payload, "payload")
        start = given if request.or_start else None
        tenant = call.caller.tenant_for(request.tenant)
        return await self._send_event(
            call, SendEvent(0, request.name, b"", "", request.job_id, tenant, request.key, start)
        )

    async def _send_event(self, call: HttpCall[Any], event: SendEvent) -> ActedOn:
        value, own_key = payload.encode_result(call.request.value), call.request.idempotency_key or call.key or ""
        caller = {"actor": call.caller.name, "parent": call.parent}
        return await ask(self._connection, msgspec.structs.replace(event, value=value, own_key=own_key, **caller))

    async def act_on_many(self, call: HttpCall[op.ActOnRuns]) -> Reply:
        request, caller = call.request, call.caller
        wanted = _filter(request, request.state)
        if wanted == RunFilter() and not request.everything:
            raise e.BadUse("all", "missing, and no filter is given; give one, such as job, or all: true for every run")
        if caller.tenant != EVERY_TENANT:
            wanted = msgspec.structs.replace(wanted, tenant=caller.tenant_for(wanted.tenant))
        if request.dry_run:
            return await self._try_bulk(call, RunAction(request.action), wanted)
        return await self.start_bulk(call, RunAction(request.action), wanted)

    async def _try_bulk(self, call: HttpCall[op.ActOnRuns], action: RunAction, wanted: RunFilter) -> Reply:
        """Count the runs that a bulk request would act on now."""
        is_retry = action is RunAction.RETRY
        looked_for = msgspec.structs.replace(wanted, live=not is_retry)
        if is_retry and not wanted.states:
            looked_for = msgspec.structs.replace(looked_for, states=UNSUCCESSFUL)
        count, before, is_first = 0, None, True
        while count < MOST_MATCHING and (is_first or before is not None):
            is_first = False
            async with self._listing:
                page = await self._reader.runs(looked_for, before, MOST_LISTED)
            before = page.next
            count += sum(1 for run in page.runs if action.acts_on(run))
            if call.connection.lost:
                raise e.ConnectionLost("the dry run")
        now, actor = time.time(), call.caller.name
        tried = BulkRequest(
            id="", action=action, wanted=wanted, actor=actor, reason=call.request.reason, created_at=now, ended_at=now
        )
        return Reply(msgspec.structs.replace(v.bulk_info_of(tried), matching=min(count, MOST_MATCHING)))

    async def start_bulk(self, call: HttpCall[Any], action: RunAction, wanted: RunFilter) -> Reply:
        # The same key is the same request, within a tenant.
        caller, key = call.caller, call.key
        given = os.urandom(16) if key is None else f"{caller.tenant}\0{key}".encode()
        bulk_id = hashlib.blake2b(given, digest_size=12).hexdigest()
        if action is RunAction.RETRY and call.parent and wanted.tenant is None:
            # The code of a run makes runs of its own tenant only.
            wanted = msgspec.structs.replace(wanted, tenant=read_claim(call.parent).tenant)
        message = r.StartBulk(0, bulk_id, action, wanted, call.request.reason, caller.name, call.parent)
        found = v.bulk_info_of(await ask(self._connection, message))
        return Reply(found, ((b"location", f"/api/v1/bulk/{found.id}".encode()),))

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def find(self, run_id: str, caller: Caller) -> Run:
        """Return the run if the caller may see it; a run of another tenant does not exist for them."""
        found = await self._reader.look_up(Lookup(runs=[run_id], pruned=[run_id]))
        run, pruned = found.runs.get(run_id), found.pruned.get(run_id)
        if run is not None and caller.sees(run.tenant):
            return run
        raise e.RunPruned(run_id) if pruned is not None and caller.sees(pruned) else e.UnknownRun(run_id)

    async def run(self, call: HttpCall[op.ReadRun]) -> v.RunDetail:
        wait = seconds_of(call.request.wait)
        detail = self.detail(call.request.run_id, call.caller, wait)
        return await (call.while_connected(detail) if wait else detail)

    async def detail(self, run_id: str, caller: Caller, wait: float) -> v.RunDetail:
        """Return the run as it is now, or once it has ended if that is within `wait` seconds."""
        run = await self.find(run_id, caller)
        if run.state not in TERMINAL and wait > 0:
            await self._until_ended(run_id, wait)
            run = await self.find(run_id, caller)
        progress = None if run.state in TERMINAL else await self._progress(run_id)
        history = await self._reader.history(run_id)
        return v.RunDetail(
            **msgspec.structs.asdict(v.info_of(run, progress)),
            payload=await self.payload_of(run),
            result=_json(run.shown_result),
            stats=stats_of(run, history, time.time()),
        )

    async def _until_ended(self, run_id: str, wait: float) -> None:
        task = self._waits.begin(self._connection.ask(r.Ask(0, run_id, True)))
        try:
            await asyncio.wait([task], timeout=wait)
            if task.done() and not task.cancelled():
                task.result()
        finally:
            task.cancel()

    async def _progress(self, run_id: str) -> ProgressInfo | None:
        """Ask the scheduler, which alone knows it. Without an answer the run is shown without."""
        try:
            return await ask(self._connection, r.AskProgress(0, run_id))
        except e.InterlockError:
            return None

    async def payload_of(self, run: Run) -> Any:
        """Return the payload without its secrets."""
        return mask(_json(run.payload), await self._secrets_of(run), self._secret_names)

    async def _secrets_of(self, run: Run) -> tuple[str, ...]:
        if run.job_version not in self._secrets:
            job = (await self._reader.look_up(Lookup(versions=[run.job_version]))).versions.get(run.job_version)
            if len(self._secrets) >= MOST_SECRETS:
                self._secrets.clear()
            self._secrets[run.job_version] = () if job is None else job.secrets
        return self._secrets[run.job_version]

    async def explanation(self, call: HttpCall[op.ReadExplanation]) -> Explanation:
        caller, run = call.caller, await self.find(call.request.run_id, call.caller)
        if run.state in TERMINAL:
            page = await self._reader.records(Delivery, RecordFilter(run=run.id), None, MOST_NAMED)
            return with_deliveries(explain_end(run), page.records, time.time())
        return await ask(self._connection, r.AskExplanation(0, run.id, caller.only_tenant))

    async def history(self, call: HttpCall[op.ReadHistory]) -> v.History:
        run_id = call.request.run_id
        await self.find(run_id, call.caller)
        return v.History(entries=v.entries_of(run_id, await self._reader.history(run_id)))

    async def logs(self, call: HttpCall[op.ReadLogs]) -> v.LogPage:
        run_id, limit = call.request.run_id, call.request.limit
        await self.find(run_id, call.caller)
        lines = await self._reader.logs(run_id, read_cursor(LOGS, call.request.cursor) or 0, limit)
        return v.LogPage(
            lines=[
                v.LogLine(line.at, line.attempt, line.level, line.text, line.logger)
                for line in lines
                if line.level != CHUNKS
            ],
            next=cursor_of(LOGS, lines[-1].position) if len(lines) == limit else None,
        )

    # ── many ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def runs(self, call: HttpCall[op.ReadRuns]) -> v.RunPage:
        query = call.request
        wanted = msgspec.structs.replace(_filter(query, query.state), live=query.live, id_prefix=query.id_prefix)
        if not (query.steps or query.parent or query.root or "@" in (query.id_prefix or "")):
            wanted = msgspec.structs.replace(wanted, is_step=False)

        async def read(tenant: str | None, before: int | None, limit: int) -> RunRows:
            rows, end = RunRows([], before), time.monotonic() + SEARCH_SECONDS
            for _ in range(1 if wanted.text is None else MOST_LOOKED_AT // MOST_SEARCHED):
                async with self._listing:
                    if call.connection.lost:
                        raise e.ConnectionLost("the list")
                    left = limit - len(rows.runs)
                    page = await self._reader.runs(msgspec.structs.replace(wanted, tenant=tenant), rows.next, left)
                rows = msgspec.structs.replace(page, runs=rows.runs + page.runs)
                if rows.next is None or len(rows.runs) == limit or time.monotonic() >= end:
                    break
            return rows

        rows, following = await read_page(call, RunRows([], None), read)
        return v.RunPage(runs=[v.info_of(run, cut=True) for run in rows.runs], next=following, reached=rows.reached)

    async def steps(self, call: HttpCall[op.ReadSteps]) -> StepPage:
        request: Any = call.request
        run = await self.find(request.run_id, call.caller)
        begin, limit = read_cursor(request.cursors, request.cursor) or 0, request.limit
        found, workflow = await self._steps_of(run.id), await self._workflow_of(run)
        return StepPage(
            steps=[v.info_of(step, cut=True) for step in found[begin : begin + limit]],
            graph=None if workflow is None or workflow.is_code else StepGraph.of(workflow),
            next=cursor_of(request.cursors, begin + limit) if len(found) > begin + limit else None,
        )

    async def record(self, call: HttpCall[op.ReadRecord]) -> RunRecord:
        run = await self.find(call.request.run_id, call.caller)
        workflow = await self._workflow_of(run)
        if workflow is None or not workflow.is_code:
            raise e.NoRecord(run.id)
        for _ in range(MOST_READS):
            found, before = await self._record_of(run), run
            run = await self.find(run.id, call.caller)
            if run.facets == before.facets:  # a turn in between would give half of what it has asked for
                return found
        raise e.Overloaded(f"run: {run.id!r} takes one turn after the other; try again")

    async def _record_of(self, run: Run) -> RunRecord:
        ids = [step.id for step in await self._steps_of(run.id)]
        steps: list[Run] = []
        digests: dict[str, str] = {}
        for begin in range(0, len(ids), MOST_LISTED):
            found = await self._reader.look_up(Lookup(runs=ids[begin : begin + MOST_LISTED]))
            for step in found.runs.values():
                digests[step.id] = digest_of(await self.payload_of(step))
                steps.append(msgspec.structs.replace(step, payload=None))
        record, runs = stored_record(run, steps)
        secrets, arguments = await self._secrets_of(run), _json(bytes(record.payload))
        masked = {name: self._mask_argument(name, value, name in secrets) for name, value in arguments.items()}
        given = {name: digests[run_id] for name, run_id in runs.items() if run_id in digests}
        return RunRecord.of(record, run.state, masked, given)

    def _mask_argument(self, name: str, value: Any, is_secret: bool) -> Any:
        """Mask an argument, but keep its form, so that it can be replayed: an empty list stays one."""
        if is_secret and not is_marked(payload.encode_result(value)):
            return mask({"secret": value}, (), ("secret",))["secret"]
        return mask({name: value}, (), self._secret_names)[name]

    async def _workflow_of(self, run: Run) -> Workflow | None:
        job = (await self._reader.look_up(Lookup(versions=[run.job_version]))).versions.get(run.job_version)
        return None if job is None else job.workflow

    async def _steps_of(self, run_id: str) -> list[Run]:
        """Return the steps of a run in the order in which they began; the store lists the newest first."""
        found, before = [], None
        wanted = RunFilter(parent=run_id, is_step=True)
        while True:
            async with self._listing:
                rows = await self._reader.runs(wanted, before, MOST_LISTED)
            found += [step for step in rows.runs if step.id.startswith((f"{run_id}@", f"{run_id}."))]
            if (before := rows.next) is None:
                return found[::-1]

    async def bulk(self, call: HttpCall[op.ReadBulk]) -> v.BulkInfo:
        bulk_id = call.request.bulk_id
        found = await self._reader.record(BulkRequest, bulk_id)
        if found is None or call.caller.tenant not in (EVERY_TENANT, found.wanted.tenant):
            raise e.UnknownBulk(bulk_id)
        return v.bulk_info_of(found)


def _filter(given: op.RunChoice[Any], states: Iterable[Any]) -> RunFilter:
    return RunFilter(
        states=frozenset(states),
        job_id=given.job,
        tenant=given.tenant,
        session=given.session,
        lane=given.lane,
        since=moment_of(given.since, "since"),
        until=moment_of(given.until, "until"),
        parent=given.parent,
        root=given.root,
        text=given.text,
    )


def _json(data: bytes | None) -> Any:
    return None if data is None else payload.decode(data)

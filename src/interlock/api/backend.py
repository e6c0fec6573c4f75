"""What the routes stand on: the store, read directly, and the scheduler, asked over its link."""

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.api.cursors import LOGS, RUNS, cursor_of, read_cursor
from interlock.api.feed import Feed
from interlock.api.job_backend import KnownJobs, ReadJob
from interlock.api.patience import ask
from interlock.api.tree import Tree
from interlock.client.connection import Connection
from interlock.client.submission import check_size, new_run
from interlock.model import message as m
from interlock.model import payload
from interlock.model import request as r
from interlock.model.access import EVERY_TENANT, Caller
from interlock.model.bodies import BulkBody, Check, NewRunBody, Readiness
from interlock.model.error import (
    BadValue,
    ConnectionLost,
    InterlockError,
    Overloaded,
    RunPruned,
    UnknownBulk,
    UnknownRun,
)
from interlock.model.exposition import Family
from interlock.model.new_run import RunOptions
from interlock.model.run import Run, stats_of
from interlock.model.run_action import RunAction
from interlock.model.run_view import (
    BulkInfo,
    History,
    LogLine,
    LogPage,
    ProgressInfo,
    RunDetail,
    RunPage,
    bulk_info_of,
    entries_of,
    info_of,
)
from interlock.model.schedule import instant
from interlock.model.secret import mask
from interlock.model.state import TERMINAL
from interlock.ports.store import Reader, RunFilter
from interlock.task_set import TaskSet

T = TypeVar("T", bound=m.Message)

STANDSTILL = 5.0
"""seconds without a turn of the scheduler's loop after which it is not ready"""
NO_WRITE = 10.0
"""the same for a write of any kind: the lease alone is one every few seconds"""
STARVED = 30.0
"""the same for runs that are due while no worker takes any"""
MOST_SUBMITTING = 64 * 1024 * 1024
"""bytes of payloads that may wait for the scheduler's word"""
LISTINGS = 2
"""lists that are read at once: each may look at many runs, and whatever else is read must not wait behind them"""
MOST_SECRETS = 10_000
"""versions of jobs whose secret arguments are remembered"""
PROBE = 2.0
"""seconds within which what a probe asks must be answered"""


class Backend:
    def __init__(self, reader: Reader, connection: Connection, secret_names: Sequence[str], read_job: ReadJob) -> None:
        self.reader = reader
        self.connection = connection
        self.feed = Feed(reader, connection)
        self.tree = Tree(reader, connection, self.feed)
        self.jobs = KnownJobs(reader, connection, read_job)
        self._waits = TaskSet()
        """those who wait for a run to end"""
        self._submitting = 0
        """bytes of payloads that the scheduler has not answered for"""
        self._listing = asyncio.Semaphore(LISTINGS)
        self._secret_names = tuple(secret_names)
        self._secrets: dict[str, tuple[str, ...]] = {}
        """job version → its arguments that are secret"""

    async def close(self) -> None:
        """Let nobody wait any longer: whoever waits for a run is shown it as it stands, and streams end."""
        self._waits.cancel()
        await self.feed.close()

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self, bodies: Sequence[NewRunBody], keys: Sequence[str | None], caller: Caller, origin: str | None = None
    ) -> list[str]:
        """Durable when this returns, all or none. `keys` are those given beside the bodies."""
        now = time.time()
        runs = [self._new(body, key, caller, now, origin) for body, key in zip(bodies, keys, strict=True)]
        check_size(runs)
        size = sum(len(run.payload) for run in runs)
        if self._submitting and self._submitting + size > MOST_SUBMITTING:
            raise Overloaded("the scheduler has not taken what was submitted before; try again")
        self._submitting += size
        try:
            return (await ask(self.connection, r.Submit(0, runs, caller.name))).run_ids
        finally:
            self._submitting -= size

    def _new(self, body: NewRunBody, key: str | None, caller: Caller, now: float, origin: str | None) -> r.NewRun:
        if key is not None and body.idempotency_key not in (None, key):
            raise BadValue("idempotency_key", body.idempotency_key, f"the one in the header ({key!r})")
        given: dict[str, Any] = {name: getattr(body, name) for name in RunOptions.__annotations__}
        given["tenant"] = caller.tenant_for(body.tenant)
        given["idempotency_key"] = body.idempotency_key if key is None else key
        return new_run(body.job, body.payload, now=now, origin=origin, **given)

    async def change(self, message: r.ActOnRun, caller: Caller) -> r.StateReport:
        """Ask for something to be done to one run, if it is the caller's to see."""
        await self._run(message.run_id, caller)
        return await ask(self.connection, message)

    async def act_on_many(self, action: RunAction, body: BulkBody, key: str | None, caller: Caller) -> BulkInfo:
        """Stored when this returns; the scheduler carries it out."""
        wanted = RunFilter(
            states=frozenset(body.state),
            job_id=body.job,
            tenant=body.tenant,
            session=body.session,
            lane=body.lane,
            since=None if body.since is None else instant(body.since, "since"),
            until=None if body.until is None else instant(body.until, "until"),
        )
        if wanted == RunFilter() and not body.everything:
            raise BadValue(
                "all", False, "enough to choose runs: give a filter such as job or state, or all: true for every run"
            )
        if caller.tenant != EVERY_TENANT:
            wanted = msgspec.structs.replace(wanted, tenant=caller.tenant_for(wanted.tenant))
        # The same key is the same request, within a tenant.
        given = os.urandom(16) if key is None else f"{caller.tenant}\0{key}".encode()
        bulk_id = hashlib.blake2b(given, digest_size=12).hexdigest()
        message = r.StartBulk(0, bulk_id, action, wanted, body.reason, caller.name)
        return bulk_info_of((await ask(self.connection, message)).bulk)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, run_id: str, caller: Caller) -> Run:
        """The run, if it is the caller's to see; another tenant's does not exist for them."""
        run = await self.reader.run(run_id)
        if run is not None and caller.sees(run.tenant):
            return run
        pruned = await self.reader.tenant_of_pruned(run_id)
        raise RunPruned(run_id) if pruned is not None and caller.sees(pruned) else UnknownRun(run_id)

    async def run(self, run_id: str, caller: Caller, wait: float = 0.0) -> RunDetail:
        """A run as it stands, or once it has ended if that is within `wait` seconds."""
        run = await self._run(run_id, caller)
        if run.state not in TERMINAL:
            if wait > 0:
                await self._until_ended(run_id, wait)
                run = await self._run(run_id, caller)
            progress = None if run.state in TERMINAL else await self._progress(run_id)
        else:
            progress = None
        history = await self.reader.history(run_id)
        fields = msgspec.structs.asdict(info_of(run, progress))
        return RunDetail(
            **fields,
            payload=mask(_json(run.payload), await self._secrets_of(run), self._secret_names),
            result=_json(run.result),
            stats=stats_of(run, history, time.time()),
        )

    async def _until_ended(self, run_id: str, wait: float) -> None:
        task = self._waits.begin(self.connection.ask(r.Ask(0, run_id, True)))
        try:
            await asyncio.wait([task], timeout=wait)
            if task.done() and not task.cancelled():
                task.result()
        finally:
            task.cancel()

    async def _progress(self, run_id: str) -> ProgressInfo | None:
        """Only the scheduler knows it. Without an answer the run is shown without."""
        try:
            report = await ask(self.connection, r.AskProgress(0, run_id))
        except InterlockError:
            return None
        return None if report.progress is None else ProgressInfo(*report.progress)

    async def _secrets_of(self, run: Run) -> tuple[str, ...]:
        if run.job_version not in self._secrets:
            job = await self.reader.definition(run.job_version)
            if len(self._secrets) >= MOST_SECRETS:
                self._secrets.clear()
            self._secrets[run.job_version] = () if job is None else job.secrets
        return self._secrets[run.job_version]

    async def runs(
        self, wanted: RunFilter, cursor: str | None, limit: int, caller: Caller, gone: Callable[[], bool]
    ) -> RunPage:
        """A page; not for those who are `gone` when it is their turn."""
        if caller.tenant != EVERY_TENANT:
            if wanted.tenant not in (None, caller.tenant):
                return RunPage(runs=[], next=None)
            wanted = msgspec.structs.replace(wanted, tenant=caller.tenant)
        async with self._listing:
            if gone():
                raise ConnectionLost("the list")
            found = await self.reader.runs(wanted, read_cursor(RUNS, cursor), limit)
        return RunPage(
            runs=[info_of(run) for run in found.runs], next=None if found.next is None else cursor_of(RUNS, found.next)
        )

    async def bulk(self, bulk_id: str, caller: Caller) -> BulkInfo:
        found = await self.reader.bulk(bulk_id)
        if found is None or caller.tenant not in (EVERY_TENANT, found.wanted.tenant):
            raise UnknownBulk(bulk_id)
        return bulk_info_of(found)

    async def history(self, run_id: str, caller: Caller) -> History:
        await self._run(run_id, caller)
        return History(entries=entries_of(run_id, await self.reader.history(run_id)))

    async def logs(self, run_id: str, cursor: str | None, limit: int, caller: Caller) -> LogPage:
        await self._run(run_id, caller)
        lines = await self.reader.logs(run_id, read_cursor(LOGS, cursor) or 0, limit)
        return LogPage(
            lines=[LogLine(line.at, line.attempt, line.level, line.text) for line in lines],
            next=cursor_of(LOGS, lines[-1].position) if len(lines) == limit else None,
        )

    # ── how it is ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def ready(self) -> Readiness:
        checks = {"store": await self._probe(self._check_store), "scheduler": await self._probe(self._check_scheduler)}
        return Readiness(ready=all(check.ok for check in checks.values()), checks=checks)

    async def _probe(self, look: Callable[[], Any]) -> Check:
        try:
            return await asyncio.wait_for(look(), PROBE)
        except TimeoutError:
            return Check(ok=False, detail=f"no answer within {PROBE:g}s")
        except InterlockError as error:
            return Check(ok=False, detail=str(error))

    async def _check_store(self) -> Check:
        return Check(ok=True, detail=f"read up to position {await self.reader.position()}")

    async def _check_scheduler(self) -> Check:
        status = await ask(self.connection, r.AskStatus(0))
        problems = []
        if not status.available:
            problems.append("the store does not take writes")
        if status.draining:
            problems.append("it is stopping")
        if status.since_pass > STANDSTILL:
            problems.append(f"its loop stands still for {status.since_pass:.0f}s")
        if status.since_write > NO_WRITE:
            problems.append(f"no write for {status.since_write:.0f}s")
        if status.starved > STARVED:
            problems.append(f"there are runs to do and no worker has taken any for {status.starved:.0f}s")
        detail = f"{status.live} live runs, {status.workers} workers, position {status.position}"
        return Check(ok=not problems, detail="; ".join([*problems, detail]))

    async def families(self) -> list[Family]:
        return (await ask(self.connection, r.AskMetrics(0))).families


def _json(data: bytes | None) -> Any:
    return None if data is None else payload.decode(data)

"""The operations of both clients that are more than one request, each written once."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar, Unpack, cast, overload

import msgspec

from interlock.client.declared import pages
from interlock.client.handle import Ending, RunHandle
from interlock.client.http.event_stream import EventOptions, EventStream
from interlock.client.http.job_operations import JobOperations
from interlock.client.http.request import Submitted, request_of, run_fields
from interlock.client.stream import chunks_of
from interlock.client.submission import Call, NewRuns, call_of, result_type_of, run_of
from interlock.error import BadValue, ConnectionLost, NotRunning, WaitTimeout, rebuild
from interlock.fields.duration import Duration
from interlock.interface import run_operations as r
from interlock.interface import run_view as v
from interlock.interface import server_operations as server
from interlock.interface.bodies import Readiness
from interlock.interface.run_builder import check_size
from interlock.interface.step_view import StepGraph
from interlock.model.run import RunStats
from interlock.model.state import TERMINAL
from interlock.wire.new_run import RunOptions
from interlock.wire.run_request import RetryRun

T = TypeVar("T")

LONGEST_WAIT = 30.0  # seconds for which one request asks the server to wait
SPARE = 5.0  # seconds by which a silent server may exceed the limit of a wait
MOST_WAITING = 256  # waits with a connection each; above that, all of them poll through the pool
POLLS_A_SECOND = 200  # polls of all such waits together
MOST_LINES = 10_000  # lines of a service's log in one request
SHORT_PAUSE = 0.5  # seconds before another request to a server that answers at once though asked to wait


class Operations(JobOperations):
    # ── submits ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    async def submit(self, job: Call[T]) -> RunHandle[T]: ...
    @overload
    async def submit(
        self, job: str, payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunHandle[Any]: ...
    async def submit(
        self, job: str | Call[Any], payload: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunHandle[Any]:
        """Submit one run; it is durable when this returns. The options are those of `App.submit`."""
        now = self._policy.now()
        call = call_of(job, payload, options, now)
        new = run_of(0, call, now)
        tenant = (call.options if isinstance(call, Call) else options).get("tenant")
        request = request_of(r.SubmitRun(), run_fields(new, now, tenant is not None), [new])
        return RunHandle((await self._exchange.fetch(request, Submitted)).id, self, result_type_of(call))

    @overload
    async def submit_many(self, runs: Iterable[Call[T]]) -> list[RunHandle[T]]: ...
    @overload
    async def submit_many(self, runs: NewRuns) -> list[RunHandle[Any]]: ...
    async def submit_many(self, runs: NewRuns) -> list[RunHandle[Any]]:
        """Submit up to 1,000 runs, all or none: pairs of job and payload, values of `interlock.run(...)` or of the
        `call(...)` of a job."""
        now, given = self._policy.now(), list(runs)
        new = [run_of(place, one, now) for place, one in enumerate(given)]
        check_size(new)
        # A run of no particular tenant gets the one that the token belongs to.
        bodies = [run_fields(one, now, one.tenant != "default") for one in new]
        request = request_of(r.SubmitRuns(), {"runs": bodies}, new)
        submitted = await self._exchange.fetch(request, r.SubmitRuns.answer)
        return [RunHandle(run_id, self, result_type_of(one)) for run_id, one in zip(submitted.ids, given, strict=True)]

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, run_id: str) -> v.RunDetail:
        """Return a run as it is now."""
        return await self._send(r.ReadRun(run_id))

    async def stats(self, run_id: str) -> RunStats:
        """Return the figures of a run: time in each state, attempts, heartbeats, latency."""
        return (await self.get(run_id)).stats

    async def logs(self, run_id: str) -> list[v.LogLine]:
        """Return every log line of a run, oldest first."""
        return [line async for page in pages(self, r.ReadLogs(run_id)) for line in page.lines]

    async def result(self, run_id: str, timeout: Duration | None = None) -> Any:
        """Wait for the end of a run and return its result, as `RunHandle.result` does."""
        return await self.handle(run_id).result(timeout)

    async def ending(self, run_id: str, limit: float | None = None) -> Ending:
        """Wait for the end of a run and return it; `WaitTimeout` if that takes longer than `limit` seconds."""
        place = object()
        self._waiting.add(place)
        try:
            return await self._ending(run_id, limit)
        except (NotRunning, ConnectionLost) as error:
            raise rebuild(error.code, f"run {run_id}: {error}") from error
        finally:
            self._waiting.discard(place)

    async def _ending(self, run_id: str, limit: float | None) -> Ending:
        exchange, elapsed, timeout = self._exchange, self._policy.elapsed, self._policy.timeout
        end = math.inf if limit is None else elapsed() + limit
        while True:
            asked, crowd = elapsed(), len(self._waiting)
            wait = round(max(0.0, min(LONGEST_WAIT, end - asked)), 3)
            # The first request returns at once, so that an absent server is noticed.
            wait = 0.0 if crowd > MOST_WAITING or not exchange.reached else wait
            request = msgspec.structs.replace(
                request_of(r.ReadRun(run_id, f"{wait:.3f}s" if wait else None)),
                within=wait + (timeout if limit is None else min(timeout, SPARE)),
                alone=crowd <= MOST_WAITING,
            )
            run = await exchange.fetch(request, v.RunDetail, end, endless=True)
            if run.state in TERMINAL:
                return Ending(run_id, run.state, run.reason, run.error, run.result, run.facets)
            now = elapsed()
            if now >= end:
                raise WaitTimeout(run_id, limit or 0.0)
            if crowd > MOST_WAITING or now - asked < min(wait, SHORT_PAUSE):
                pause = crowd / POLLS_A_SECOND if crowd > MOST_WAITING else SHORT_PAUSE
                await exchange.transport.pause(min(pause, end - now))

    async def endings(self, run_ids: Iterable[str]) -> AsyncGenerator[Ending, None]:
        """Yield the end of each run as it comes. One stream of events shows which runs have ended."""
        left = dict.fromkeys(run_ids)
        stream = cast(AsyncGenerator[tuple[str | None, v.Event], None], self.events(types=["run"], complete=True))
        async with aclosing(stream):
            async for _, event in stream:
                asked: Iterable[str] = ()
                if isinstance(event, v.HelloEvent):
                    asked = list(left)  # every end from here on comes as an event
                elif isinstance(event, v.RunEvent) and event.state in TERMINAL:
                    asked = left.keys() & {event.run_id}
                for run_id in asked:
                    if (run := await self.get(run_id)).state in TERMINAL:
                        del left[run_id]
                        yield Ending(run_id, run.state, run.reason, run.error, run.result, run.facets)
                if not left:
                    return

    async def retry(self, run_id: str, reason: str = "", from_step: str | None = None) -> RunHandle[Any]:
        """Run an ended run again; return a handle on the new run. `RunNotEnded` if it has not ended. A workflow begins
        with `from_step`, and takes over the steps before it with their results."""
        return self.handle((await self._send(RetryRun(0, run_id, reason, from_step))).id)

    # ── many runs ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def step_graph(self, run_id: str) -> StepGraph | None:
        """Return the graph with which a workflow run began; None for any other run."""
        return (await self._send(r.ReadSteps(run_id, limit=1))).graph

    async def bulk(self, bulk_id: str) -> v.BulkInfo:
        """Return the progress of a bulk request."""
        return await self._exchange.fetch(request_of(r.ReadBulk(bulk_id)), v.BulkInfo, endless=True)

    async def bulk_progress(self, bulk_id: str) -> AsyncIterator[v.BulkInfo]:
        """Yield the progress of a bulk request until it has finished, through restarts of the server."""
        pause = SHORT_PAUSE / 16
        while True:
            found = await self.bulk(bulk_id)
            yield found
            if found.ended_at is not None:
                return
            await self._exchange.transport.pause(pause)
            pause = min(2 * pause, SHORT_PAUSE)

    def events(self, **asked: Unpack[EventOptions]) -> AsyncIterator[tuple[str | None, v.Event]]:
        """Yield events as they happen, each with its id, until you leave. It survives restarts of the server.

        With `run`, yield the events of that run from its first, and end with the run.
        With `after`, the id of an event or `start`, everything stored after it comes first. Where the server leaves
        events out, it yields a `GapEvent`; with `complete`, it reads those events again instead.
        """
        return EventStream(self._exchange, asked).events()

    def stream(self, run_id: str, after: str | None = None) -> AsyncIterator[v.Chunk]:
        """Yield the chunks that a run emits, in order, until it has ended; with `after`, those after the chunk with
        this id."""
        return chunks_of(lambda asked: self.events(**asked), run_id, after)

    # ── services ────────────────────────────────────────────────────────────────────────────────────────────────────

    def service_logs(self, name: str, follow: bool = False, last: int | None = 100) -> AsyncIterator[v.ServiceLine]:
        """Yield the output and the changes of a service: the `last` lines, or all that are kept with None. With
        `follow`, new lines come until you leave, through restarts of the server."""
        request_of(server.ReadServiceLogs(name))
        if last is not None and (not isinstance(last, int) or isinstance(last, bool) or not 0 <= last <= MOST_LINES):
            raise BadValue("last", last, f"a whole number from 0 to {MOST_LINES:,}, or None for all")
        return self._lines(name, follow, last)

    async def _lines(self, name: str, follow: bool, last: int | None) -> AsyncIterator[v.ServiceLine]:
        exchange, cursor, waiting = self._exchange, None, False
        if last is not None:
            page = await self._send(server.ReadServiceLogs(name, max(1, last), last=True))
            for line in page.lines if last else ():
                yield line
            cursor = page.next
        while last is None or follow:
            asked = self._policy.elapsed()
            wait = f"{LONGEST_WAIT:g}s" if waiting else None
            request = request_of(server.ReadServiceLogs(name, cursor=cursor, wait=wait))
            if waiting:
                within = LONGEST_WAIT + self._policy.timeout
                request = msgspec.structs.replace(request, within=within, alone=True)
            page = await exchange.fetch(request, server.ReadServiceLogs.answer, endless=follow)
            for line in page.lines:
                yield line
            cursor = page.next
            if not page.lines and not follow:
                return
            if waiting and not page.lines and self._policy.elapsed() - asked < SHORT_PAUSE:
                await exchange.transport.pause(SHORT_PAUSE)
            waiting = follow and not page.lines

    # ── the server ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def ready(self) -> Readiness:
        """Return whether the server works, and what its checks found."""
        request = request_of(server.ReadReadiness())
        answer = await self._exchange.ask(request, also=frozenset({503}))
        return self._exchange.decoded(request, answer, Readiness)

    async def metrics(self) -> str:
        """Return the server's figures in the text format of Prometheus."""
        request = request_of(server.ReadMetrics())
        answer = await self._exchange.ask(request)
        if not answer.headers.get("content-type", "").startswith("text/plain"):
            raise self._exchange.not_ours(request, answer.status, "something instead of metrics")
        return answer.body.decode(errors="replace")

"""What the clients do, written once: each operation builds its requests, reads the answers and follows the pages."""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import quote, urlencode

import msgspec

from interlock.client.access import Ending
from interlock.client.http.asking import Submitted, body_of, key_for, with_query
from interlock.client.http.exchange import (
    Iteration,
    Operation,
    Pause,
    Policy,
    Request,
    Tell,
    decoded,
    exchange,
    not_ours,
)
from interlock.client.http.job_operations import JobOperations
from interlock.client.submission import RunOptions, check_size, check_text, instant, new_run
from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.error import (
    BadValue,
    ConnectionLost,
    NotRunning,
    UnknownBulk,
    UnknownChild,
    UnknownRun,
    WaitTimeout,
    rebuild,
    shown,
)
from interlock.model.reload_report import Reloaded
from interlock.model.request import MOST_RUNS_OVER_HTTP, NewRun
from interlock.model.run_action import RunAction
from interlock.model.run_view import (
    BulkInfo,
    History,
    HistoryEntry,
    LogLine,
    LogPage,
    RunDetail,
    RunPage,
    ServiceLogPage,
)
from interlock.model.state import TERMINAL, State

PAGE = 200
LONGEST_WAIT = 30.0
"""seconds for which the server is asked to wait; then it is asked again"""
SPARE = 5.0
"""seconds that a wait with a limit may take longer, if the server does not answer"""
MOST_WAITING = 256
"""waits that have a connection each; when there are more, those look now and then instead, through the pool"""
ASKS_A_SECOND = 200
"""how often they look, all of them together"""
MOST_LINES = 10_000
"""lines of a service's log that are read at once"""
LONGEST_ACTION = 310.0
"""seconds that it may take to do something to a service; the server gives up a little earlier"""
SHORT_PAUSE = 0.5
"""seconds before a server that does not wait, though asked to, is asked again"""

States = State | str | Iterable[State | str]


class BulkFilter(TypedDict, total=False):
    """Which runs are meant."""

    state: States
    job: str | None
    tenant: str | None
    session: str | None
    lane: str | None
    since: datetime | float | None
    until: datetime | float | None


class RunFilter(BulkFilter, total=False):
    """Which runs to list."""

    live: bool | None
    limit: int | None


class _SubmittedBatch(msgspec.Struct):
    ids: list[str]


class _ActedOn(msgspec.Struct):
    state: State


class _Services(msgspec.Struct):
    services: list[ChildInfo]


class Operations(JobOperations):
    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._waiting: set[object] = set()

    # ── submitting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(self, job: str, payload: Mapping[str, Any] | None, options: RunOptions) -> Operation[str]:
        if unknown := options.keys() - RunOptions.__annotations__.keys():
            raise TypeError(f"submit() got an unexpected argument {min(unknown)!r}")
        now = self._policy.now()
        new = new_run(job, payload, now=now, **options)
        body = body_of(new, now, options.get("tenant"))
        submitted = yield from self._post("/api/v1/runs", body, Submitted, key_for([new]))
        return submitted.id

    def submit_many(self, runs: Iterable[NewRun | tuple[str, Mapping[str, Any] | None]]) -> Operation[list[str]]:
        now = self._policy.now()
        ready = [_new_run(place, one, now) for place, one in enumerate(runs)]
        if not 1 <= len(ready) <= MOST_RUNS_OVER_HTTP:
            raise BadValue("runs", len(ready), f"a number of runs from 1 to {MOST_RUNS_OVER_HTTP:,}")
        check_size(ready)
        # A token may belong to a tenant of its own, which is what a run of no particular tenant then gets.
        bodies = [body_of(new, now, None if new.tenant == "default" else new.tenant) for new in ready]
        submitted = yield from self._post("/api/v1/runs/batch", {"runs": bodies}, _SubmittedBatch, key_for(ready))
        return submitted.ids

    # ── one run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, run_id: str) -> Operation[RunDetail]:
        return (yield from self._fetch(Request("GET", _path(run_id)), RunDetail))

    def wait(self, run_id: str, limit: float | None) -> Operation[Ending]:
        place = object()
        self._waiting.add(place)
        try:
            return (yield from self._until_ended(run_id, limit))
        except (NotRunning, ConnectionLost) as error:
            raise rebuild(error.code, f"run {run_id}: {error}") from error
        finally:
            self._waiting.discard(place)

    def _until_ended(self, run_id: str, limit: float | None) -> Operation[Ending]:
        elapsed, timeout = self._policy.elapsed, self._policy.timeout
        end = None if limit is None else elapsed() + limit
        while True:
            asked, crowd = elapsed(), len(self._waiting)
            wait = LONGEST_WAIT if end is None else round(max(0.0, min(LONGEST_WAIT, end - asked)), 3)
            wait = 0.0 if crowd > MOST_WAITING or not self._reached else wait
            query = {"wait": f"{wait:.3f}s"} if wait else {}
            within = wait + (timeout if end is None else min(timeout, SPARE))
            request = Request("GET", _path(run_id, query=query), within=within, alone=crowd <= MOST_WAITING)
            run = yield from self._fetch(request, RunDetail, end, patient=self._reached)
            if run.state in TERMINAL:
                return Ending(run_id, run.state, run.reason, run.error, run.result)
            now = elapsed()
            if limit is not None and end is not None and now >= end:
                raise WaitTimeout(run_id, limit)
            pause = 0.0
            if crowd > MOST_WAITING:
                pause = crowd / ASKS_A_SECOND
            elif now - asked < min(wait, SHORT_PAUSE):
                pause = SHORT_PAUSE
            if pause:
                yield Pause(pause if end is None else min(pause, end - now))

    def act_on_run(self, action: RunAction, run_id: str, reason: str) -> Operation[State]:
        check_text("reason", reason)
        return (yield from self._post(_path(run_id, f"/{action}"), {"reason": reason}, _ActedOn)).state

    def act_on_many(self, action: RunAction, reason: str, everything: bool, asked: BulkFilter) -> Operation[BulkInfo]:
        if unknown := asked.keys() - BulkFilter.__annotations__.keys():
            raise TypeError(f"{action}_many() got an unexpected argument {min(unknown)!r}")
        check_text("reason", reason)
        body: dict[str, Any] = {"reason": reason, "all": everything}
        for name, value in _query(asked).items():
            body[name] = float(value) if name in ("since", "until") else value
        return (yield from self._post(f"/api/v1/runs/{action}", body, BulkInfo, os.urandom(16).hex()))

    def bulk(self, bulk_id: str) -> Operation[BulkInfo]:
        check_text("bulk request", bulk_id)
        if bulk_id in ("", ".", "..") or "/" in bulk_id:
            raise UnknownBulk(bulk_id)
        return (
            yield from self._fetch(Request("GET", f"/api/v1/bulk/{quote(bulk_id)}"), BulkInfo, patient=self._reached)
        )

    def bulk_progress(self, bulk_id: str) -> Iteration:
        pause = SHORT_PAUSE / 16
        while True:
            found = yield from self.bulk(bulk_id)
            yield Tell(found)
            if found.ended_at is not None:
                return
            yield Pause(pause)
            pause = min(2 * pause, SHORT_PAUSE)

    def history(self, run_id: str) -> Operation[list[HistoryEntry]]:
        return (yield from self._fetch(Request("GET", _path(run_id, "/history")), History)).entries

    def logs(self, run_id: str) -> Operation[list[LogLine]]:
        lines: list[LogLine] = []
        query: dict[str, str] = {}
        while True:
            page = yield from self._fetch(Request("GET", _path(run_id, "/logs", query)), LogPage)
            lines += page.lines
            if page.next is None:
                return lines
            query = {"cursor": page.next}

    # ── many ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def runs(self, asked: RunFilter) -> Iteration:
        if unknown := asked.keys() - RunFilter.__annotations__.keys():
            raise TypeError(f"runs() got an unexpected argument {min(unknown)!r}")
        limit = asked.get("limit")
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise BadValue("limit", limit, "a whole number of 1 or more")
        return self._pages(_query(asked), limit)

    def _pages(self, query: dict[str, Any], left: int | None) -> Iteration:
        while True:
            query["limit"] = str(PAGE if left is None else min(PAGE, left))
            page = yield from self._fetch(Request("GET", f"/api/v1/runs?{urlencode(query, doseq=True)}"), RunPage)
            for run in page.runs[:left]:
                yield Tell(run)
            if left is not None:
                left -= len(page.runs)
            if page.next is None or (left is not None and left <= 0):
                return
            query["cursor"] = page.next

    # ── services ────────────────────────────────────────────────────────────────────────────────────────────────────

    def tree(self) -> Operation[ChildInfo]:
        return (yield from self._fetch(Request("GET", "/api/v1/tree"), ChildInfo))

    def services(self) -> Operation[list[ChildInfo]]:
        return (yield from self._fetch(Request("GET", "/api/v1/services"), _Services)).services

    def service(self, name: str) -> Operation[ChildInfo]:
        return (yield from self._fetch(Request("GET", _service_path(name)), ChildInfo))

    def act(self, name: str, action: ServiceAction | str) -> Operation[ChildInfo]:
        if action not in list(ServiceAction):
            raise BadValue("action", action, f"one of {', '.join(ServiceAction)}")
        return (yield from self._fetch(_once(_service_path(name, f"/{action}")), ChildInfo))

    def reload(self) -> Operation[Reloaded]:
        return (yield from self._fetch(_once("/api/v1/reload"), Reloaded))

    def service_logs(self, name: str, follow: bool, last: int | None) -> Iteration:
        path = _service_path(name, "/logs")
        if last is not None and (not isinstance(last, int) or isinstance(last, bool) or not 0 <= last <= MOST_LINES):
            raise BadValue("last", last, f"a whole number from 0 to {MOST_LINES:,}, or None for all")
        return self._lines(path, follow, last)

    def _lines(self, path: str, follow: bool, last: int | None) -> Iteration:
        query: dict[str, str] = {}
        if last is not None:
            first = {"last": "true", "limit": str(max(1, last))}
            page = yield from self._fetch(Request("GET", f"{path}?{urlencode(first)}"), ServiceLogPage)
            for line in page.lines if last else ():
                yield Tell(line)
            query["cursor"] = page.next
        waiting = False
        while last is None or follow:
            asked = self._policy.elapsed()
            wait = {"wait": f"{LONGEST_WAIT:g}s"} if waiting else {}
            within = LONGEST_WAIT + self._policy.timeout if waiting else None
            request = Request("GET", with_query(path, query | wait), within=within, alone=waiting)
            page = yield from self._fetch(request, ServiceLogPage, patient=follow and self._reached)
            for line in page.lines:
                yield Tell(line)
            query["cursor"] = page.next
            if not page.lines and not follow:
                return
            if waiting and not page.lines and self._policy.elapsed() - asked < SHORT_PAUSE:
                yield Pause(SHORT_PAUSE)
            waiting = follow and not page.lines

    # ── the server ──────────────────────────────────────────────────────────────────────────────────────────────────

    def ready(self) -> Operation[dict[str, Any]]:
        request = Request("GET", "/readyz")
        answer = yield from exchange(request, self._policy, also=frozenset({503}))
        return decoded(request, answer, dict[str, Any], self._policy.address)

    def metrics(self) -> Operation[str]:
        request = Request("GET", "/metrics")
        answer = yield from exchange(request, self._policy)
        if not answer.headers.get("content-type", "").startswith("text/plain"):
            raise not_ours(request, answer, self._policy.address, "something instead of metrics")
        return answer.body.decode(errors="replace")


def _path(run_id: str, rest: str = "", query: Mapping[str, str] | None = None) -> str:
    check_text("run", run_id)
    if run_id in ("", ".", "..") or "/" in run_id:
        raise UnknownRun(run_id)
    return with_query(f"/api/v1/runs/{quote(run_id, safe=':')}{rest}", query or {})


def _service_path(name: str, rest: str = "") -> str:
    check_text("service", name)
    last = name.rpartition("/")[2]
    if last in ("", ".", ".."):
        raise UnknownChild(name)
    if last != name:
        # It may well be in the tree, which shows paths.
        text = f"name: {shown(name)} is a path; the name is the last part of it, {shown(last)}"
        raise rebuild(UnknownChild.code, text)
    return f"/api/v1/services/{quote(name, safe='')}{rest}"


def _once(path: str) -> Request:
    """Something that is done to services: it takes as long as they take."""
    return Request("POST", path, within=LONGEST_ACTION, alone=True, once=True)


def _new_run(place: int, one: object, now: float) -> NewRun:
    if isinstance(one, NewRun):
        return one
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        # Not quoted: it may have a secret in it.
        raise BadValue(f"runs[{place}]", type(one).__name__, "a pair of job and payload, or made by interlock.run(...)")
    return new_run(one[0], one[1], now=now)


def _query(asked: RunFilter | BulkFilter) -> dict[str, Any]:
    query: dict[str, Any] = {}
    state = asked.get("state") or ()
    states = [state] if isinstance(state, str) else list(state)
    for one in states:
        check_text("state", one)
    if states:
        query["state"] = states
    for name in ("job", "tenant", "session", "lane"):
        text = asked.get(name)
        if text is not None:
            check_text(name, text)
            query[name] = text
    for name, when in (("since", asked.get("since")), ("until", asked.get("until"))):
        if when is not None:
            query[name] = repr(instant(when, name))
    live = asked.get("live")
    if live is not None:
        query["live"] = "true" if live else "false"
    return query

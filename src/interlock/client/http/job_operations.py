"""What the clients do with jobs: look at them and their times, run them, pause them, define them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from interlock.client.http.asking import Asking, Submitted, body_of, key_for, with_query
from interlock.client.http.exchange import Iteration, Operation, Request, Tell
from interlock.client.submission import TriggerOptions, check_text, instant, new_run
from interlock.model import payload as payloads
from interlock.model.duration import Duration, seconds
from interlock.model.error import BadValue, UnknownJob
from interlock.model.job_info import Backfilled, FireTimes, JobInfo, JobLog, JobPage, LoggedRun, Timetable
from interlock.model.schedule import Schedule
from interlock.model.schedule import instant as written_instant

Instant = datetime | float | str
"""a time with its zone, seconds since 1970, or a text like 2030-01-31T02:00:00Z"""
MOST_JOBS = 10_000
"""jobs that are put at once"""
MOST_TIMES = 100
MOST_LOGGED = 200
PAGE = 500
PATIENCE = 70.0
"""seconds that a change of many jobs, or a backfill, may take; the server gives up a little earlier"""
DEFINING = 300.0


class _Defined(msgspec.Struct):
    ids: list[str]


class JobOperations(Asking):
    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def jobs(self) -> Iteration:
        query = {"limit": str(PAGE)}
        while True:
            page = yield from self._fetch(Request("GET", with_query("/api/v1/jobs", query)), JobPage)
            for job in page.jobs:
                yield Tell(job)
            if page.next is None:
                return
            query["cursor"] = page.next

    def job(self, job_id: str) -> Operation[JobInfo]:
        return (yield from self._fetch(Request("GET", _path(job_id)), JobInfo))

    def job_log(self, job_id: str, limit: int) -> Operation[list[LoggedRun]]:
        query = {"limit": str(_count("limit", limit, MOST_LOGGED))}
        return (yield from self._fetch(Request("GET", with_query(_path(job_id, "/log"), query)), JobLog)).runs

    def next_times(self, job_id: str, count: int, after: Instant | None) -> Operation[list[float]]:
        query = _times(count, after)
        return (yield from self._fetch(Request("GET", with_query(_path(job_id, "/next"), query)), FireTimes)).times

    def schedule_times(self, schedule: Schedule, count: int, after: Instant | None) -> Operation[list[float]]:
        if schedule.once:
            raise BadValue("schedule", "once", "one of at, every and cron, which have times of their own")
        query = _times(count, after)
        for name in ("cron", "tz"):
            if (text := getattr(schedule, name)) is not None:
                query[name] = text
        if schedule.every is not None:
            query |= {"every": f"{schedule.every}s", "wait": f"{schedule.wait}s"}
        if schedule.at is not None:
            query["at"] = datetime.fromtimestamp(schedule.at, UTC).isoformat()
        return (yield from self._fetch(Request("GET", with_query("/api/v1/next", query)), FireTimes)).times

    def timetable(self, span: Duration, limit: int) -> Operation[Timetable]:
        length = seconds(span, "span")
        query = {"for": f"{length:.3f}s", "limit": str(_count("limit", limit, 1000))}
        return (yield from self._fetch(Request("GET", with_query("/api/v1/timetable", query)), Timetable))

    # ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def trigger(self, job_id: str, payload: Mapping[str, Any] | None, options: TriggerOptions) -> Operation[str]:
        if unknown := options.keys() - TriggerOptions.__annotations__.keys():
            raise TypeError(f"trigger() got an unexpected argument {min(unknown)!r}")
        now = self._policy.now()
        new = new_run(job_id, payload, now=now, **options)
        body = body_of(new, now, options.get("tenant"))
        del body["job"]
        return (yield from self._post(_path(job_id, "/trigger"), body, Submitted, key_for([new]))).id

    def pause(self, job_id: str, paused: bool) -> Operation[JobInfo]:
        path = _path(job_id, "/pause" if paused else "/resume")
        return (yield from self._fetch(Request("POST", path, within=PATIENCE), JobInfo))

    def backfill(
        self,
        job_id: str,
        start: Instant,
        end: Instant,
        max_parallel: int,
        payload: Mapping[str, Any] | None,
        tenant: str | None,
    ) -> Operation[Backfilled]:
        body: dict[str, Any] = {"from": _instant(start, "start"), "to": _instant(end, "end")}
        if body["from"] >= body["to"]:
            raise BadValue("start", start, f"earlier than the end ({end})")
        body["max_parallel"] = _count("max_parallel", max_parallel, 1000)
        if payload is not None:
            body["payload"] = msgspec.Raw(payloads.encode(payload, "payload"))
        if tenant is not None:
            check_text("tenant", tenant)
            body["tenant"] = tenant
        request = Request("POST", _path(job_id, "/backfill"), msgspec.json.encode(body), within=PATIENCE)
        return (yield from self._fetch(request, Backfilled))

    # ── defining ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put_job(self, job_id: str, definition: Mapping[str, Any]) -> Operation[JobInfo]:
        body = payloads.encode(definition, "definition")
        return (yield from self._fetch(Request("PUT", _path(job_id), body, within=PATIENCE), JobInfo))

    def put_jobs(self, definitions: Iterable[Mapping[str, Any]]) -> Operation[list[str]]:
        bodies = [msgspec.Raw(payloads.encode(one, f"definitions[{place}]")) for place, one in enumerate(definitions)]
        if not 1 <= len(bodies) <= MOST_JOBS:
            raise BadValue("definitions", len(bodies), f"a number of jobs from 1 to {MOST_JOBS:,}")
        request = Request("POST", "/api/v1/jobs", msgspec.json.encode({"jobs": bodies}), within=DEFINING)
        return (yield from self._fetch(request, _Defined)).ids

    def delete_job(self, job_id: str) -> Operation[JobInfo]:
        return (yield from self._fetch(Request("DELETE", _path(job_id), within=PATIENCE, once=True), JobInfo))


def _path(job_id: str, rest: str = "") -> str:
    check_text("job", job_id)
    if job_id in ("", ".", "..") or "/" in job_id:
        raise UnknownJob(job_id)
    return f"/api/v1/jobs/{quote(job_id, safe='')}{rest}"


def _times(count: int, after: Instant | None) -> dict[str, str]:
    query = {"count": str(_count("count", count, MOST_TIMES))}
    return query if after is None else query | {"after": repr(_instant(after, "after"))}


def _instant(value: Instant, field: str) -> float:
    return written_instant(value, field) if isinstance(value, str) else instant(value, field)


def _count(field: str, value: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise BadValue(field, value, f"a whole number from 1 to {most:,}")
    return value

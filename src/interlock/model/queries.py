"""The query parameters of HTTP operations."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from interlock.model.bodies import FilterText
from interlock.model.new_run import Moment
from interlock.model.operation import Query
from interlock.model.state import State

EVENT_ID = "start|e[0-9]{1,18}"  # the form of an event's id; `start` stands before the first event
# Forms of texts that the handlers check themselves, with clearer errors than a pattern gives.
WAIT = r"^([0-9]{1,5}(\.[0-9]{1,6})?ms|([0-9]{1,2}|[12][0-9]{2})(\.[0-9]{1,6})?s|[0-4](\.[0-9]{1,6})?m|300s|5m)$"
SPAN = r"^([1-9][0-9]{0,5}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h|([1-9]|[12][0-9]|3[01])d)$"


def _text(description: str, pattern: str) -> Meta:
    return Meta(description=description, extra_json_schema={"pattern": pattern})


def _cursor(pattern: str) -> Meta:
    return _text("`next` of the page before; leave it out for the first page.", f"^{pattern}$")


TimesCount = Annotated[int, Meta(ge=1, le=100, description="Most times to return.")]
After = Annotated[
    Moment | None,
    Meta(description="Only times later than this one, in RFC 3339 or seconds since 1970; by default later than now."),
]


class WaitQuery(Query, frozen=True, kw_only=True):
    wait: Annotated[
        str | None, _text("How long to wait for the run to end, such as `30s`; at most 5 minutes.", WAIT)
    ] = None


class RunsQuery(Query, frozen=True, kw_only=True):
    state: Annotated[list[State], Meta(description="Only runs in this state; may be repeated.")] = []
    job: Annotated[FilterText | None, Meta(description="Only runs of this job.")] = None
    tenant: Annotated[FilterText | None, Meta(description="Only runs of this tenant.")] = None
    session: Annotated[FilterText | None, Meta(description="Only runs of this session.")] = None
    lane: Annotated[FilterText | None, Meta(description="Only runs in this lane.")] = None
    since: Annotated[
        Moment | None, Meta(description="Only runs created at this time or later, in RFC 3339 or seconds since 1970.")
    ] = None
    until: Annotated[
        Moment | None, Meta(description="Only runs created before this time, in RFC 3339 or seconds since 1970.")
    ] = None
    live: Annotated[
        bool | None, Meta(description="`true`: only runs that have not ended; `false`: only runs that have.")
    ] = None
    id_prefix: Annotated[
        FilterText | None, Meta(description="Only runs whose id begins with this, and of these the last 1,000 by id.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="Most runs to return.")] = 50
    cursor: Annotated[str | None, _cursor("r[0-9]{1,18}")] = None


class LogsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Most lines to return.")] = 1000
    cursor: Annotated[str | None, _cursor("l[0-9]{1,18}")] = None


class JobsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="Most jobs to return.")] = 100
    cursor: Annotated[str | None, _cursor("j[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")] = None


class JobLogQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=200, description="Most runs to return.")] = 20


class TimesQuery(Query, frozen=True, kw_only=True):
    count: TimesCount = 5
    after: After = None


class ScheduleQuery(TimesQuery, frozen=True, kw_only=True):
    cron: Annotated[
        Annotated[str, Meta(max_length=256)] | None, Meta(description="Cron expression of five fields.")
    ] = None
    tz: Annotated[
        Annotated[str, Meta(max_length=64)] | None, Meta(description="Time zone of `cron`; UTC by default.")
    ] = None
    every: Annotated[
        Annotated[str, Meta(max_length=32)] | None, Meta(description="Interval, such as `10m`, instead of `cron`.")
    ] = None
    wait: Annotated[
        Annotated[str, Meta(max_length=32)] | None, Meta(description="Time until the first run of `every`.")
    ] = None
    at: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(description="Time, such as `2030-01-31T02:00:00Z`, instead of `cron`."),
    ] = None


class TimetableQuery(Query, frozen=True, kw_only=True):
    span: Annotated[str, _text("How far ahead to look, such as `24h`; from 1 second to 31 days.", SPAN)] = (
        msgspec.field(default="24h", name="for")
    )
    limit: Annotated[int, Meta(ge=1, le=1000, description="Most jobs to return.")] = 100


class ServiceLogsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Most lines to return.")] = 1000
    cursor: Annotated[str | None, _text("`next` of an answer before; only newer lines follow.", "^s[0-9]{1,18}$")] = (
        None
    )
    last: Annotated[bool, Meta(description="`true`: the newest lines instead of the oldest.")] = False
    wait: Annotated[
        str | None, _text("How long to wait for a line if there is none yet, such as `30s`; at most 5 minutes.", WAIT)
    ] = None


EventType = Literal["run", "log", "progress", "service", "service_log"]


class EventsQuery(Query, frozen=True, kw_only=True):
    run: Annotated[FilterText | None, Meta(description="Only events of this run.")] = None
    job: Annotated[FilterText | None, Meta(description="Only events of this job.")] = None
    tenant: Annotated[FilterText | None, Meta(description="Only events of this tenant.")] = None
    service: Annotated[FilterText | None, Meta(description="Only events of this service.")] = None
    types: Annotated[list[EventType], Meta(description="Only events of this type; may be repeated.")] = msgspec.field(
        default_factory=list, name="type"
    )
    after: Annotated[
        str | None,
        _text(
            "Send first every stored event after the one with this id; `start` sends all. The header `Last-Event-ID` "
            "takes precedence.",
            f"^({EVENT_ID})$",
        ),
    ] = None

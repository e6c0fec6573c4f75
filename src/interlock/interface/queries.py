"""The query parameters of HTTP operations."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from interlock.fields.field import doc
from interlock.interface.bodies import RunChoice
from interlock.interface.letter_view import LetterChoice
from interlock.interface.new_run_body import Moment
from interlock.interface.operation import Query
from interlock.model.audit import AuditKind
from interlock.model.delivery import DeliveryState
from interlock.model.state import State
from interlock.wire.parameter import FilterText, cursor_form, text

EVENT_ID = "start|e[0-9]{1,18}"  # the form of an event's id; `start` stands before the first event
# Forms of texts that the handlers check themselves, with clearer errors than a pattern gives.
WAIT = r"^([0-9]{1,5}(\.[0-9]{1,6})?ms|([0-9]{1,2}|[12][0-9]{2})(\.[0-9]{1,6})?s|[0-4](\.[0-9]{1,6})?m|300s|5m)$"
SPAN = r"^([1-9][0-9]{0,5}s|[1-9][0-9]{0,3}m|[1-9][0-9]?h|([1-9]|[12][0-9]|3[01])d)$"


AUDIT_PAGE = 1000  # entries

ShortText = Annotated[str, Meta(max_length=64)]


class WaitQuery(Query, frozen=True, kw_only=True):
    wait: Annotated[str | None, text("Time to wait for the run to end, such as `30s`; up to 5 minutes.", WAIT)] = None


class RunsQuery(RunChoice, Query, frozen=True, kw_only=True):
    state: Annotated[list[State], doc("Only runs in this state; may be repeated.")] = []
    live: Annotated[bool | None, doc("`true`: only runs that have not ended; `false`: only runs that have.")] = None
    id_prefix: Annotated[FilterText | None, doc("Only runs whose id begins with this, the last 1,000 by id.")] = None
    steps: Annotated[
        bool, doc("Whether to list steps of workflows; with `parent`, `root` or the id of a step they always are.")
    ] = False
    limit: Annotated[int, doc("Most runs to return.", ge=1, le=1000)] = 50
    cursor: Annotated[str | None, cursor_form("r[0-9]{1,18}")] = None


class StepsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most steps to return.", ge=1, le=1000)] = 200
    cursor: Annotated[str | None, cursor_form("t[0-9]{1,18}")] = None


class LogsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most lines to return.", ge=1, le=10_000)] = 1000
    cursor: Annotated[str | None, cursor_form("l[0-9]{1,18}")] = None


class JobsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most jobs to return.", ge=1, le=1000)] = 100
    cursor: Annotated[str | None, cursor_form("j[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")] = None


class DeliveriesQuery(Query, frozen=True, kw_only=True):
    run: Annotated[FilterText | None, doc("Only deliveries of this run.")] = None
    job: Annotated[FilterText | None, doc("Only deliveries of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only deliveries of this tenant.")] = None
    state: Annotated[DeliveryState | None, doc("Only deliveries in this state.")] = None
    id_prefix: Annotated[
        Annotated[str, Meta(min_length=8, max_length=64)] | None, doc("Only deliveries whose id begins with this.")
    ] = None
    limit: Annotated[int, doc("Most deliveries to return.", ge=1, le=1000)] = 50
    cursor: Annotated[str | None, cursor_form("d[0-9]{1,18}")] = None


class LettersQuery(LetterChoice, Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most letters to return.", ge=1, le=1000)] = 50
    cursor: Annotated[str | None, cursor_form("x[0-9]{1,18}")] = None


class ApprovalsQuery(Query, frozen=True, kw_only=True):
    job: Annotated[FilterText | None, doc("Only runs of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None
    limit: Annotated[int, doc("Most runs to return.", ge=1, le=1000)] = 50
    cursor: Annotated[str | None, cursor_form("p[0-9]{1,18}")] = None


class AuditQuery(Query, frozen=True, kw_only=True):
    kind: Annotated[AuditKind | None, doc("Only entries of this kind.")] = None
    actor: Annotated[FilterText | None, doc("Only entries of this actor.")] = None
    tenant: Annotated[FilterText | None, doc("Only entries of this tenant.")] = None
    subject: Annotated[FilterText | None, doc("Only entries about this run, job or path.")] = None
    since: Annotated[Moment | None, doc("Only entries since then, in RFC 3339 or seconds since 1970.")] = None
    last: Annotated[bool, doc("`true`: the newest entries, of the last 50,000, instead of the oldest.")] = False
    limit: Annotated[int, doc("Most entries to return.", ge=1, le=AUDIT_PAGE)] = 100
    cursor: Annotated[str | None, cursor_form("a[0-9]{1,18}")] = None


class JobLogQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most runs to return.", ge=1, le=200)] = 20


class TimesQuery(Query, frozen=True, kw_only=True):
    count: Annotated[int, doc("Most times to return.", ge=1, le=100)] = 5
    after: Annotated[
        Moment | None, doc("Only times after this one, in RFC 3339 or seconds since 1970; by default after now.")
    ] = None


class ScheduleQuery(TimesQuery, frozen=True, kw_only=True):
    cron: Annotated[FilterText | None, doc("Cron expression of five fields.")] = None
    tz: Annotated[ShortText | None, doc("Time zone of `cron`; UTC by default.")] = None
    every: Annotated[ShortText | None, doc("Interval, such as `10m`, instead of `cron`.")] = None
    wait: Annotated[ShortText | None, doc("Time until the first run of `every`.")] = None
    at: Annotated[ShortText | None, doc("Time, such as `2030-01-31T02:00:00Z`, instead of `cron`.")] = None


class TimetableQuery(Query, frozen=True, kw_only=True):
    span: Annotated[str, text("Time to look ahead, such as `24h`; 1 second to 31 days.", SPAN)] = msgspec.field(
        default="24h", name="for"
    )
    limit: Annotated[int, doc("Most jobs to return.", ge=1, le=1000)] = 100


class ServiceLogsQuery(Query, frozen=True, kw_only=True):
    limit: Annotated[int, doc("Most lines to return.", ge=1, le=10_000)] = 1000
    cursor: Annotated[str | None, text("`next` of the answer before; newer lines follow.", "^s[0-9]{1,18}$")] = None
    last: Annotated[bool, doc("`true`: the newest lines instead of the oldest.")] = False
    wait: Annotated[str | None, text("Time to wait for the next line, such as `30s`; at most 5 minutes.", WAIT)] = None


EventType = Literal["run", "log", "chunk", "progress", "service", "service_log", "lane", "job", "session", "violation"]


class EventsQuery(Query, frozen=True, kw_only=True):
    run: Annotated[FilterText | None, doc("Only events of this run.")] = None
    job: Annotated[FilterText | None, doc("Only events of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only events of this tenant.")] = None
    service: Annotated[FilterText | None, doc("Only events of this service.")] = None
    types: Annotated[list[EventType], doc("Only events of this type; may be repeated.")] = msgspec.field(
        default_factory=list, name="type"
    )
    after: Annotated[
        str | None,
        text(
            "Send first every stored event after this id; `start` sends all. The header `Last-Event-ID` overrides it.",
            f"^({EVENT_ID})$",
        ),
    ] = None

"""The operations on services, events and the server itself that the gateway carries out."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from interlock.fields.field import doc
from interlock.interface.bodies import Health, Readiness, ServiceList
from interlock.interface.run_operations import WAIT
from interlock.interface.run_view import ServiceLogPage
from interlock.model.child_info import ChildInfo
from interlock.wire.operation import GatewayRequest, Http
from interlock.wire.parameter import FilterText, text

EVENT_ID = "start|e[0-9]{1,18}"  # the form of an event's id; `start` stands before the first event
SERVICES = "services"
HEALTH = "health"


class ReadServices(GatewayRequest[ServiceList], frozen=True):
    """List services. Services and groups, in the order in which they start, without their members."""

    http: ClassVar = Http("services", "GET /services", every_tenant=SERVICES)


class ReadService(GatewayRequest[ChildInfo], frozen=True):
    """Show a service. A service, or a group with its members."""

    name: str

    http: ClassVar = Http("service", "GET /services/{name}", every_tenant=SERVICES)


class ReadServiceLogs(GatewayRequest[ServiceLogPage], frozen=True):
    """Show the log of a service. Lines that the service printed, and changes of its status, oldest first. Go on with
    `next`: at the end of the log a page is empty, or with `wait` the answer comes with the next line."""

    name: str
    limit: Annotated[int, doc("Most lines to return.", ge=1, le=10_000)] = 1000
    cursor: Annotated[str | None, text("`next` of the answer before; newer lines follow.", "^s[0-9]{1,18}$")] = None
    last: Annotated[bool, doc("`true`: the newest lines instead of the oldest.")] = False
    wait: Annotated[str | None, text("Time to wait for the next line, such as `30s`; at most 5 minutes.", WAIT)] = None

    http: ClassVar = Http("service_logs", "GET /services/{name}/logs", every_tenant=SERVICES)


EventType = Literal[
    "run", "log", "chunk", "progress", "service", "service_log", "lane", "job", "session", "violation", "overview"
]


class ReadEvents(GatewayRequest[str], frozen=True, kw_only=True):
    """Stream events. Server-sent events: transitions, log lines and progress of runs; changes and output of services;
    changes of lanes and jobs; acts on sessions. The `id` of an event is a cursor. A stream opened with `Last-Event-ID`
    or `after` first sends every event stored after that one. A `gap` event names a range that was left out, and where
    to resume for it. A reader that does not keep up is cut off and may resume. Services and lanes belong to no tenant:
    only callers who see every tenant get their events, and only without `run`, `job` and `tenant`. Only a stream that
    names the type `overview` has it, when it has changed and at most once a second."""

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

    http: ClassVar = Http("events", "GET /events", media_type="text/event-stream")


class ReadHealth(GatewayRequest[Health], frozen=True):
    """Show whether the server is alive."""

    permission: ClassVar = None
    http: ClassVar = Http("healthz", "GET /healthz", HEALTH, base="")


class ReadReadiness(GatewayRequest[Readiness], frozen=True):
    """Show whether the server can work. The store can be read, and the scheduler makes progress: its loop turns, its
    writes are stored, and workers take runs. The status is 503 if a check fails. Without a token, where tokens are
    needed, the checks have no details."""

    permission: ClassVar = None
    http: ClassVar = Http("readyz", "GET /readyz", HEALTH, base="")


class ReadMetrics(GatewayRequest[str], frozen=True):
    """Show metrics for Prometheus. Figures of the whole scheduler, so only for callers who see every tenant."""

    http: ClassVar = Http(
        "metrics",
        "GET /metrics",
        HEALTH,
        every_tenant="metrics",
        media_type="text/plain; version=0.0.4; charset=utf-8",
        base="",
    )


class ReadDescription(GatewayRequest[dict[str, Any]], frozen=True):
    """Show this description."""

    permission: ClassVar = None
    http: ClassVar = Http("openapi", "GET /openapi.json", HEALTH, base="")

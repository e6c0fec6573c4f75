"""The operations that sum up many runs."""

from typing import Annotated, ClassVar, Literal

from interlock.fields.field import doc
from interlock.interface.operation import PageRequest
from interlock.model.failures import FailureList
from interlock.model.overview import Overview
from interlock.model.tally import TallyPage
from interlock.wire.operation import GatewayRequest, Http
from interlock.wire.parameter import FilterText, Moment, PageSize


class ReadOverview(GatewayRequest[Overview], frozen=True, kw_only=True):
    """Show the overview. What needs a person, what waits and why, and live runs by state. It may be a second old. The
    event `overview` on the stream has the same."""

    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None

    http: ClassVar = Http("overview", "GET /overview", "overview")


class ReadTallies(PageRequest[TallyPage], frozen=True, kw_only=True):
    """List tallies. Sums over runs that have ended: by lane and minute, kept for 48 hours, or by tenant, job and hour,
    kept as long as runs (`keep_for`). The newest ends are counted after ten seconds. Lanes are of all tenants, so only
    callers who see every tenant get tallies by lane."""

    by: Annotated[Literal["lane", "job"], doc("`lane`: by lane and minute; `job`: by tenant, job and hour.")] = "job"
    lane: Annotated[FilterText | None, doc("Only tallies of this lane.")] = None
    job: Annotated[FilterText | None, doc("Only tallies of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only tallies of this tenant.")] = None
    since: Annotated[Moment | None, doc("Only tallies that begin then or later.")] = None
    until: Annotated[Moment | None, doc("Only tallies that begin before this time.")] = None
    limit: PageSize = 1000

    cursors: ClassVar = "y"
    http: ClassVar = Http("tallies", "GET /tallies", "overview")


class ReadFailures(GatewayRequest[FailureList], frozen=True, kw_only=True):
    """List failures. Runs that failed, timed out, were lost, denied or quarantined, grouped by job and by error
    without its numbers. At most the newest 5,000 are grouped; `reached` says how far back that was."""

    job: Annotated[FilterText | None, doc("Only runs of this job.")] = None
    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None
    since: Annotated[
        Moment | None, doc("Only runs created since then, in RFC 3339 or seconds since 1970; by default of 24 hours.")
    ] = None
    limit: Annotated[int, doc("Most groups to return.", ge=1, le=1000)] = 50

    http: ClassVar = Http("failures", "GET /failures", "overview")

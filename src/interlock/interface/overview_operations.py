"""The operations that sum up many runs."""

from typing import Annotated, ClassVar

from interlock.fields.field import doc
from interlock.model.overview import Overview
from interlock.wire.operation import GatewayRequest, Http
from interlock.wire.parameter import FilterText


class ReadOverview(GatewayRequest[Overview], frozen=True, kw_only=True):
    """Show the overview. What needs a person, what waits and why, and live runs by state. It may be a second old. The
    event `overview` on the stream has the same."""

    tenant: Annotated[FilterText | None, doc("Only runs of this tenant.")] = None

    http: ClassVar = Http("overview", "GET /overview", "overview")

"""The question for the overview."""

from interlock.model.overview import Overview
from interlock.wire.request import Request


class AskOverview(Request[Overview], frozen=True):
    """Ask for the part of the overview that the scheduler knows."""

    only_tenant: str | None = None

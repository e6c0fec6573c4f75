"""Messages between the scheduler and the process that scans results."""

from interlock.model.output import OutputPolicy, Scanned
from interlock.model.request import Answer, Change, Request


class ScanPlan(Answer, frozen=True):
    position: int  # up to which results are scanned
    policy: OutputPolicy | None  # None if nothing is to be scanned


class AskScanPlan(Request[ScanPlan], frozen=True):
    """Ask what to scan, and from where on."""


class ScansStored(Answer, frozen=True):
    """The report is stored."""


class ReportScans(Change[ScansStored], frozen=True):
    """Store that results are scanned up to a position."""

    position: int
    checked: int  # results
    seconds: float  # that their scans took
    found: list[Scanned]  # those with a finding or an error

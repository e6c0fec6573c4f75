"""Messages between the scheduler and the process that scans results."""

from interlock.model.policy.output import OutputPolicy, Scanned
from interlock.wire.request import Answer, Change, Request


class ScanPlan(Answer, frozen=True):
    position: int  # up to which results are scanned
    policy: OutputPolicy | None  # None if nothing is to be scanned
    digest: str = ""  # of the whole policy


class AskScanPlan(Request[ScanPlan], frozen=True):
    """Ask what to scan, and from where on."""


class ScansStored(Answer, frozen=True):
    """The report is stored, or refused because the policy has changed."""

    position: int  # up to which results are scanned


class ReportScans(Change[ScansStored], frozen=True):
    """Store that results are scanned up to a position."""

    position: int
    digest: str  # of the policy that they were scanned for
    found: list[Scanned]

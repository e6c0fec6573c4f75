"""Messages between the scheduler and the process that scans results."""

from interlock.model.policy.output import OutputPolicy, Scanned
from interlock.wire.request import Answer, ChangeRequest, Request


class ScanPlan(Answer, frozen=True):
    position: int  # up to which results are scanned
    policy: OutputPolicy | None  # None if nothing is to be scanned
    digest: str = ""  # of the whole policy


class AskScanPlan(Request[ScanPlan], frozen=True):
    """Ask what to scan, and from where on."""


class ReportScans(ChangeRequest[int], frozen=True):
    """Store that results are scanned up to a position; answered with the position up to which they are, which a report
    for an earlier policy does not change."""

    position: int
    digest: str  # of the policy that they were scanned for
    found: list[Scanned]

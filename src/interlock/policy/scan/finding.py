"""What a scan returns. Findings are shown to people, so they never hold the text that was found."""

import msgspec

from interlock.model.policy.output import Finding as Finding
from interlock.model.policy.scanner import OutputAction


class Scan(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...] = ()
    decision: OutputAction = OutputAction.ALLOW  # the strictest action of the findings
    redacted: bytes | None = None  # only with the decision `redact`


CLEAN = Scan()


def marker(kind: str) -> bytes:
    """Return the text that replaces a finding."""
    return b"[redacted:%b]" % kind.encode()

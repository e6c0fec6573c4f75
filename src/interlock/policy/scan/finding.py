"""What a scan returns. Findings are shown to people, so they never hold the text that was found."""

import msgspec

from interlock.model.scanner import OutputAction


class Finding(msgspec.Struct, frozen=True):
    scanner: str
    kind: str  # such as `card` or `github_token`
    path: str  # place in JSON such as `$.items[2].name`; empty for other text, or for the result as a whole
    start: int  # characters, in the value at that place
    end: int
    note: str


class Scan(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...] = ()
    decision: OutputAction = OutputAction.ALLOW  # the strictest action of the findings
    redacted: bytes | None = None  # only with the decision `redact`


CLEAN = Scan()


def marker(kind: str) -> bytes:
    """Return the text that replaces a finding."""
    return b"[redacted:%b]" % kind.encode()

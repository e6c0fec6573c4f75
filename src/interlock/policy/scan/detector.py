"""Detectors: a regular expression, and a check that tells a real hit from a look-alike.

A detector reads plain text, or the values of a JSON document as `document` joins them: `NAME_END` stands between a name
and its value, `VALUE_END` behind everything else. No pattern may match across `VALUE_END`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from interlock.model.policy.output import Finding as Finding
from interlock.model.policy.scanner import OutputAction, compile_re2

VALUE_END, NAME_END = b"\x1e", b"\x1f"

HitCheck = Callable[[bytes, int, int], int]
"""Return the end of the hit at start and end, or 0 for a look-alike."""


class Detector(msgspec.Struct, frozen=True):
    kind: str
    pattern: str  # the hit is the first group that matched, or else the whole match
    check: HitCheck | None = None
    hint: str = ""  # a pattern for the prefilter that matches raw JSON wherever `pattern` matches; by default `pattern`


class Detectors:
    """Compiled detectors. The prefilter is one pattern for all of them, so clean text costs one pass."""

    def __init__(self, detectors: Iterable[Detector]) -> None:
        self.detectors = tuple(detectors)

    # One alternation instead of `re2.Set`, which reports no match if it runs out of memory.
    @cached_property
    def prefilter(self) -> Callable[[bytes], object]:
        hints = dict.fromkeys(detector.hint or detector.pattern for detector in self.detectors)
        found: Callable[[bytes], object] = compile_re2("|".join(f"(?:{hint})" for hint in hints), capture=False).search
        return found

    @cached_property
    def _compiled(self) -> list[tuple[Detector, Any]]:
        return [(detector, compile_re2(detector.pattern)) for detector in self.detectors]

    def find(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and kind of each hit, detector by detector."""
        for detector, regex in self._compiled:
            groups = range(1, regex.groups + 1)
            for match in regex.finditer(data):
                start, end = match.span(next((group for group in groups if match.start(group) >= 0), 0))
                if detector.check is not None:
                    end = detector.check(data, start, end)
                if end > start:
                    yield start, end, detector.kind


class Scan(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...] = ()
    decision: OutputAction = OutputAction.ALLOW  # the strictest action of the findings
    redacted: bytes | None = None  # only with the decision `redact`


CLEAN = Scan()


def marker(kind: str) -> bytes:
    """Return the text that replaces a finding."""
    return b"[redacted:%b]" % kind.encode()

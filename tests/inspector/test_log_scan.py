"""One scan of a result and of the log lines that wait with it."""

import msgspec
import pytest

from interlock.inspector.inspector import LOG, join_scans, parts_of
from interlock.model.policy.output import Scanned
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec
from interlock.policy.scan import Scanners
from interlock.ports.store import Unscanned

A = OutputAction
LINES = [(1, 1, "one"), (2, 1, "two")]
ONE = ((1, 1, "ONE"),)


def scan_of(result: Scanned | None, log: Scanned | None) -> Scanned:
    scans = {one.run_id: one for one in (result, log) if one is not None}
    (found,) = join_scans([Unscanned("r1", None if result is None else b"1", LINES)], scans)
    return found


def of_log(decision: A, redacted: bytes | None = None, error: str = "") -> Scanned:
    return Scanned(LOG + "r1", decision, redacted=redacted, error=error)


def of_result(decision: A, redacted: bytes | None = None, error: str = "") -> Scanned:
    return Scanned("r1", decision, redacted=redacted, error=error)


@pytest.mark.behaviour("OUT-2")
@pytest.mark.parametrize(
    ("result", "log", "expected"),
    [
        (None, None, (A.ALLOW, None, (), "")),
        (of_result(A.ALLOW), of_log(A.ALLOW), (A.ALLOW, None, (), "")),
        (of_result(A.DENY), of_log(A.QUARANTINE), (A.DENY, None, (), "")),
        (None, of_log(A.QUARANTINE), (A.QUARANTINE, None, (), "")),
        (of_result(A.REDACT, b"2"), of_log(A.ALLOW), (A.REDACT, b"2", (), "")),
        (of_result(A.REDACT), of_log(A.REDACT, b'["ONE","two"]'), (A.QUARANTINE, None, ONE, "")),
        (of_result(A.REDACT, b"2"), of_log(A.REDACT, b'["ONE","two"]'), (A.REDACT, b"2", ONE, "")),
        (None, of_log(A.REDACT, b'["ONE","two"]'), (A.REDACT, None, ONE, "")),
        (None, of_log(A.REDACT), (A.QUARANTINE, None, (), "")),
        (None, of_log(A.REDACT, b'["ONE"]'), (A.QUARANTINE, None, (), "")),
        (of_result(A.QUARANTINE), of_log(A.ALLOW, error="hung"), (A.QUARANTINE, None, (), "hung")),
        (of_result(A.ALLOW, error="hung"), of_log(A.REDACT, b'["ONE","two"]'), (A.REDACT, None, ONE, "hung")),
    ],
)
def test_the_strictest_decision_counts(
    result: Scanned | None, log: Scanned | None, expected: tuple[A, bytes | None, tuple[tuple[int, int, str], ...], str]
) -> None:
    found = scan_of(result, log)
    assert (found.run_id, found.decision, found.redacted, found.lines, found.error) == ("r1", *expected)


@pytest.mark.behaviour("OUT-2")
@pytest.mark.parametrize(("action", "decision"), [(A.QUARANTINE, A.QUARANTINE), (A.REDACT, A.QUARANTINE)])
def test_levels_and_loggers_are_scanned_too(action: A, decision: A) -> None:
    """A name cannot be redacted."""
    of = Unscanned("r1", None, LINES, ["info", "about.Falcon"])
    scanners = Scanners([ScannerSpec(scanner=ScannerKind.KEYWORDS, words=("Falcon",), action=action)])
    ((name, content),) = parts_of([of]).items()
    scan = scanners.scan(content)
    (found,) = join_scans([of], {name: Scanned(name, scan.decision, scan.findings, 1, scan.redacted)})
    assert (found.decision, found.lines) == (decision, ())


@pytest.mark.behaviour("RUN-27", "OUT-2")
def test_the_texts_of_a_stream_are_scanned_as_one_by_key() -> None:
    lines = [(1, 1, '["Fal",{"delta":"se","id":7}]'), (1, 2, "a line"), (1, 3, '["con",{"delta":["cr","et"]}]')]
    run = Unscanned("r1", None, [*lines, (2, 1, '["again"]')], ["@chunks"], [(1, 1), (1, 3), (2, 1)])
    texts = msgspec.json.decode(parts_of([run])[LOG + "r1"])
    assert texts[5:] == ["Falcon", "secret", "again"]


@pytest.mark.behaviour("RUN-27")
def test_a_long_stream_is_joined_in_linear_time() -> None:
    def steps(count: int) -> int:
        """Return how often two numbers of lines are compared."""
        compared = 0

        class Number(int):
            __hash__ = int.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal compared
                compared += 1
                return int.__eq__(self, int(other))  # type: ignore[call-overload] # numbers only

        numbers = [(1, Number(number)) for number in range(1, count + 1)]
        parts_of(
            [Unscanned("r1", None, [(*key, '["w "]') for key in numbers], [], [(1, Number(n)) for _, n in numbers])]
        )
        return compared

    assert steps(2000) <= 10 * 2000

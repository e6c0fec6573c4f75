"""Results and logs that are scanned before the success of their runs, by an inspector that may be late, or die.

Nobody reads a result or a log line before its scan has passed, nor ever one that is withheld. Every run that was to be
scanned has one status in the end. The name of what is scanned decides what the scanners find.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from interlock.inspector.inspector import LOG, STRICTNESS
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.output import FailMode, Finding, OutputPolicy, OutputStatus, Scanned, ScanTime
from interlock.model.policy.scanner import OutputAction, ScannerKind, ScannerSpec
from interlock.model.policy.verdict import Ruling
from interlock.model.run import Run
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.ports.store import EventFilter, StoredEvent
from interlock.wire.request import RunReport
from soak.simulation.loop import VirtualLoop
from soak.simulation.store import Disk

T = TypeVar("T")
S = OutputStatus
HUNG = "hung"
LATE = 70.0  # seconds of a long scan; only signs of life keep the scheduler from giving it up
_FOUND = (Finding("secrets", "github_token", "$", 0, 1, ""),)
_ACTIONS = (OutputAction.QUARANTINE, OutputAction.REDACT, OutputAction.DENY)
_OUT = (S.CLEAN, S.REDACTED, S.SKIPPED)


def _policy(fail_mode: FailMode, scan: ScanTime) -> Policy:
    output = OutputPolicy(scanners=(ScannerSpec(scanner=ScannerKind.SECRETS),), scan=scan)
    document = PolicyDocument(id="scans", default_decision=Ruling.ALLOW, output=output, output_fail_mode=fail_mode)
    return Policy(document)


SCANNING = {mode: _policy(mode, ScanTime.BEFORE) for mode in FailMode}


def decision_on(name: str) -> OutputAction | None:
    """Return what the scanners decide on a result or a log; None if they hang."""
    number = crc32(name.encode()) % 12
    return None if number == 11 else _ACTIONS[number] if number < len(_ACTIONS) else OutputAction.ALLOW


def redacted(content: bytes) -> bytes:
    value = msgspec.json.decode(content)
    if isinstance(value, list):
        return msgspec.json.encode([*(f"{one}*" for one in value[:1]), *value[1:]])
    return msgspec.json.encode(value | {"redacted": True} if isinstance(value, dict) else "redacted")


class SimulatedPipe(ScanPipe):
    """Scanners that take their time, and while runs are submitted sometimes a long one."""

    def __init__(self, loop: VirtualLoop, rng: Random, scans: "Scans", until: float, is_silent: bool = False) -> None:
        super().__init__(None, ())
        self._loop, self._rng, self._scans, self._until = loop, rng, scans, until
        self.is_ready = not is_silent

    async def scan(self, policy: OutputPolicy, results: Mapping[str, bytes]) -> dict[str, Scanned]:
        is_late = self._loop.time() < self._until and self._rng.random() < 0.05
        await asyncio.sleep(LATE if is_late else self._rng.uniform(0, 1.0))
        self._scans.scanned.update(results)
        return {name: self._scan(name, content) for name, content in results.items()}

    def _scan(self, name: str, content: bytes) -> Scanned:
        decision = decision_on(name)
        if decision is None:
            return Scanned(name, OutputAction.ALLOW, error=HUNG)
        if decision is OutputAction.ALLOW:
            return Scanned(name, decision)
        return Scanned(name, decision, _FOUND, 1, redacted(content) if decision is OutputAction.REDACT else None)


class Scans:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self.mode: FailMode | None = None  # None if nothing is scanned
        self.has_faults = False  # whether scanners may be given up
        self.scanned: set[str] = set()  # names of what scanners have looked at
        self.seen: Counter[OutputStatus] = Counter()  # statuses of ended runs, each time one was written

    def after(self, touched: Iterable[str]) -> None:
        for run_id in touched if self.mode is not None else ():
            if (run := self._disk.runs_by_id.get(run_id)) is not None:
                self._check(run)

    def _check(self, run: Run) -> None:
        status, shown = status_of(run), run.shown_result
        lines = [line.text for line in _now(self._disk.logs(run.id))]
        events = _now(self._disk.events(0, 1000, EventFilter(run_id=run.id))).events
        told = [event.line.text for event in events if isinstance(event, StoredEvent) and event.line is not None]
        self._require(lines == told, f"{run.id} has the log {lines}, its stream has {told}")
        progress = None if run.facets is None else run.facets.progress
        self._require(progress is None or not progress.text, f"{run.id} shows the text of its progress unscanned")
        if run.facets is not None and run.facets.output is not None and run.ended_at is not None:
            self.seen[run.facets.output.status or S.PENDING] += 1
            given_up = "no scanner has answered" in run.facets.output.reason
            self._require(self.has_faults or not given_up, f"{run.id} does not wait for scanners that are at work")
        if shown is None and not lines:
            return
        if run.previous is State.UNDER_WAY:
            # The result of a workflow is made of results that were scanned.
            children = (other for other in self._disk.runs_by_id.values() if other.parent == run.id)
            unscanned = [other.id for other in children if status_of(other) is S.PENDING]
            self._require(not unscanned, f"{run.id} has a result, and {unscanned} are unscanned")
            return
        is_out = run.ended_at is not None and status in _OUT
        self._require(is_out, f"{run.id} ({run.state}, {status}) shows its result or log unscanned")
        self._require(status is not S.SKIPPED or self.mode is FailMode.OPEN, f"{run.id} is unscanned, and comes out")
        if status is not S.SKIPPED:
            self._check_passed(run, shown is not None, bool(lines))

    def _check_passed(self, run: Run, has_result: bool, has_lines: bool) -> None:
        names = [run.id] * has_result + [LOG + run.id] * has_lines
        self._require(self.scanned.issuperset(names), f"{run.id} comes out, and nobody has scanned {names}")
        decisions = [decision_on(name) or OutputAction.ALLOW for name in names]
        strictest = max(decisions, key=STRICTNESS.index)
        held = strictest in (OutputAction.QUARANTINE, OutputAction.DENY)
        self._require(not held, f"{run.id} comes out, the scanners said {strictest}")
        if has_result and decisions[0] is OutputAction.REDACT:
            self._require(b"redacted" in (run.result or b""), f"{run.id} comes out, and is not redacted")

    def told(self, report: RunReport) -> None:
        run = None if self.mode is None or report.result is None else self._disk.found(report.run_id)
        if run is not None and run.previous is not State.UNDER_WAY:
            self._require(status_of(run) in _OUT, f"a client was told the result of {run.id}, {status_of(run)}")

    def pending(self) -> list[Run]:
        """Return the runs that are still to be scanned."""
        return (
            [] if self.mode is None else [run for run in self._disk.runs_by_id.values() if status_of(run) is S.PENDING]
        )

    def check_rest(self) -> None:
        for run in self._disk.runs_by_id.values() if self.mode is not None else ():
            done = run.state in (State.SUCCEEDED, State.OUTPUT_QUARANTINED) and run.previous is not State.UNDER_WAY
            status, has_log = status_of(run), bool(self._disk.lines.get(run.id))
            known = status is not S.PENDING and (status is not None or not (done or has_log))
            self._require(known, f"{run.id} is {run.state}, and its output is {status}")


def status_of(run: Run) -> OutputStatus | None:
    return None if run.facets is None or run.facets.output is None else run.facets.output.status


def _now(call: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the call waits for something")

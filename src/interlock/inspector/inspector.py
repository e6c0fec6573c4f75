"""The inspector: reads new results from the store, has them scanned, and reports to the scheduler.

The store is the queue, and the scheduler keeps the position up to which results are scanned. So a restart leaves out
nothing, and scans again what was not reported. However many results wait, only `AT_ONCE` are in memory.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.client.connection import Connection
from interlock.error import StoreUnavailable
from interlock.inspector.scan_pipe import ScanPipe
from interlock.model.policy.output import Finding, Scanned, ScanTime
from interlock.model.policy.scanner import OutputAction
from interlock.model.state import TERMINAL, State
from interlock.ports.store import Reader, StoredEvent, Unscanned
from interlock.wire.output_request import AskScanPlan, ReportScans, ScanPlan

LOG = "log "  # before the id of a run: its log, not its result
STRICTNESS = (OutputAction.ALLOW, OutputAction.REDACT, OutputAction.QUARANTINE, OutputAction.DENY)


def parts_of(unscanned: Sequence[Unscanned]) -> dict[str, bytes]:
    """Return the results and logs to scan, each under a name. A log is a list of texts: its lines, their levels and
    loggers, then the text of a stream, because a secret may be split over its chunks."""
    parts = {run.run_id: run.result for run in unscanned if run.result is not None}
    logs = {
        LOG + run.run_id: [
            *(line[2] for line in run.lines),
            *run.names,
            *_streams(run, [line[2] for line in run.lines]),
        ]
        for run in unscanned
        if run.lines
    }
    return parts | {name: msgspec.json.encode(texts) for name, texts in logs.items()}


def join_scans(unscanned: Sequence[Unscanned], scans: Mapping[str, Scanned]) -> list[Scanned]:
    """Return one scan of each run: the strictest decision on its parts. A run without output is clean."""
    return [_join(run, scans.get(run.run_id), scans.get(LOG + run.run_id)) for run in unscanned]


def _join(of: Unscanned, result: Scanned | None, log: Scanned | None) -> Scanned:
    result = result or Scanned(of.run_id, OutputAction.ALLOW)
    if log is None:
        return result
    lines, decision = _redacted(of, log)
    findings = (*result.findings, *(_in_log(finding) for finding in log.findings))
    is_stuck = result.decision is OutputAction.REDACT and result.redacted is None
    of_result = OutputAction.QUARANTINE if is_stuck else result.decision
    decision = max(of_result, decision, key=STRICTNESS.index)
    error = result.error or log.error
    found, took = result.found + log.found, result.took + log.took
    return replace(result, decision=decision, findings=findings, found=found, took=took, error=error, lines=lines)


def _redacted(of: Unscanned, log: Scanned) -> tuple[tuple[tuple[int, int, str], ...], OutputAction]:
    """Return the lines that change, and the decision on the log: quarantine if they cannot be redacted."""
    if log.decision is not OutputAction.REDACT:
        return (), log.decision
    texts = [] if log.redacted is None else msgspec.json.decode(log.redacted, type=list[str])
    count = len(of.lines)
    try:
        expected = [*of.names, *_streams(of, texts[:count])]
    except msgspec.DecodeError:  # the redaction of a chunk has left no JSON
        return (), OutputAction.QUARANTINE
    if len(texts) < count or texts[count:] != expected:
        return (), OutputAction.QUARANTINE
    pairs = zip(of.lines, texts, strict=False)
    return tuple((line[0], line[1], text) for line, text in pairs if text != line[2]), OutputAction.REDACT


def _streams(of: Unscanned, texts: Sequence[str]) -> list[str]:
    """Return the texts of the chunks that each attempt has emitted, those below the same keys as one text."""
    chunks, joined = set(of.chunks), dict[tuple[Any, ...], list[str]]()
    for (attempt, number, _), text in zip(of.lines, texts, strict=False):
        if (attempt, number) in chunks:
            for path, part in _texts(msgspec.json.decode(text, type=list[Any]), (attempt,)):
                joined.setdefault(path, []).append(part)
    return ["".join(parts) for parts in joined.values()]


def _texts(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the texts in a JSON value, each with the keys above it."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))


def _in_log(finding: Finding) -> Finding:
    return replace(finding, path="log" + finding.path.removeprefix("$"))


logger = logging.getLogger("interlock.inspector")

PAGE = 1000  # events read at once
AT_ONCE = 8  # runs read and reported at once: with 1 MiB each of result and of log, they fit into one frame
BETWEEN_LOOKS = 0.2  # seconds, if nothing is new
SIGN = 10.0  # seconds between signs of life while scanners work


class Inspector:
    def __init__(self, reader: Reader, connection: Connection, pipe: ScanPipe) -> None:
        self._reader = reader
        self._connection = connection
        self._pipe = pipe
        self._reached = 0  # position up to which nothing is left to do

    async def run(self) -> None:
        """Scan until cancelled. Raise if the scanners cannot be loaded."""
        try:
            while True:
                try:
                    is_new = await self._look()
                except StoreUnavailable as error:
                    logger.warning("%s", error)
                    is_new = False
                if not is_new:
                    await asyncio.sleep(BETWEEN_LOOKS)
        finally:
            await self._pipe.close()

    async def _look(self) -> bool:
        """Scan the results of one page; return whether there was anything new."""
        newest = await self._reader.position()
        if newest <= self._reached:
            return False
        plan = await self._connection.ask(AskScanPlan(0))
        if plan.policy is None:
            # A policy that comes later begins at a later position.
            self._reached = newest
            return False
        page = await self._reader.events(plan.position, PAGE)
        ends = [event for event in page.events if isinstance(event, StoredEvent) and _may_be_unscanned(event)]
        report = ReportScans(0, page.reached, plan.digest, [])
        for first in range(0, len(ends), AT_ONCE):
            some = ends[first : first + AT_ONCE]
            unscanned = await self._reader.unscanned([event.run_id for event in some])
            found = await self._scan(plan, unscanned)
            report = replace(report, found=[*report.found, *found])
            # A run that waits for its success waits no longer than needed; clean results are stored with others.
            if any(result.findings or result.error for result in found) or plan.policy.scan is ScanTime.BEFORE:
                if not await self._report(replace(report, position=some[-1].position)):
                    return True
                report = replace(report, found=[])
        await self._report(report)
        return True

    async def _scan(self, plan: ScanPlan, unscanned: list[Unscanned]) -> list[Scanned]:
        """Scan results and logs, and give the scheduler a sign of life meanwhile."""
        assert plan.policy is not None
        scanning = asyncio.ensure_future(self._pipe.scan(plan.policy, parts_of(unscanned)))
        try:
            while not (await asyncio.wait([scanning], timeout=SIGN))[0]:
                if self._pipe.is_ready:
                    await self._connection.ask(ReportScans(0, plan.position, plan.digest, []))
            return join_scans(unscanned, scanning.result())
        finally:
            if not scanning.done():
                # The answers to come would be taken for those of the next results.
                scanning.cancel()
                await self._pipe.close()

    async def _report(self, report: ReportScans) -> bool:
        """Have a part of a page stored; return False if the policy has changed, and it must be scanned again."""
        self._reached = await self._connection.ask(report)
        return self._reached == report.position


def _may_be_unscanned(event: StoredEvent) -> bool:
    return bool(event.transitions) and event.transitions[-1].after in (State.TERMINATING, *TERMINAL)

"""The log lines that wait with a result: scanned as a list of texts, each on its own, beside the result. The levels and
loggers of the lines follow them in that list, then the text of a stream: a secret may be split over its chunks."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.model.policy.output import Finding, Scanned
from interlock.model.policy.scanner import OutputAction
from interlock.ports.store import Unscanned

LOG = "log "  # before the id of a run: its log, not its result
STRICTNESS = (OutputAction.ALLOW, OutputAction.REDACT, OutputAction.QUARANTINE, OutputAction.DENY)


def parts_of(unscanned: Sequence[Unscanned]) -> dict[str, bytes]:
    """Return the results and logs to scan, each under a name."""
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
    """Return the texts of the chunks that each attempt has emitted, as one text."""
    joined: dict[int, str] = {}
    for (attempt, number, _), text in zip(of.lines, texts, strict=False):
        if (attempt, number) in of.chunks:
            parts = (chunk for chunk in msgspec.json.decode(text, type=list[Any]) if isinstance(chunk, str))
            joined[attempt] = joined.get(attempt, "") + "".join(parts)
    return list(joined.values())


def _in_log(finding: Finding) -> Finding:
    return replace(finding, path="log" + finding.path.removeprefix("$"))

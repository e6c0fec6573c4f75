"""What comes out of an attempt while it executes: progress, log lines, chunks of its stream, checkpoints."""

from typing import Any

import msgspec

from interlock.core import output
from interlock.core.attempts.log_table import Lines, Logs
from interlock.core.attempts.settle import current
from interlock.core.facts import Snapshot
from interlock.core.policy.judge_state import Judging
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.fields.payload import has_deep
from interlock.model.facets import ProgressInfo
from interlock.model.run import Now, Run
from interlock.policy.output import KEY_LINE, redact_line
from interlock.wire.message import CHUNKS, Checkpoint, LogMessage, Progress

REDACTED_CHUNKS = f'["{KEY_LINE}"]'
STREAM_CUT, LOG_FULL = 0, -1  # numbers of lines of the scheduler's own; those of a worker begin with 1


def progress(p: Pass, worker_id: str, message: Progress) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        run = attempt.run
        text = "" if p.state.of(Judging).policy is not None and output.holds_back(p, run) else message.text
        p.state.of(Logs).progress[run.id] = ProgressInfo(message.percent, text)
        p.progressed[run.id] = (run.id, run.job_id, run.tenant, message.percent, text)


def log_line(p: Pass, worker_id: str, message: LogMessage) -> None:
    """Add a line within the limits of a run's log; cut the one that exceeds them, and add a last line that says so."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is None:
        return
    limits, logs = p.state.limits, p.state.of(Logs)
    run_id, number = message.run_id, message.number
    known = logs.lines.get(run_id)
    if known is None or known.attempt != attempt.run.attempt:
        known = logs.lines[run_id] = Lines(attempt.run.attempt)
    has_chunks = message.level == CHUNKS
    if known.has(number) or (has_chunks and not is_list(message.text)):
        return
    lines, size = logs.sizes.get(run_id, (0, 0))
    if lines > limits.log_lines or size > limits.log_bytes:
        logs.dropped += 1
        if has_chunks and not known.is_cut:
            _cut_stream(p, attempt.run, message)
        return
    known.add(number)
    text = _shown_text(p, attempt.run, message, known)
    length = len(text) if text.isascii() else len(text.encode())
    full = lines == limits.log_lines or size + length > limits.log_bytes
    if full:
        logs.dropped += 1
        is_cut_whole = has_chunks or lines == limits.log_lines
        text = "" if is_cut_whole else text.encode()[: limits.log_bytes - size].decode(errors="ignore")
        length = len(text.encode())
    if text or not full:
        p.batch.logs.lines.append((run_id, known.attempt, number, message.at, message.level, text, message.logger))
        lines, size = lines + 1, size + length
    if full:
        text = limits.log_full
        p.batch.logs.lines.append((run_id, known.attempt, LOG_FULL, message.at, "warning", text, ""))
        lines, size = lines + 1, max(size + len(text), limits.log_bytes + 1)
    logs.sizes[run_id] = (lines, size)
    if full and has_chunks:
        _cut_stream(p, attempt.run, message)


def _shown_text(p: Pass, run: Run, message: LogMessage, known: Lines) -> str:
    """Return the text of a line as the output policy lets it be stored; hold it back if the policy says so."""
    text, policy = message.text, p.state.of(Judging).policy
    if policy is not None and policy.output is not None:
        text, known.of_key = redact_line(text, known.of_key)
        if message.level == CHUNKS and not is_list(text):
            text = REDACTED_CHUNKS
    if run.is_held_back or (policy is not None and output.holds_back(p, run)):
        p.batch.logs.held.add(run.id)
    return text


def _cut_stream(p: Pass, run: Run, message: LogMessage) -> None:
    """Add an empty list, which tells readers that the stream is cut."""
    logs = p.state.of(Logs)
    logs.lines[run.id].is_cut = True
    if run.is_held_back:
        p.batch.logs.held.add(run.id)
    p.batch.logs.lines.append((run.id, run.attempt, STREAM_CUT, message.at, CHUNKS, "[]", ""))
    lines, size = logs.sizes[run.id]
    logs.sizes[run.id] = (lines + 1, size)


def is_list(text: str) -> bool:
    """Return whether a text is a list in JSON that every reader can read, as the chunks of a stream are."""
    try:
        chunks = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, RecursionError):
        return False
    return not has_deep(chunks, text.count("[") + text.count("{"))


def checkpoint(p: Pass, worker_id: str, message: Checkpoint) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        p.batch.inputs.checkpoints.append((message.run_id, message.value))
        if not attempt.run.has_checkpoint:
            attempt.run.has_checkpoint = 1
            p.touch(attempt.run)


def forget(p: Pass, ended: list[Run]) -> None:
    """Keep the last progress of runs that have ended, and no more."""
    logs = p.state.of(Logs)
    if not (logs.progress or logs.sizes or logs.lines):
        return
    for run in ended:
        if (progress := logs.progress.pop(run.id, None)) is not None:
            p.set_facet(run, progress=progress)
        logs.sizes.pop(run.id, None)
        logs.lines.pop(run.id, None)


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    logs, full = state.of(Logs), state.limits.log_bytes + 1
    logs.sizes = {
        run_id: (lines, max(size, full) if is_full else size)
        for run_id, (lines, size, is_full) in snapshot.log_sizes.items()
    }
    logs.lines = {run_id: Lines(*mark) for run_id, mark in snapshot.log_marks.items()}

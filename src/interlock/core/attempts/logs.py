"""What comes out of an attempt while it executes: progress, log lines, checkpoints."""

from interlock.core import output
from interlock.core.attempts.log_table import Lines, Logs
from interlock.core.attempts.settle import current
from interlock.core.policy.judging import Judging
from interlock.core.snapshot import Snapshot
from interlock.core.state import SchedulerState
from interlock.core.transition import Pass
from interlock.model.facets import ProgressInfo
from interlock.model.run import Now, Run
from interlock.policy.output import redact_line
from interlock.wire.message import Checkpoint, LogLine, Progress


def progress(p: Pass, worker_id: str, message: Progress) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        run = attempt.run
        text = "" if p.state.of(Judging).policy is not None and output.holds_back(p, run) else message.text
        p.state.of(Logs).progress[run.id] = ProgressInfo(message.percent, text)
        p.progressed[run.id] = (run.id, run.job_id, run.tenant, message.percent, text)


def log_line(p: Pass, worker_id: str, message: LogLine) -> None:
    """Add a line within the limits of a run's log; cut the one that exceeds them, and add a last line that says so.
    Only that line exceeds a limit, so the size alone shows that the log is full, even after a restart."""
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is None:
        return
    state, limits, logs = p.state, p.state.limits, p.state.of(Logs)
    run_id, number, text = message.run_id, message.number, message.text
    known = logs.lines.get(run_id)
    if known is None or known.attempt != attempt.run.attempt:
        known = logs.lines[run_id] = Lines(attempt.run.attempt)
    if known.has(number):
        return
    lines, size = logs.sizes.get(run_id, (0, 0))
    if lines > limits.log_lines or size > limits.log_bytes:
        logs.dropped += 1
        return
    known.add(number)
    level = message.level
    policy = state.of(Judging).policy
    if policy is not None and policy.output is not None:
        text, known.of_key = redact_line(text, known.of_key)
    if attempt.run.is_held_back or (policy is not None and output.holds_back(p, attempt.run)):
        p.batch.logs.held.add(run_id)
    length = len(text) if text.isascii() else len(text.encode())
    full = lines == limits.log_lines or size + length > limits.log_bytes
    if full:
        logs.dropped += 1
        text = "" if lines == limits.log_lines else text.encode()[: limits.log_bytes - size].decode(errors="ignore")
        length = len(text.encode())
    if text or not full:
        p.batch.logs.lines.append((run_id, attempt.run.attempt, number, message.at, level, text, message.logger))
        lines, size, number = lines + 1, size + length, number + 1
    if full:
        text = limits.log_full
        p.batch.logs.lines.append((run_id, attempt.run.attempt, number, message.at, "warning", text, ""))
        lines, size = lines + 1, size + len(text)
    logs.sizes[run_id] = (lines, size)


def checkpoint(p: Pass, worker_id: str, message: Checkpoint) -> None:
    attempt = current(p, worker_id, message.run_id, message.fence)
    if attempt is not None:
        p.batch.inputs.checkpoints.append((message.run_id, message.value))
        if not attempt.run.has_checkpoint:
            attempt.run.has_checkpoint = 1
            p.touch(attempt.run)


def forget(p: Pass, run: Run) -> None:
    """Keep the last progress of a run that has ended, and no more."""
    logs = p.state.of(Logs)
    if logs.progress and (progress := logs.progress.pop(run.id, None)) is not None:
        p.set_facet(run, progress=progress)
    if logs.sizes or logs.lines:
        logs.sizes.pop(run.id, None)
        logs.lines.pop(run.id, None)


def load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    logs = state.of(Logs)
    logs.sizes = dict(snapshot.log_sizes)
    logs.lines = {run_id: Lines(*mark) for run_id, mark in snapshot.log_marks.items()}

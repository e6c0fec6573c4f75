"""The log of the scheduler: the effect of each pass on runs."""

import logging

from interlock.core.decisions import Decisions
from interlock.core.state import SchedulerState
from interlock.fields.safe_text import last_line
from interlock.model.run import Run
from interlock.model.state import State
from interlock.wire.message import Heartbeat

logger = logging.getLogger("interlock.runs")
ERRORS = (State.FAILED, State.TIMEOUT, State.ORPHANED)


def write(decisions: Decisions) -> None:
    """Log committed decisions: transitions as INFO, warnings as WARNING, failures as ERROR."""
    for text in decisions.warnings:
        logger.warning(text)
    for run, violation in decisions.violations:
        logger.warning("run violates %s: %s", violation.constraint, violation.message, extra=_fields(run))
    for text in decisions.problems:
        logger.error(text)
    if logger.isEnabledFor(logging.INFO):
        for run_id, entries in decisions.batch.history:
            run = decisions.changed[run_id]
            for entry in entries:
                fields = _fields(run) | {"state": str(entry.after), "attempt": entry.attempt}
                logger.info("%s → %s: %s", entry.before or "new", entry.after, entry.reason, extra=fields)
    if logger.isEnabledFor(logging.ERROR):
        for run in decisions.ended:
            if run.state in ERRORS:
                logger.error("run ended as %s: %s", run.state, last_line(run.error) or run.reason, extra=_fields(run))


def beat(worker_id: str, message: Heartbeat, state: SchedulerState) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        for held in message.held:
            run = state.runs.get(held.run_id)
            if run is not None:
                logger.debug("heartbeat from %s", worker_id, extra=_fields(run))


def _fields(run: Run) -> dict[str, object]:
    return {
        "run_id": run.id,
        "job_id": run.job_id,
        "scheduled_at": run.scheduled_at,
        "state": str(run.state),
        "attempt": run.attempt,
    }

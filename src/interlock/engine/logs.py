"""What a pass leaves in the log and in the totals."""

import logging

from interlock.core.decisions import Decisions
from interlock.core.state import SchedulerState
from interlock.model.message import Heartbeat
from interlock.model.run import Run
from interlock.model.state import State

logger = logging.getLogger("interlock.runs")
ERRORS = (State.FAILED, State.TIMEOUT, State.ORPHANED)


class Totals:
    """Counts since the start, for whoever watches."""

    def __init__(self) -> None:
        self.submitted = 0
        self.ended: dict[str, int] = {}
        self.by_job: dict[str, dict[str, int]] = {}
        self.recent: list[Run] = []
        self.commits = 0

    def add(self, decisions: Decisions) -> None:
        if decisions.batch:
            self.commits += 1
        self.submitted += len(decisions.batch.created)
        for run in decisions.ended:
            self.ended[run.state] = self.ended.get(run.state, 0) + 1
            job = self.by_job.setdefault(run.job_id, {})
            job[run.state] = job.get(run.state, 0) + 1
        if decisions.ended:
            self.recent = [*self.recent, *decisions.ended[-8:]][-8:]


def write(decisions: Decisions) -> None:
    """Log what was committed: transitions INFO, what went wrong ERROR, what is odd WARNING."""
    for text in decisions.warnings:
        logger.warning(text)
    for text in decisions.problems:
        logger.error(text)
    if logger.isEnabledFor(logging.INFO):
        for run_id, entries in decisions.batch.history:
            run = decisions.touched[run_id]
            for entry in entries:
                fields = _fields(run) | {"state": str(entry.after), "attempt": entry.attempt}
                logger.info("%s → %s: %s", entry.before or "new", entry.after, entry.reason, extra=fields)
    if logger.isEnabledFor(logging.ERROR):
        for run in decisions.ended:
            if run.state in ERRORS:
                text = run.error.strip().splitlines()[-1] if run.error and run.error.strip() else run.reason
                logger.error("run ended as %s: %s", run.state, text, extra=_fields(run))


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

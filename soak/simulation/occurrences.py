"""What must hold of schedules: every time of a job becomes a run, once, and no more of them are live than may be.

Which times a job has is worked out here by itself: from when it was declared, as the store has it, second by second.
"""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor

from interlock.core.decisions import Batch
from interlock.core.timetable.table import ScheduleRow
from interlock.model.run import CATCH_UP, SCHEDULE, Run
from interlock.model.state import GUARDED, TERMINAL, State
from soak.simulation.executor import Execution
from soak.simulation.scenario import MOVED, SCHEDULED
from soak.simulation.store import Disk

WAITS = {State.PRERUN, State.PENDING, *GUARDED}  # has not passed its constraints
Require = Callable[[bool, str], None]

_JOBS = {job.id: job for job in SCHEDULED}
_SCHEDULES = {(job.id, job.schedule.identity): job.schedule for job in (*SCHEDULED, MOVED) if job.schedule is not None}
ALLOWED = ("missed", "its job has another schedule now", "its job was removed")


class Occurrences:
    def __init__(self, disk: Disk, require: Require) -> None:
        self._disk = disk
        self._require = require
        self._rows: dict[str, ScheduleRow] = {}
        self._runs: dict[str, dict[str, Run]] = {}  # job → its occurrences
        self._live: dict[str, set[str]] = {}
        self._earlier: dict[str, set[int]] = {}  # job → times of the schedules that it had before
        self.checked = 0

    def before(self, batch: Batch) -> None:
        """A schedule that ends, or begins anew, is complete up to its cursor."""
        for job_id, row in batch.schedules.items():
            known = self._rows.get(job_id)
            if row is None:
                if known is not None:
                    self._end(self._rows.pop(job_id))
                continue
            if known is not None and known[1:3] != row[1:3]:
                self._end(known)
            elif known is not None:
                # When the clock was set back it goes back too, and it is kept how far it was.
                kept = max(row[3], row[7]) >= known[3]
                self._require(kept, f"the cursor of {row[0]} went from {known[3]} to {row[3]}")
            self._rows[job_id] = row

    def after(self, touched: Iterable[str]) -> None:
        changed: set[str] = set()
        for run_id in touched:
            run = self._disk.runs_by_id.get(run_id)
            if run is not None and run.origin in (SCHEDULE, CATCH_UP):
                self._runs.setdefault(run.job_id, {})[run_id] = run
                live = self._live.setdefault(run.job_id, set())
                if run.state in WAITS or run.state in TERMINAL:
                    live.discard(run_id)
                else:
                    live.add(run_id)
                changed.add(run.job_id)
        for job_id in changed:
            live, most = self._live[job_id], _JOBS[job_id].constraints.max_concurrent_runs or 1
            self._require(len(live) <= most, f"{len(live)} runs of {job_id} are live, {most} may be")

    def check_skipped(self, run: Run, executed: Sequence[Execution]) -> None:
        if not run.reason.startswith("debounced into "):
            self._require(run.origin in (SCHEDULE, CATCH_UP), f"{run.id} is skipped, and no schedule created it")
            self._require(run.reason.startswith(ALLOWED), f"{run.id} is skipped for {run.reason!r}")
        ran = any(not execution.failed_to_start for execution in executed)
        self._require(not ran, f"{run.id} is skipped, and has executed")

    def check_rest(self) -> None:
        for row in self._rows.values():
            self._check_complete(row)

    def _end(self, row: ScheduleRow) -> None:
        self._check_complete(row)
        self._earlier[row[0]] = self._times_of(row[0])

    def _times_of(self, job_id: str) -> set[int]:
        return {int(run.scheduled_at) for run in self._runs.get(job_id, {}).values()}

    def _check_complete(self, row: ScheduleRow) -> None:
        job_id, identity, anchor, cursor, upcoming = row[:5]
        self.checked += 1
        found = self._times_of(job_id)
        # Of a schedule that has just begun, the first time may be that of its cursor.
        wanted = {int(at) for at in _times(job_id, identity, anchor, cursor) if upcoming is None or at < upcoming}
        self._require(
            wanted <= found, f"{job_id} from {anchor} to {cursor} has no runs at {sorted(wanted - found)[:5]}"
        )
        # A scheduler whose clock is behind the one that declared it also runs times before its anchor.
        runs = [run.scheduled_at for run in self._runs.get(job_id, {}).values()]
        since = {int(at) for at in runs if anchor <= at <= cursor} - self._earlier.get(job_id, set())
        self._require(since <= wanted, f"{job_id} from {anchor} to {cursor} also ran at {sorted(since - wanted)[:5]}")


def _times(job_id: str, identity: str, anchor: float, cursor: float) -> list[float]:
    schedule = _SCHEDULES[job_id, identity]
    if schedule.cron is not None:  # every minute
        return [minute * 60.0 for minute in range(floor(anchor / 60) + 1, floor(cursor / 60) + 1)]
    first = anchor + schedule.wait
    if schedule.every is None:
        return [first] if first <= cursor else []
    return [first + place * schedule.every for place in range(max(0, ceil((cursor - first) / schedule.every) + 1))
            if first + place * schedule.every <= cursor + 1e-6]  # fmt: skip

"""What must hold of sessions: order, and never more at once than they allow."""

from collections.abc import Callable, Iterable
from typing import Any

from interlock.core.sessions.session import Session, memo_name, read_memo
from interlock.core.sessions.turns import DROPPED, STALE
from interlock.model.run import Run
from interlock.model.session import effective
from interlock.model.state import ON_WORKER, State
from soak.simulation.store import Disk

PATTERNS: dict[str, dict[str, Any]] = {
    "serial-*": {"debounce": 0.0, "cap": 100},
    "pair-*": {"debounce": 0.0, "cap": 3, "max_concurrent": 2},
    "wide-*": {"debounce": 0.0, "cap": 100, "max_concurrent": 3},
    "slow-*": {"debounce": 0.8},
    "chat-*": {"mode": "interrupt"},
}
DEBOUNCED = "slow-1"
NAMES = ("serial-1", "serial-2", "pair-1", "chat-1", *[DEBOUNCED] * 3, *["wide-1"] * 3)


def has_begun(run: Run) -> bool:
    return run.state in ON_WORKER or (run.state is State.RETRYING and run.attempt > 0)


class Sessions:
    def __init__(self, disk: Disk, require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._require = require
        self._places: dict[str, list[int]] = {}  # run → commits in which it was cleared
        self._commits = 0
        self._cleared: dict[str, dict[str, Run]] = {}  # session → runs that wait for their first attempt, in order
        self.ordered = 0
        self.acted = False  # whether sessions were stopped
        self.throttled = 0

    def after(self, touched: Iterable[str]) -> None:
        self._commits += 1
        runs = [self._disk.runs_by_id[run_id] for run_id in touched]
        of_sessions = [run for run in runs if run.session is not None]
        # Those that ended in this commit made way for those that it dispatched, however it lists them.
        for run in sorted(of_sessions, key=lambda run: run.state is State.DISPATCHED):
            waiting = self._cleared.setdefault(str(run.session), {})
            times = sum(entry.after is State.SCHEDULED for entry in self._disk.entries[run.id])
            known = self._places.setdefault(run.id, [])
            known += [self._commits] * (times - len(known))
            if run.attempt == 0 and run.state is State.SCHEDULED:
                waiting.setdefault(run.id, run)
            elif waiting.pop(run.id, None) is not None and run.state is State.DISPATCHED:
                self._check_order(run, waiting)
                self._check_throttle(run)
        for name in {str(run.session) for run in of_sessions}:
            most = effective(PATTERNS, None, None, None, name).max_concurrent
            live = [run for run in self._disk.runs_by_id.values() if run.session == name]
            begun = [run for run in live if has_begun(run)]
            self._require(len(begun) <= most, f"session {name} has {len(begun)} active runs, it allows {most}")

    def _check_throttle(self, run: Run) -> None:
        """Check that a run is the only one of its session, if that has used much of its window."""
        memo = read_memo(self._disk.memo(memo_name(run.tenant, str(run.session))))
        if Session(run.tenant, str(run.session), memo).is_busy:
            self.throttled += 1
            runs = [one.id for one in self._disk.runs_by_id.values() if one.session == run.session and has_begun(one)]
            self._require(runs == [run.id], f"{run.id} starts beside others of {run.session}, which is busy: {runs}")

    def gives_way(self, run: Run) -> bool:
        """Whether a run was cancelled for a later one, as its session demands, or because its session was stopped."""
        if self.acted and run.session is not None and run.reason.startswith(("stopped", STALE)):
            return True
        if run.reason == DROPPED:
            return run.session is not None and self._was_full(run)
        return str(run.session).startswith("chat-") and run.reason.startswith("interrupted by a later run")

    def _was_full(self, run: Run) -> bool:
        """Whether as many others as its session allows waited when a run was dropped. In the same commit they may have
        proceeded or ended."""
        arrived = (one for one in self._disk.runs_by_id.values() if one.session == run.session)
        others = [one for one in arrived if one is not run and one.session_facet.place]
        waited = [
            other for other in others if other.changed_at == run.changed_at or not (other.ended_at or has_begun(other))
        ]
        return len(waited) >= effective(PATTERNS, None, None, None, str(run.session)).cap

    def _check_order(self, run: Run, waiting: dict[str, Run]) -> None:
        """Check that no run of the session still waits that was cleared in an earlier commit. One that was held keeps
        its place, although it was cleared again. Two that may execute at once can be in lanes of different length."""
        own = self._places[run.id]
        if len(own) == 1 and not str(run.session).startswith(("pair-", "wide-")):
            self.ordered += 1
            earlier = [one for one in waiting if self._places[one][-1] < own[0]]
            self._require(not earlier, f"{run.id} overtakes {', '.join(earlier)} in session {run.session}")

"""What must hold of lanes, rates and limits for each value, whatever is changed at run time and whoever dies."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from interlock.core.decisions import Batch
from interlock.core.lanes.gate import LimitGate
from interlock.core.lanes.lane import AGEING
from interlock.core.state import SchedulerState
from interlock.model.job import ExecutorKind
from interlock.model.lane import LaneMemo, LaneSpec, LaneStatus
from interlock.model.record import Memo
from interlock.model.run import Run
from interlock.model.state import HOLDS_SLOT, State
from soak.simulation.store import Disk

SLACK = 1e-3  # of a start: the store has instants as floats


class Wait(msgspec.Struct):
    """A run that waits in a lane, as the checker counts."""

    older: int  # runs before it, and those that came back to a place before it
    starts: int = 0  # of its lane since


class Lanes:
    def __init__(self, disk: Disk, limits: Mapping[str, int], require: Callable[[bool, str], None]) -> None:
        self._disk = disk
        self._declared = {name: LaneSpec(limit=limit) for name, limit in limits.items()}
        self._require = require
        self.elapsed: dict[float, float] = {}  # wall time that a scheduler has seen → elapsed time
        self.jumped = 0.0  # elapsed time at which the wall clock last jumped: a restart does not see through that
        self._states: dict[str, State] = {}
        self._held: Counter[str] = Counter()
        self._starts: dict[str, list[float]] = {}  # rate → elapsed times of starts, as they were decided
        self._waits: dict[str, dict[str, Wait]] = {}  # lane → runs that wait in it undisturbed
        self.routed = False  # whether not every worker takes every run
        self.rated = self.rated_values = self.limited = self.waited = 0

    def restarted(self) -> None:
        """Forget who waits how long: a start, or one after a failed commit, makes a new order of those that wait."""
        self._waits.clear()

    def values_of(self, name: str) -> tuple[LaneSpec, LaneStatus]:
        stored = self._disk.memo(LaneMemo.PREFIX + name)
        memo = LaneMemo() if stored is None else msgspec.json.decode(stored, type=LaneMemo)
        return memo.spec_over(self._declared.get(name)), memo.status

    def after(self, batch: Batch, touched: Iterable[str]) -> None:
        for name in (id for kind, id in batch.records if kind == Memo.kind):
            lane = name.removeprefix(LaneMemo.PREFIX)
            if lane != name:
                self._starts.pop(f"lane:{lane}", None)
                self._waits.pop(lane, None)
        runs = [self._disk.runs_by_id[run_id] for run_id in touched]
        begun = Counter[str]()
        for run in runs:
            before, self._states[run.id] = self._states.get(run.id), run.state
            holds, held = run.state in HOLDS_SLOT, before in HOLDS_SLOT
            self._held[run.lane] += holds - held
            begun[run.lane] += holds and not held
        for lane in begun:
            spec, status = self.values_of(lane)
            fits = not begun[lane] or (self._held[lane] <= spec.limit and status is LaneStatus.OPEN)
            self._require(
                fits, f"lane {lane} starts a run, holds {self._held[lane]} and is {status}, its limit is {spec.limit}"
            )
        for run_id, entries in batch.history:
            for entry in entries:
                if entry.after is State.DISPATCHED:
                    self._count_start(self._disk.runs_by_id[run_id], self.elapsed[entry.at])
        for run in runs:
            self._check_value(run)
        self._check_waits(batch, runs)

    def _count_start(self, run: Run, elapsed: float) -> None:
        job, (lane, _) = self._disk.job_versions[run.job_version], self.values_of(run.lane)
        rates = [(f"lane:{run.lane}", lane.rate, lane.burst), (f"job:{job.id}", job.rate, job.burst)]
        if job.limit is not None:
            rates.append((f"{job.id} for {job.limit.value_of(run.payload)}", job.limit.rate, job.limit.burst))
            self.rated_values += job.limit.rate is not None
        for name, rate, burst in rates:
            if rate is not None:
                self.count_start(name, rate, burst, elapsed)

    def count_start(self, name: str, rate: float, burst: int, elapsed: float) -> None:
        starts = self._starts.setdefault(name, [])
        starts.append(elapsed)
        self.rated += 1
        for place in range(bisect_left(starts, self.jumped), len(starts)):
            count, seconds = len(starts) - place, elapsed - starts[place]
            fits = count <= burst + seconds * rate + SLACK
            self._require(fits, f"{count} starts within {seconds:.3f}s, {name} has the rate {rate:g}/s, burst {burst}")

    def _check_value(self, run: Run) -> None:
        limit = self._disk.job_versions[run.job_version].limit
        if limit is None or limit.max is None or run.state not in HOLDS_SLOT:
            return
        value = limit.value_of(run.payload)
        others = [one for one in self._disk.runs_by_id.values() if one.job_id == run.job_id and one.state in HOLDS_SLOT]
        count = sum(limit.value_of(other.payload) == value for other in others)
        self.limited += 1
        self._require(count <= limit.max, f"{count} runs of {run.job_id} execute with {value}, {limit.max} may at once")

    # ── who waits how long ──────────────────────────────────────────────────────────────────────────────────────────

    def _check_waits(self, batch: Batch, runs: list[Run]) -> None:
        """Check that a run with n older ones starts within `AGEING` * (n + 1) starts of its lane, restarts, changes of
        the lane and runs that not every worker takes at any time left out."""
        for run in runs:
            waits = self._waits.setdefault(run.lane, {})
            wait = waits.pop(run.id, None) if run.state is not State.SCHEDULED else None
            if run.state in HOLDS_SLOT and wait is not None:
                self.waited += wait.starts > AGEING
        for run_id, entries in batch.history:
            run = self._disk.runs_by_id[run_id]
            waits = self._waits.setdefault(run.lane, {})
            if not self._goes_anywhere(run):
                waits.clear()
            for entry in entries:
                for other, wait in waits.items():
                    wait.older += run.is_step and entry.after is State.SCHEDULED  # its place is that of its workflow
                    wait.starts += entry.after is State.DISPATCHED and other != run_id
                    wait.older += entry.before is State.DISPATCHED and entry.after is State.SCHEDULED
        self._check_bound()
        self._join(batch, runs)

    def _join(self, batch: Batch, runs: list[Run]) -> None:
        """Note the runs that begin to wait. Those of one submit are in its order; all others count as older."""
        places = {row[0]: place for place, row in enumerate(batch.created)}
        for run in runs:
            if run.state is State.SCHEDULED and run.session is None and self._goes_anywhere(run):
                others = [one for one in self._disk.runs_by_id.values() if one.state is State.SCHEDULED]
                older = sum(
                    other.lane == run.lane and places.get(other.id, -1) < places.get(run.id, len(places))
                    for other in others
                )
                self._waits[run.lane].setdefault(run.id, Wait(older))

    def _check_bound(self) -> None:
        for lane, waits in self._waits.items():
            for run_id, wait in waits.items():
                most = AGEING * (wait.older + 1)
                text = f"{run_id} waits in {lane} behind {wait.older}, and {wait.starts} started before it"
                self._require(wait.starts < most, text)

    def _goes_anywhere(self, run: Run) -> bool:
        job = self._disk.job_versions[run.job_version]
        gated = job.rate is not None or job.limit is not None or run.limits.max_concurrent is not None
        return job.executor is not ExecutorKind.PROCESS and not gated and not run.crashes and not self.routed

    def check_rest(self) -> None:
        held = sum(self._held.values())
        self._require(held == 0, f"{held} slots are taken and nothing runs")

    # ── in the memory of the scheduler ──────────────────────────────────────────────────────────────────────────────

    def check_slots(self, state: SchedulerState) -> None:
        """Check that the slots of lanes and limits are taken by those who hold one, and by nobody else."""
        holders = [run for run in state.runs.values() if run.state in HOLDS_SLOT]
        for lane in state.lanes.values():
            same = set(lane.holding) == {run.id for run in holders if run.lane == lane.name}
            self._require(
                same, f"the slots of {lane.name} are not those of the runs that hold one: {sorted(lane.holding)}"
            )
        limited = [run.id for run in holders if run.facets is not None and run.facets.limit_value is not None]
        limited += [run.id for run in holders if run.limits.max_concurrent is not None]
        counted = [holder for gate in state.gates.values() if isinstance(gate, LimitGate) for holder in gate.holders]
        self._require(sorted(counted) == sorted(limited), f"limits count {counted}, and {limited} hold a slot")

"""What becomes of every run, noted as it is stored; and a store that forgets what has ended."""

from collections.abc import Callable, Mapping

from interlock.core.decisions import Batch
from interlock.model.job import Job
from interlock.model.run import Run, Transition
from interlock.model.state import HOLDS_SLOT, TERMINAL, State
from interlock.ports.store import StoredEvent
from interlock.simulation.forecast_model import LANE, PREVIOUS, WORKER, LaneForecast, Plan, RunForecast
from interlock.stores.memory import MemoryStore

AT_ONCE = 0.001
"""seconds: what begins within them has not waited"""

_FIELDS = Run.__struct_fields__
_JOB, _NOMINAL, _LANE = _FIELDS.index("job_id"), _FIELDS.index("scheduled_at"), _FIELDS.index("lane")


class RecordingStore(MemoryStore):
    """Hands on every batch, and keeps nothing of a run that has ended: a forecast may have millions."""

    def __init__(self, note: Callable[[Batch], None]) -> None:
        super().__init__()
        self._note = note

    def apply(self, batch: Batch) -> None:
        super().apply(batch)
        self._note(batch)
        for run_id, transitions in batch.history:
            if transitions[-1].after in TERMINAL:
                self._forget(self.runs_by_id[run_id])
        self._numbered.clear()
        self.letters.clear()

    def _add_event(self, position: int, run_id: str, transitions: list[Transition], line: object) -> None:
        """Nobody reads events here; the last one alone tells how far the positions have come."""
        self._events = [StoredEvent(position, run_id, "", "", [])]


class _Life:
    """A run that has not ended, as far as it has come."""

    __slots__ = ("admitted", "attempts", "beside", "due", "held_by", "job_id", "lane", "nominal", "out")

    def __init__(self, job_id: str, nominal: float, due: float, lane: "_Slots") -> None:
        self.job_id = job_id
        self.nominal = nominal
        self.due = due
        self.lane = lane
        self.admitted: float | None = None
        """when it came before its lane"""
        self.out: float | None = None
        """when it was first handed to a worker"""
        self.held_by = WORKER
        """what it waited for before its lane, if it did"""
        self.attempts = 0
        self.beside = 0
        """how many others of its job were going on as it began"""


class _Slots:
    """A lane: how many of its slots are taken, and how full it has been."""

    def __init__(self, name: str, limit: int, until: float) -> None:
        self.name = name
        self.limit = limit
        self.taken = 0
        self.most = 0
        self.most_at: float | None = None
        self.full = 0.0
        self._until = until
        self._full_since: float | None = None

    def take(self, at: float) -> None:
        self.taken += 1
        if self.taken > self.most and at < self._until:
            self.most, self.most_at = self.taken, at
        if self.taken == self.limit:
            self._full_since = at

    def give_back(self, at: float) -> None:
        self._count_full(at)
        self.taken -= 1

    def _count_full(self, at: float) -> None:
        if self._full_since is not None:
            self.full += max(0.0, min(at, self._until) - self._full_since)
            self._full_since = None

    def forecast(self) -> LaneForecast:
        self._count_full(self._until)
        return LaneForecast(
            name=self.name, limit=self.limit, most=self.most, most_at=self.most_at, full=round(self.full, 3)
        )


class Record:
    """Everything that was stored, put together to runs."""

    def __init__(self, jobs: Mapping[str, Job], plan: Plan) -> None:
        self._until = plan.until
        self._offsets = {job.id: 0.0 if job.schedule is None else job.schedule.offset(job.id) for job in jobs.values()}
        self._lanes = {name: _Slots(name, limit, plan.until) for name, limit in plan.lanes.items()}
        self._live: dict[str, _Life] = {}
        self._going: dict[str, int] = {}
        """job → how many of its runs are going on"""
        self.runs: list[RunForecast] = []

    def note(self, batch: Batch) -> None:
        for row in batch.created:
            job_id, nominal = row[_JOB], row[_NOMINAL]
            self._live[row[0]] = _Life(job_id, nominal, nominal + self._offsets[job_id], self._lanes[row[_LANE]])
        for run_id, transitions in batch.history:
            life = self._live[run_id]
            for entry in transitions:
                self._step(run_id, life, entry)
        # Now that the whole pass is counted: whatever has to wait after it waits for one of these.
        for run_id, transitions in batch.history:
            if transitions[-1].after is State.SCHEDULED and (waiting := self._live[run_id]).out is None:
                waiting.held_by = LANE if waiting.lane.taken >= waiting.lane.limit else WORKER

    def _step(self, run_id: str, life: _Life, entry: Transition) -> None:
        before, after, at = entry.before, entry.after, entry.at
        if before in HOLDS_SLOT and after not in HOLDS_SLOT:
            life.lane.give_back(at)
        elif after in HOLDS_SLOT and before not in HOLDS_SLOT:
            life.lane.take(at)
            life.attempts += 1
            if life.out is None:
                self._begin(life, at)
        if after is State.SCHEDULED and life.admitted is None:
            life.admitted = at
        elif after in TERMINAL:
            del self._live[run_id]
            if life.out is not None:
                self._going[life.job_id] -= 1
            self._add(run_id, life, entry, at)

    def _begin(self, life: _Life, at: float) -> None:
        life.out = at
        life.beside = self._going.get(life.job_id, 0)
        self._going[life.job_id] = life.beside + 1

    def unfinished(self) -> bool:
        """Whether a run that counts has not ended."""
        return any(life.nominal < self._until for life in self._live.values())

    def close(self, last: Mapping[str, Run]) -> None:
        """Add the runs that have not ended, as they are."""
        for run_id, life in list(self._live.items()):
            run = last[run_id]
            self._add(run_id, life, Transition(run.seq, None, run.state, 0.0, run.attempt, run.reason, ""), None)

    def _add(self, run_id: str, life: _Life, entry: Transition, ended: float | None) -> None:
        if life.nominal >= self._until:
            return
        waited, waited_for = _wait(life)
        self.runs.append(
            RunForecast(
                id=run_id,
                job_id=life.job_id,
                nominal_at=life.nominal,
                due_at=round(life.due, 3),
                started_at=None if life.out is None else round(life.out, 3),
                ended_at=None if ended is None else round(ended, 3),
                state=entry.after,
                reason=entry.reason,
                attempts=life.attempts,
                waited=waited,
                waited_for=waited_for,
                beside=life.beside,
            )
        )

    def lanes(self) -> list[LaneForecast]:
        return [lane.forecast() for lane in self._lanes.values() if lane.most]


def _wait(life: _Life) -> tuple[float, str | None]:
    """How long a run that has begun had to wait, and what took the most of it."""
    if life.out is None or life.admitted is None or life.out - life.due < AT_ONCE:
        return 0.0, None
    by_previous = life.admitted - life.due
    return round(life.out - life.due, 3), PREVIOUS if by_previous > life.out - life.admitted else life.held_by

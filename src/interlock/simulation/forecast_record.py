"""The record of a forecast: the life of every run, noted as the scheduler stores it, and its summary."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from math import inf

import msgspec

from interlock.core.decisions import Batch
from interlock.fields.duration import span
from interlock.fields.field import copy_fields
from interlock.model.job import Job
from interlock.model.lane import MAIN
from interlock.model.letter import DeadLetter
from interlock.model.run import Run, Transition
from interlock.model.state import HOLDS_SLOT, TERMINAL, State
from interlock.model.tenant import EVERYBODY, TenantSpec
from interlock.ports.store import StoredEvent
from interlock.simulation import forecast_model as model
from interlock.stores.memory import MemoryStore

AT_ONCE = 0.001  # seconds within which a run starts on time

_FIELDS = Run.__struct_fields__
_JOB, _NOMINAL, _LANE = (_FIELDS.index(name) for name in ("job_id", "scheduled_at", "lane"))


class RecordingStore(MemoryStore):
    """Passes on every batch and drops runs that have ended: a forecast may have millions. For jobs in `remembered` it
    keeps the last run that has begun, which the next run needs."""

    def __init__(self, note: Callable[[Batch], None], remembered: Set[str] = frozenset()) -> None:
        super().__init__()
        self._note = note
        self._remembered = remembered
        self._last: dict[str, Run] = {}

    def apply(self, batch: Batch) -> None:
        super().apply(batch)
        self._note(batch)
        for run_id, transitions in batch.history:
            if transitions[-1].after in TERMINAL:
                run = self.runs_by_id[run_id]
                if run.job_id in self._remembered and run.started_at is not None:
                    self._last[run.job_id] = run
                self._forget(run)
        self._numbered.clear()
        self.drop_records(DeadLetter)

    def previous(self, run_id: str) -> tuple[str, State, bool] | None:
        found, last = super().previous(run_id), self._last.get(self.runs_by_id[run_id].job_id)
        return found or (None if last is None else (last.id, last.state, True))

    def _add_event(self, position: int, run_id: str, transitions: list[Transition], line: object) -> None:
        """Keep only the last event, which marks the position; nobody reads events here."""
        self._events = [StoredEvent(position, run_id, "", "", [])]


class _RunLife(msgspec.Struct):
    """A run that has not ended."""

    job_id: str
    nominal: float
    due: float
    lane: "_Slots"
    admitted: float | None = None  # when it joined the queue of its lane
    out: float | None = None  # when a worker first got it
    held_by: str = model.WORKER  # cause of its wait in that queue
    attempts: int = 0
    beside: int = 0
    is_guarded: bool = False  # whether its constraints were checked

    def wait(self) -> tuple[float, str | None]:
        """Return the seconds it waited to start, and the main cause."""
        if self.out is None or self.admitted is None or self.out - self.due < AT_ONCE:
            return 0.0, None
        by_previous = self.admitted - self.due
        held_before = model.CONSTRAINTS if self.is_guarded else model.PREVIOUS
        return round(self.out - self.due, 3), held_before if by_previous > self.out - self.admitted else self.held_by


class _Slots(msgspec.Struct):
    """The slots of a lane: the number taken, and the time without a free one."""

    name: str
    limit: int
    until: float
    taken: int = 0
    most: int = 0
    most_at: float | None = None
    full: float = 0.0
    full_since: float | None = None

    def take(self, at: float) -> None:
        self.taken += 1
        if self.taken > self.most and at < self.until:
            self.most, self.most_at = self.taken, at
        if self.taken == self.limit:
            self.full_since = at

    def give_back(self, at: float) -> None:
        self._count_full(at)
        self.taken -= 1

    def _count_full(self, at: float) -> None:
        if self.full_since is not None:
            self.full += max(0.0, min(at, self.until) - self.full_since)
            self.full_since = None

    def forecast(self) -> model.LaneForecast:
        self._count_full(self.until)
        return copy_fields(model.LaneForecast, self, full=round(self.full, 3))


class ForecastRecord:
    def __init__(self, jobs: Mapping[str, Job], plan: model.Plan) -> None:
        self._until = plan.until
        self._offsets = {job.id: 0.0 if job.schedule is None else job.schedule.offset(job.id) for job in jobs.values()}
        self._lanes = {name: _Slots(name, spec.limit, plan.until) for name, spec in plan.lanes.items()}
        self._most = (
            plan.tenants.get("default") or plan.tenants.get(EVERYBODY, TenantSpec())
        ).max_running or inf  # the tenant of occurrences
        self._live: dict[str, _RunLife] = {}
        self._running: Counter[str] = Counter()  # job → runs that have started and not ended
        self.runs: list[model.RunForecast] = []

    def note(self, batch: Batch) -> None:
        for row in batch.created:
            job_id, nominal = row[_JOB], row[_NOMINAL]
            self._live[row[0]] = _RunLife(job_id, nominal, nominal + self._offsets[job_id], self._lanes[row[_LANE]])
        for run_id, transitions in batch.history:
            life = self._live[run_id]
            for entry in transitions:
                self._step(run_id, life, entry)
        # Only after the whole pass is it known whether a waiting run lacks a slot or a worker.
        for run_id, transitions in batch.history:
            if transitions[-1].after is State.SCHEDULED and (waiting := self._live[run_id]).out is None:
                of_tenant = (
                    model.TENANT if sum(lane.taken for lane in self._lanes.values()) >= self._most else model.WORKER
                )
                waiting.held_by = model.LANE if waiting.lane.taken >= waiting.lane.limit else of_tenant

    def _step(self, run_id: str, life: _RunLife, entry: Transition) -> None:
        before, after, at = entry.before, entry.after, entry.at
        if before in HOLDS_SLOT and after not in HOLDS_SLOT:
            life.lane.give_back(at)
        elif after in HOLDS_SLOT and before not in HOLDS_SLOT:
            life.lane.take(at)
            life.attempts += 1
            if life.out is None:
                life.out, life.beside = at, self._running[life.job_id]
                self._running[life.job_id] += 1
        if after is State.SCHEDULED and life.admitted is None:
            life.admitted = at
        elif after is State.CONDITION_RUNNING:
            life.is_guarded = True
        elif after in TERMINAL:
            del self._live[run_id]
            self._running[life.job_id] -= life.out is not None
            self._add(run_id, life, after, entry.reason, at)

    def unfinished(self) -> bool:
        """Whether a run due before the end has not ended."""
        return any(life.nominal < self._until for life in self._live.values())

    def close(self, last: Mapping[str, Run]) -> None:
        """Add the runs that have not ended, as they are."""
        for run_id, life in self._live.items():
            self._add(run_id, life, last[run_id].state, last[run_id].reason, None)

    def _add(self, run_id: str, life: _RunLife, state: State, reason: str, ended: float | None) -> None:
        if life.nominal >= self._until:
            return
        waited, waited_for = life.wait()
        run = model.RunForecast(
            id=run_id,
            job_id=life.job_id,
            nominal_at=life.nominal,
            due_at=round(life.due, 3),
            started_at=None if life.out is None else round(life.out, 3),
            ended_at=None if ended is None else round(ended, 3),
            state=state,
            reason=reason,
            attempts=life.attempts,
            waited=waited,
            waited_for=waited_for,
            beside=life.beside,
        )
        self.runs.append(run)

    def lanes(self) -> list[model.LaneForecast]:
        return [lane.forecast() for lane in self._lanes.values() if lane.most]


WAITS = {
    model.CONSTRAINTS: "its constraints",
    model.PREVIOUS: "the previous run",
    model.LANE: "a slot of lane {lane}",
    model.TENANT: "the limit of tenant default",
    model.WORKER: "room on a worker",
}


def summary(jobs: Sequence[Job], plan: model.Plan, record: ForecastRecord) -> model.Forecast:
    runs = sorted(record.runs, key=lambda run: (run.due_at, run.id))
    by_job: defaultdict[str, list[model.RunForecast]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    figures = [_job(job, by_job[job.id], plan) for job in jobs if job.schedule is not None or by_job[job.id]]
    notable = [finding for job in figures for finding in _notable(job, by_job[job.id])]
    return model.Forecast(
        start=plan.start, until=plan.until, jobs=figures, lanes=record.lanes(), notable=notable, runs=runs
    )


def _job(job: Job, runs: Sequence[model.RunForecast], plan: model.Plan) -> model.JobForecast:
    waits = [run for run in runs if run.waited_for is not None]
    longest = max(waits, key=lambda run: run.waited, default=None)
    return model.JobForecast(
        id=job.id,
        schedule="" if job.schedule is None else str(job.schedule),
        lane=next((lane for lane in job.lanes if lane in plan.lanes), MAIN),
        length=plan.lengths[job.id],
        max_concurrent_runs=job.constraints.max_concurrent_runs,
        runs=len(runs),
        states=dict(Counter(str(run.state) for run in runs)),
        missed=sum(run.is_missed for run in runs),
        overlaps=sum(run.beside > 0 for run in runs),
        most_at_once=max((run.beside + 1 for run in runs if run.started_at is not None), default=0),
        waited=len(waits),
        longest_wait=0.0 if longest is None else longest.waited,
        longest_wait_at=None if longest is None else longest.due_at,
        waited_for=dict(Counter(str(run.waited_for) for run in waits)),
        busy=round(sum((run.ended_at or plan.until) - run.started_at for run in runs if run.started_at is not None), 3),
    )


def _notable(job: model.JobForecast, runs: Sequence[model.RunForecast]) -> Iterator[model.Notable]:
    """Yield missed runs by reason, waits by cause, overlaps, and unsuccessful ends by state."""

    def note(what: str, some: Sequence[model.RunForecast], text: str) -> model.Notable:
        share = f"{len(some):,} of {len(runs):,}"
        first, last = some[0].due_at, some[-1].due_at
        return model.Notable(job_id=job.id, what=what, count=len(some), first_at=first, last_at=last, text=share + text)

    for reason in dict.fromkeys(run.reason for run in runs if run.is_missed):
        missed = [run for run in runs if run.is_missed and run.reason == reason]
        what = "missed" if reason.startswith("missed: ") else "skipped"
        yield note(what, missed, f": {reason.removeprefix('missed: ')}")
    for cause, text in WAITS.items():
        if waits := [run for run in runs if run.waited_for == cause]:
            longest = span(max(run.waited for run in waits))
            yield note("waited", waits, f" for {text.format(lane=job.lane)}, at most {longest}")
    if beside := [run for run in runs if run.beside]:
        yield note("overlap", beside, f" started beside another run of the job, at most {job.most_at_once} at once")
    for state in State:
        ended = [run for run in runs if run.state is state]
        if ended and state not in (State.SUCCEEDED, State.SKIPPED):
            unfinished = "" if state in TERMINAL else " when the forecast stopped"
            yield note(str(state), ended, f"{unfinished}: {ended[0].reason}")

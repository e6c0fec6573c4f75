"""One pass of the machine: the state, the clock reading, the decisions as they are gathered.

`move` is the only way a run changes state.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple, replace

from interlock.core.decisions import Answer, Batch, Decisions, Row
from interlock.core.facts import Facts
from interlock.core.schedule_table import ScheduleRow, goes_early
from interlock.core.state import SchedulerState
from interlock.model.effect import Effect as Asked
from interlock.model.error import InvalidTransition
from interlock.model.facets import Facets
from interlock.model.job import Job
from interlock.model.message import Message
from interlock.model.run import UPDATE_AFTER, UPDATES, Now, Run, Transition
from interlock.model.state import EFFECTS, Effect, State

if TYPE_CHECKING:
    from random import Random


# Plain numbers: an operator of an enum is a call, and this is the innermost place there is.
TAKES_SLOT, FREES_SLOT, ENDS, ENTERS = map(int, (Effect.TAKES_SLOT, Effect.FREES_SLOT, Effect.ENDS, Effect.ENTERS))
REWRITES = int(Effect.REWRITES)

_DEFAULTS = Run.__struct_defaults__[Run.PLAIN - len(Run.__struct_fields__) :]
_ROW_OF = {group: attrgetter("id", *columns) for group, columns in UPDATES.items()}


def created_row(run: Run) -> Row:
    """All fields of a run, or only the first where the others have their defaults."""
    row = astuple(run)
    return row[: Run.PLAIN] if row[Run.PLAIN :] == _DEFAULTS else row


def update_row(run: Run, group: str) -> Row:
    row: Row = _ROW_OF[group](run)
    return row


class Pass:
    __slots__ = (
        "adopting", "answered", "answers", "batch", "changed", "crashed", "created", "effects", "elapsed", "ended",
        "entering", "facts", "history", "keys", "lags", "now", "occurrences", "problems", "progressed", "put_jobs",
        "released", "retried", "rewritten", "rng", "schedules", "sends", "state", "warnings",
    )  # fmt: skip

    def __init__(self, state: SchedulerState, now: Now, rng: "Random", facts: Facts) -> None:
        self.state = state
        self.now = now.wall
        self.elapsed = now.elapsed
        self.rng = rng
        self.facts = facts
        self.created: dict[str, Run] = {}
        self.changed: dict[str, Run] = {}
        self.rewritten: set[str] = set()
        """those of the changed whose update writes all fields"""
        self.history: dict[str, list[Transition]] = {}
        self.keys: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.batch = Batch()
        self.sends: dict[str, list[Message]] = {}
        self.answers: list[tuple[str, Answer]] = []
        self.effects: list[Asked] = []
        self.answered: list[tuple[Asked, Any]] = []
        """answers to effects of passes before"""
        self.entering: list[Run] = []
        """runs that have become pending, in order; the entry takes them"""
        self.ended: list[Run] = []
        self.released = 0
        """how many of them the timetable has taken note of"""
        self.retried: list[Run] = []
        self.crashed: list[Run] = []
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.progressed: dict[str, Run] = {}
        self.lags: list[float] = []
        """how late occurrences went on whose time came, in seconds"""
        self.occurrences = 0
        """how many were created"""
        self.schedules: dict[str, ScheduleRow | None] = {}
        """what is kept of schedules from now on, by job; None forgets it"""
        self.put_jobs: dict[str, Job | None] = {}
        """the same for jobs that are defined here alone"""
        self.adopting: set[str] = set()
        """jobs that have changed"""

    def begin(self, run: Run) -> None:
        """Enter a new run into the books, in the state it has."""
        if run.job_version not in self.state.versions:
            job = self.state.versions[run.job_version] = self.state.jobs[run.job_id]
            self.batch.jobs.append(job)
        self.state.runs[run.id] = run
        self.created[run.id] = run
        run.seq = 1
        if run.state is State.PENDING:
            self.entering.append(run)
        self.history[run.id] = [Transition(1, None, run.state, self.now, 0, run.reason, run.actor)]

    def move(self, run: Run, after: State, reason: str, actor: str, at: float | None = None) -> None:
        """Change the state, with the fields of the group in `UPDATE_AFTER`; `touch` a run to change others besides.
        `at` is for what happened before it was heard of."""
        before = run.state
        effect = EFFECTS.get((before, after))
        if effect is None:
            raise InvalidTransition(run.id, before, after)
        now = self.now if at is None else at
        run.previous = before
        run.state = after
        run.reason = reason
        run.actor = actor
        run.changed_at = now
        run.seq = seq = run.seq + 1
        entry = Transition(seq, before, after, now, run.attempt, reason, actor)
        entries = self.history.get(run.id)
        if entries is None:
            self.history[run.id] = [entry]
            self.changed[run.id] = run
        else:
            entries.append(entry)
        if effect:
            self._settle_effect(run, before, effect)

    def _settle_effect(self, run: Run, before: State, effect: int) -> None:
        lane = self.state.lanes[run.lane]
        if effect & TAKES_SLOT:
            lane.holding[run.id] = run
        elif effect & FREES_SLOT:
            del lane.holding[run.id]
        if effect & REWRITES:
            self.rewritten.add(run.id)
        if before is State.SCHEDULED and effect & (ENTERS | ENDS):
            lane.dead += 1
            lane.moved[run.id] = 0
        if effect & ENTERS:
            self.entering.append(run)
        elif effect & ENDS:
            lane.moved.pop(run.id, None)
            run.ended_at = run.changed_at
            run.due_at = None
            self.ended.append(run)
            del self.state.runs[run.id]
            self.state.progress.pop(run.id, None)
            self.state.log_sizes.pop(run.id, None)
            self.state.lines.pop(run.id, None)

    def find(self, run_id: str) -> Run | None:
        """Return a run that is live or has ended in this pass, or one that a command needed and the store has."""
        run = self.state.runs.get(run_id) or self.changed.get(run_id) or self.created.get(run_id)
        return run or self.facts.runs.get(run_id)

    def state_of(self, run_id: str) -> State | None:
        run = self.find(run_id)
        return None if run is None else run.state

    def touch(self, run: Run) -> None:
        """Store all fields of the run, whether its state changes or not."""
        self.changed[run.id] = run
        self.rewritten.add(run.id)

    def set_facet(self, run: Run, **facets: object) -> None:
        """Give the run these facets, or take them away with None."""
        changed = replace(run.facets or Facets(), **facets)
        run.facets = None if changed == Facets() else changed
        self.touch(run)

    def send(self, worker_id: str, message: Message) -> None:
        messages = self.sends.get(worker_id)
        if messages is None:
            self.sends[worker_id] = [message]
        else:
            messages.append(message)

    def _updates(self) -> dict[str, list[Row]]:
        created, rewritten = self.created, self.rewritten
        rows: dict[str, list[Row]] = {group: [] for group in UPDATES}
        for run_id, run in self.changed.items():
            if run_id not in created:
                group = "all" if run_id in rewritten else UPDATE_AFTER[run.state]
                rows[group].append(_ROW_OF[group](run))
        return {group: found for group, found in rows.items() if found}

    def _next_timer(self) -> float:
        when, _, run_id = self.state.timers[0]
        run = self.state.runs.get(run_id)
        return when if run is None or not goes_early(self.state, run) else when - self.state.limits.lead / 2

    def decisions(self) -> Decisions:
        """The pass as values. Rows are copies: what the state does next cannot reach them."""
        batch = self.batch
        created = self.created
        small = self.state.limits.small_payload
        batch.created = [created_row(run) for run in created.values()]
        batch.updated = self._updates()
        batch.history = list(self.history.items())
        batch.schedules = [row for row in self.schedules.values() if row is not None]
        batch.dropped_schedules = [job_id for job_id, row in self.schedules.items() if row is None]
        batch.put_jobs = [job for job in self.put_jobs.values() if job is not None]
        batch.dropped_jobs = [job_id for job_id, job in self.put_jobs.items() if job is None]
        for run in created.values():
            if run.payload is not None and len(run.payload) > small:
                run.payload = None
        timers, heap = self.state.timers, self.state.timetable.heap
        wake_at = self._next_timer() if timers else None
        if heap and not self.state.draining:
            looks_at = heap[0][0] - self.state.limits.prerun
            wake_at = looks_at if wake_at is None or looks_at < wake_at else wake_at
        if self.state.timetable.unsure:
            wake_at = self.now
        return Decisions(
            batch=batch,
            sends=self.sends,
            answers=self.answers,
            touched=created | self.changed,
            ended=self.ended,
            retried=self.retried,
            crashed=self.crashed,
            warnings=self.warnings,
            problems=self.problems,
            progressed=list(self.progressed.values()),
            now=self.now,
            elapsed=self.elapsed,
            lags=self.lags,
            effects=self.effects,
            wake_at=wake_at,
        )

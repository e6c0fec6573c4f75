"""One pass of the machine: the state, a reading of the clock, and the decisions so far.

`move` is the only way a run changes state. The parts hook into it: see `core/part.py`.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.json import encode
from msgspec.structs import astuple, replace

from interlock.core.audit import note as note_audit
from interlock.core.decisions import Decisions, Row
from interlock.core.facts import Facts
from interlock.core.part import is_plain
from interlock.core.state import SchedulerState
from interlock.error import InvalidTransition, RunPruned, UnknownRun
from interlock.model.bulk import ActedOn
from interlock.model.facets import Facets, Note
from interlock.model.guard import ViolationEvent
from interlock.model.job_info import JobEvent
from interlock.model.lane import LaneEvent
from interlock.model.record import Memo, R, Record
from interlock.model.run import UPDATE_AFTER, UPDATES, Run, Transition
from interlock.model.session_info import SessionEvent
from interlock.model.state import PENDING, Consequence, State
from interlock.wire.effect import Effect as Asked
from interlock.wire.message import Message
from interlock.wire.request import ValueAnswer

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")

# Plain numbers: operators of an enum are calls, and this is the innermost loop.
ENDS, ENTERS, REWRITES = map(int, (Consequence.ENDS, Consequence.ENTERS, Consequence.REWRITES))

MOST_NOTES = 50  # latest ones that a run keeps
LONGEST_NOTE = 500  # characters

_DEFAULTS = Run.__struct_defaults__[Run.PLAIN - len(Run.__struct_fields__) :]
UPDATE_ROW = {group: attrgetter("id", *columns) for group, columns in UPDATES.items()}


def created_row(run: Run) -> Row:
    """Return all fields of a run, or only the first ones if the others have their defaults."""
    row = astuple(run)
    return row[: Run.PLAIN] if row[Run.PLAIN :] == _DEFAULTS else row


class Pass(Decisions, kw_only=True):
    """The decisions of a step so far."""

    state: SchedulerState
    rng: "Random"
    facts: Facts
    created: dict[str, Run] = {}
    rewritten: set[str] = set()  # changed runs to store with all fields
    history: dict[str, list[Transition]] = {}
    keys: dict[tuple[str, str], tuple[str, bytes]] = {}
    freed: set[str] = set()  # runs whose keys are free again
    marked: dict[str, Run] = {}  # runs with new facets, live or ended
    answered: list[tuple[Asked, Any]] = []  # answers to effects of earlier passes
    entering: list[Run] = []  # runs that became pending, in order, for the entry
    leaving: list[Run] = []  # runs that have ended, and that the parts do not know of yet
    cleared_because: dict[str, str] = {}  # run → why a stage of the entry let it pass, for the history
    slices: dict[type, Any] = {}  # what a part remembers for this pass alone

    def of(self, kind: type[T]) -> T:
        """Return what a part remembers for this pass, by its type."""
        found: T | None = self.slices.get(kind)
        if found is None:
            found = self.slices[kind] = kind()
        return found

    def begin(self, run: Run) -> None:
        """Add a new run in its current state."""
        if run.job_version not in self.state.versions:
            job = self.state.versions[run.job_version] = self.state.jobs[run.job_id]
            self.batch.jobs.append(job)
        machine = self.state.machine
        for begins in machine.plain_begins if is_plain(run) else machine.begins:
            begins(self, run)
        self.state.runs[run.id] = run
        self.created[run.id] = run
        run.seq, run.fence = 1, self.state.numbers.first_fence
        if run.state is PENDING:
            self.entering.append(run)
        self.history[run.id] = [Transition(1, None, run.state, self.now, 0, run.reason, run.actor)]

    def move(self, run: Run, after: State, reason: str, actor: str = "scheduler", at: float | None = None) -> None:
        """Change the state, now or `at` an earlier time, and store the fields of its group in `UPDATE_AFTER`."""
        before = run.state
        known = self.state.machine.moves.get((before, after))
        if known is None:
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
        consequence, hooks, all_hooks = known
        if all_hooks:
            # As `is_plain` says, without a call: this is the innermost loop.
            if run.facets is not None or run.session is not None or run.origin is not None:
                hooks = all_hooks
            for hook in hooks:
                hook(self, run)
        if not consequence:
            return
        if consequence & REWRITES:
            self.rewritten.add(run.id)
        if consequence & ENTERS:
            self.entering.append(run)
        elif consequence & ENDS:
            run.ended_at = now
            run.due_at = None
            self.ended.append(run)
            self.leaving.append(run)
            del self.state.runs[run.id]

    def enter(self) -> None:
        """Lead every run that became pending through the stages of the entry."""
        entering, self.entering = self.entering, []
        plain, stages = self.state.machine.plain_stages, self.state.machine.stages
        for run in entering:
            if run.state is PENDING:
                for keeps in plain if is_plain(run) else stages:
                    if keeps(self, run):
                        break

    def settle(self) -> None:
        """Report ended runs to the parts, so that runs that waited for them go on."""
        while True:
            leaving, self.leaving = self.leaving, []
            for settle in self.state.machine.settles:
                settle(self, leaving)
            if not self.leaving:
                return

    def go_on(self) -> None:
        """Lead new runs through the entry until nothing follows from them."""
        while self.entering or self.leaving:
            self.enter()
            self.settle()

    def note(self, run: Run, text: str) -> None:
        """Keep a note on a run, which may have ended. It is no transition, so the history stays as it is."""
        notes = (*self.marked.get(run.id, run).notes, Note(self.now, text[:LONGEST_NOTE]))
        self.mark(run, notes=notes[-MOST_NOTES:])

    def mark(self, run: Run, **facets: object) -> None:
        """Give these facets to a run that may have ended: its other fields are written only if they change."""
        marked = self.marked.setdefault(run.id, self.find(run.id) or run)
        marked.facets = replace(marked.facets or Facets(), **facets)
        self.rewritten.add(run.id)

    def find(self, run_id: str) -> Run | None:
        """Return a run that is live, ended in this pass, or came from the store as a fact."""
        run = self.state.runs.get(run_id) or self.changed.get(run_id) or self.created.get(run_id)
        return run or self.facts.runs.get(run_id)

    def asked(self, request: Any) -> Run:
        """Return the run that a request names; for a caller of one tenant, runs of others do not exist."""
        run_id, only = request.run_id, request.only_tenant
        run = self.find(run_id)
        tenant = self.facts.pruned.get(run_id) if run is None else run.tenant
        if tenant is None or only not in (None, tenant):
            raise UnknownRun(run_id)
        if run is None:
            raise RunPruned(run_id)
        return run

    def answer(self, origin: str, request: int, run: Run) -> None:
        """Answer a request that acts on a run."""
        self.answers.append((origin, ValueAnswer(request, ActedOn(id=run.id, state=run.state))))

    def run_of_key(self, key: tuple[str, str]) -> tuple[str, bytes] | None:
        """Return run id and digest of the run that has this key of a tenant."""
        known = self.keys.get(key) or self.facts.keys.get(key)
        return None if known is None or known[0] in self.freed else known

    def memo(self, name: str) -> bytes | None:
        """Return a memo as of now, if it is among the facts or was written in this pass."""
        found = self.record(Memo, name)
        return None if found is None else found.value

    def record(self, kind: type[R], id: str) -> R | None:
        """Return a record as of now, if it is among the facts or was written in this pass."""
        key = kind.kind, id
        found = self.batch.records[key] if key in self.batch.records else self.facts.records.get(key)
        return found if isinstance(found, kind) else None

    def keep(self, record: Record) -> None:
        self.batch.records[record.kind, record.id] = record

    def forget(self, kind: type[Record], id: str) -> None:
        self.batch.records[kind.kind, id] = None

    def keep_memo(self, name: str, value: bytes | None) -> None:
        """Keep a small value that belongs to no run; None deletes it."""
        self.batch.records[Memo.kind, name] = None if value is None else Memo(name, value)

    def state_of(self, run_id: str) -> State | None:
        run = self.find(run_id)
        return None if run is None else run.state

    def touch(self, run: Run) -> None:
        """Store all fields of the run, even if its state does not change."""
        self.changed[run.id] = run
        self.rewritten.add(run.id)

    def set_facet(self, run: Run, **facets: object) -> None:
        """Give the run these facets; None removes one."""
        changed = replace(run.facets or Facets(), **facets)
        run.facets = None if changed == Facets() else changed
        self.touch(run)

    audit = note_audit

    def count(self, counter: str, *labels: str) -> None:
        """Count an event for the metrics; `engine/metrics.py: COUNTERS` names the labels of a counter."""
        self.counts[counter, *labels] += 1

    def announce(self, event: LaneEvent | JobEvent | SessionEvent | ViolationEvent) -> None:
        """Store an event as a row of the services' log, so that it is streamed and kept within the same limits."""
        self.state.numbers.events = number = self.state.numbers.events + 1
        stream = event.stream if isinstance(event, ViolationEvent) else "event"
        self.batch.service_log.append((event.log, number, self.now, stream, encode(event).decode(), None))

    def send(self, worker_id: str, message: Message) -> None:
        messages = self.sends.get(worker_id)
        if messages is None:
            self.sends[worker_id] = [message]
        else:
            messages.append(message)

    def finish(self) -> Decisions:
        """Make the rows of the batch. They are copies, so later changes of the state do not reach them."""
        batch, created, state = self.batch, self.created, self.state
        batch.created = [created_row(run) for run in created.values()]
        updated: dict[str, list[Run]] = {}
        for run_id, run in self.changed.items():
            if run_id not in created:
                group = "all" if run_id in self.rewritten else UPDATE_AFTER[run.state]
                updated.setdefault(group, []).append(run)
        batch.updated = {group: list(map(UPDATE_ROW[group], runs)) for group, runs in updated.items()}
        if marked := [run for run in self.marked.values() if run.id not in self.changed and run.id not in created]:
            batch.updated["facets"] = [UPDATE_ROW["facets"](run) for run in marked]
        batch.history = list(self.history.items())
        if self.freed:
            # A run that began and ended in this pass never has its key.
            batch.keys.taken = [(row[0], None, *row[2:]) if row[2] in self.freed else row for row in batch.keys.taken]
            batch.keys.freed = sorted(self.freed - created.keys())
        for run in created.values():
            if run.payload is not None and len(run.payload) > state.limits.small_payload:
                run.payload = None
        self.changed |= created
        looks = (at for next_look in state.machine.next_looks for at in next_look(self))
        self.wake_at = min(looks, default=None)
        return self

"""One pass of the machine: the state, a reading of the clock, and the decisions so far.

`move` is the only way a run changes state.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.json import encode
from msgspec.structs import astuple, replace

from interlock.core import audit
from interlock.core.decisions import Decisions, Row
from interlock.core.facts import Facts
from interlock.core.schedule_table import goes_early
from interlock.core.state import SchedulerState
from interlock.core.tenant import Tenant
from interlock.error import InvalidTransition
from interlock.fields.payload import LIMIT
from interlock.model.audit import AuditKind
from interlock.model.facets import CollapsedInto, Collected, Facets, Note
from interlock.model.guard import Violation, ViolationEvent
from interlock.model.job_info import JobEvent
from interlock.model.labels import BYPASSED
from interlock.model.lane import LaneEvent
from interlock.model.letter import CODE_OF, LONGEST_ERROR, DeadLetter, LetterCode
from interlock.model.policy.output import OutputRecord, OutputStatus
from interlock.model.record import Memo, R, Record
from interlock.model.run import UPDATE_AFTER, UPDATES, Run, Transition
from interlock.model.session_info import SessionEvent
from interlock.model.state import CONSEQUENCES, HOLDS_SLOT, Consequence, State
from interlock.wire.effect import Effect as Asked
from interlock.wire.message import Message

if TYPE_CHECKING:
    from random import Random

# Plain numbers: operators of an enum are calls, and this is the innermost loop.
TAKES_SLOT, FREES_SLOT, ENDS, ENTERS = map(
    int, (Consequence.TAKES_SLOT, Consequence.FREES_SLOT, Consequence.ENDS, Consequence.ENTERS)
)
REWRITES = int(Consequence.REWRITES)

MOST_COLLECTED = 16 * LIMIT  # bytes of the payloads that a run collects: they go to a worker in one message

MOST_VIOLATIONS = 10  # latest ones that a run keeps
MOST_NOTES = 50  # latest ones that a run keeps
LONGEST_NOTE = 500  # characters

_DEFAULTS = Run.__struct_defaults__[Run.PLAIN - len(Run.__struct_fields__) :]
UPDATE_ROW = {group: attrgetter("id", *columns) for group, columns in UPDATES.items()}


def created_row(run: Run) -> Row:
    """Return all fields of a run, or only the first ones if the others have their defaults."""
    row = astuple(run)
    return row[: Run.PLAIN] if row[Run.PLAIN :] == _DEFAULTS else row


def _seen_by_policy(run: Run) -> tuple[Any, ...]:
    facets = run.facets or Facets()
    return run.job_version, run.submitters, run.lane, run.origin, facets.labels, facets.priority


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
    stepping_back: list[Run] = []  # runs of sessions that are held although their turn has come
    left: int = 0  # number of ended runs that their sessions have noticed
    released: int = 0  # number of ended runs that the timetable has noticed
    freed_places: dict[str, None] = {}  # guarded jobs with a free place since this pass began
    settled: int = 0  # number of ended runs whose guards and actions have noticed
    occurrences: int = 0  # number of created runs
    adopting: set[str] = set()  # jobs that have changed
    judging_cost: int = 0  # of the policy's expressions
    passed: set[str] = set()  # runs that the remote policy let pass in this pass
    passed_because: dict[str, str] = {}  # run → the verdict that let it pass
    payloads: dict[str, tuple[bytes, ...]] = {}  # run to be judged → all its payloads, if only the store has them

    def begin(self, run: Run) -> None:
        """Add a new run in its current state."""
        if run.job_version not in self.state.versions:
            job = self.state.versions[run.job_version] = self.state.jobs[run.job_id]
            self.batch.jobs.append(job)
        limit = self.state.versions[run.job_version].limit
        if limit is not None:
            run.facets = replace(run.facets or Facets(), limit_value=limit.value_of(run.payload))
        if run.session is not None:
            self.state.open_session(run.tenant, run.session, self.memo).live += 1
        if self.state.tenants and (tenant := self.state.tenant(run.tenant)) is not None:
            self._begin_in_tenant(run, tenant)
        self.state.runs[run.id] = run
        self.created[run.id] = run
        run.seq, run.fence = 1, self.state.first_fence
        if run.state is State.PENDING:
            self.entering.append(run)
        self.history[run.id] = [Transition(1, None, run.state, self.now, 0, run.reason, run.actor)]

    def _begin_in_tenant(self, run: Run, tenant: Tenant) -> None:
        self.state.tenants[run.tenant] = tenant
        tenant.live.add(run.id)
        if tenant.spec.labels:
            run.facets = replace(run.facets or Facets(), labels={**tenant.spec.labels, **run.labels})

    def move(self, run: Run, after: State, reason: str, actor: str = "scheduler", at: float | None = None) -> None:
        """Change the state, now or `at` an earlier time, and store the fields of its group in `UPDATE_AFTER`."""
        before = run.state
        effect = CONSEQUENCES.get((before, after))
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
        if effect & TAKES_SLOT:
            self.state.hold_slot(run)
        elif effect & FREES_SLOT:
            self.state.free_slot(run)
        if effect & REWRITES:
            self.rewritten.add(run.id)
            self._write_letter(run)
        if before is State.SCHEDULED and effect & (ENTERS | ENDS):
            self._leave_queue(run, effect)
        if before is State.APPROVAL_REQUIRED:
            self.state.awaiting_approval.pop(run.id, None)
        elif self.state.deferred_by_policy:
            self.state.deferred_by_policy.pop(run.id, None)
        if effect & ENTERS:
            self.entering.append(run)
        elif effect & ENDS:
            self._end(run)

    def _leave_queue(self, run: Run, effect: int) -> None:
        if effect & ENTERS and run.facets is not None and run.guarded.cleared:
            self._give_up_place(run)
        if self.state.waits_in_session(run):
            run.due_at = None  # the end of its time to collect others, for which a pending run does not wait
        else:
            self.state.mark_startable(run.lane).remove(self.state.line_key(run), run)

    def _write_letter(self, run: Run, code: LetterCode | None = None) -> None:
        """Write the dead letter of a run that has ended, unless its end needs none."""
        code = code or CODE_OF.get(run.state)
        if code is not None:
            error = (run.error or run.reason)[:LONGEST_ERROR]
            self.keep(DeadLetter(run.id, self.now, code, error, run.job_id, run.tenant))

    def note(self, run: Run, text: str) -> None:
        """Keep a note on a run, which may have ended. It is no transition, so the history stays as it is."""
        notes = (*self.marked.get(run.id, run).notes, Note(self.now, text[:LONGEST_NOTE]))
        self.mark(run, notes=notes[-MOST_NOTES:])

    def mark(self, run: Run, **facets: object) -> None:
        """Give these facets to a run that may have ended: its other fields are written only if they change."""
        marked = self.marked.setdefault(run.id, self.find(run.id) or run)
        marked.facets = replace(marked.facets or Facets(), **facets)
        self.rewritten.add(run.id)

    def give_up(self, run: Run, code: str, text: str) -> None:
        """End a run that could not be done; its dead letter has this code."""
        run.error = text
        self.move(run, State.FAILED, f"{code}: {text}")
        self._write_letter(run, LetterCode(code))

    def _give_up_place(self, run: Run) -> None:
        """Let others of its job pass a run that is held, or that is judged again and has never begun."""
        if run.is_held or not run.may_have_begun:
            self.state.guards[run.job_id].drop(run)
            self.freed_places[run.job_id] = None
            self.set_facet(run, constraints=replace(run.guarded, cleared=False))

    def _end(self, run: Run) -> None:
        state = self.state
        state.lanes[run.lane].moved.pop(run.id, None)
        if run.session is not None:
            state.sessions[run.tenant, run.session].waiting.pop(run.id, None)
        run.ended_at = run.changed_at
        run.due_at = None
        self.ended.append(run)
        if run.facets is not None and run.facets.output is not None and run.state is not State.OUTPUT_QUARANTINED:
            self._let_out(run)
        if run.facets is not None and run.facets.unique is not None:
            self.freed.add(run.id)
        if state.tenants and (tenant := state.tenants.get(run.tenant)) is not None:
            tenant.live.discard(run.id)
            if not tenant.live and not tenant.is_declared:
                del state.tenants[run.tenant]
        del state.runs[run.id]
        if state.progress and (progress := state.progress.pop(run.id, None)) is not None:
            self.set_facet(run, progress=progress)
        state.log_sizes.pop(run.id, None)
        state.lines.pop(run.id, None)

    def _let_out(self, run: Run) -> None:
        """Show the log of a run whose output was held back, and has passed. A run that did not succeed has no result,
        and its log waits for a scan of its own."""
        record, lines = run.facets and run.facets.output, self.state.log_sizes.get(run.id, (0, 0))[0]
        assert isinstance(record, OutputRecord)
        is_pending = record.status is OutputStatus.PENDING
        if is_pending and lines:
            self.set_facet(run, output=replace(record, lines=lines))
            return
        if lines:
            self.batch.published.append((run.id, lines))
        if is_pending:
            self.set_facet(run, output=None)

    def find(self, run_id: str) -> Run | None:
        """Return a run that is live, ended in this pass, or came from the store as a fact."""
        run = self.state.runs.get(run_id) or self.changed.get(run_id) or self.created.get(run_id)
        return run or self.facts.runs.get(run_id)

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

    def violate(self, run: Run, constraint: str, message: str, count: int = 1) -> None:
        """Record that a run violates a constraint, or that its action failed, which does not count."""
        found = Violation(constraint, message, self.now)
        guarded = run.guarded
        kept = (*guarded.violations, found)[-MOST_VIOLATIONS:]
        self.set_facet(run, constraints=replace(guarded, violations=kept, violated=guarded.violated + count))
        self.violations.append((run, found))
        self.announce(
            ViolationEvent(
                run_id=run.id, job_id=run.job_id, tenant=run.tenant, at=self.now, constraint=constraint, message=message
            )
        )

    def audit(
        self,
        kind: AuditKind,
        actor: str,
        tenant: str,
        subject: str,
        repeats: tuple[str, ...] | None = None,
        count: int = 1,
        **detail: Any,
    ) -> None:
        """Add an entry to the audit, with small values that hold no secrets. `repeats` is the key of a refusal that
        may come often: one entry, and then the sum of each minute."""
        audit.note(self, kind, actor, tenant, subject, repeats, count, detail)

    def announce(self, event: LaneEvent | JobEvent | SessionEvent | ViolationEvent) -> None:
        """Store an event as a row of the services' log, so that it is streamed and kept within the same limits."""
        self.state.events += 1
        stream = event.stream if isinstance(event, ViolationEvent) else "event"
        self.batch.service_log.append((event.log, self.state.events, self.now, stream, encode(event).decode(), None))

    def collapse(self, into: Run, run: Run) -> bool:
        """End a scheduled run as skipped, and give its payloads to another that waits. Change nothing and return False
        if that one has been dispatched, is of another job, is another case for the policy, or has no room for them."""
        own = Collected(1, LIMIT if run.payload is None else len(run.payload))
        known = [one.facets.collected for one in (into, run) if one.facets is not None]
        parts = [own, *(one for one in known if one is not None)]
        total = Collected(sum(one.payloads for one in parts), sum(one.bytes for one in parts))
        if into.state in HOLDS_SLOT or into.job_id != run.job_id or total.bytes > MOST_COLLECTED:
            return False
        if self.state.is_judged and not self._are_alike(into, run):
            return False
        self.move(run, State.SKIPPED, f"debounced into {into.id}")
        self.set_facet(run, collapsed_into=CollapsedInto(into.id))
        value = None if run.facets is None else run.facets.limit_value  # of the last payload, as the arguments
        self.set_facet(into, collected=total, limit_value=value)
        self.batch.copied.append((into.id, run.id, True))
        return True

    def _are_alike(self, into: Run, run: Run) -> bool:
        """Return whether a policy cannot tell two runs apart but by their payloads, and allows both without conditions.
        A run that passed without a verdict is not allowed."""
        if into.judged is not None or run.judged is not None or BYPASSED in into.labels:
            return False
        return _seen_by_policy(into) == _seen_by_policy(run)

    def let_others_pass(self, run: Run) -> None:
        """Let others of its session proceed past a run that has to wait and has not begun."""
        if run.session is not None and not run.may_have_begun:
            self.stepping_back.append(run)

    def send(self, worker_id: str, message: Message) -> None:
        messages = self.sends.get(worker_id)
        if messages is None:
            self.sends[worker_id] = [message]
        else:
            messages.append(message)

    def finish(self) -> Decisions:
        """Make the rows of the batch: copies that later changes of the state do not reach."""
        batch, created, state = self.batch, self.created, self.state
        batch.created = [created_row(run) for run in created.values()]
        for run_id, run in self.changed.items():
            if run_id not in created:
                group = "all" if run_id in self.rewritten else UPDATE_AFTER[run.state]
                batch.updated.setdefault(group, []).append(UPDATE_ROW[group](run))
        if marked := [run for run in self.marked.values() if run.id not in self.changed and run.id not in created]:
            batch.updated["facets"] = [UPDATE_ROW["facets"](run) for run in marked]
        batch.history = list(self.history.items())
        if self.freed:
            # A run that began and ended in this pass never has its key.
            batch.keys = [(row[0], None, *row[2:]) if row[2] in self.freed else row for row in batch.keys]
            batch.freed_keys = sorted(self.freed - created.keys())
        for run in created.values():
            if run.payload is not None and len(run.payload) > state.limits.small_payload:
                run.payload = None
        self.changed |= created
        self.wake_at = self._next_look()
        return self

    def _next_look(self) -> float | None:
        state, found = self.state, []
        if state.timetable.unsure:
            return self.now
        if state.timers:
            when, _, run_id = state.timers[0]
            run = state.runs.get(run_id)
            found.append(when if run is None or not goes_early(state, run) else when - state.limits.lead / 2)
        if state.timetable.heap and not state.draining:
            found.append(state.timetable.heap[0][0] - state.limits.prerun)
        return min(found, default=None)

"""What must hold whatever is killed, when, and how often (REC-6), checked on every change of what is durable.

The checker stands outside: it sees the disk, what is sent, and what executes, and believes nothing the scheduler says.
"""

from collections.abc import Mapping

import msgspec

from interlock.core.decisions import Batch
from interlock.engine.ownership import LEADER
from interlock.fields.duration import checked
from interlock.model.bulk import BulkRequest
from interlock.model.failure import Outcome, read_outcome
from interlock.model.job import ExecutorKind, Job
from interlock.model.letter import CODE_OF, DeadLetter
from interlock.model.run import Run, Transition
from interlock.model.state import ALLOWED, ON_WORKER, TERMINAL, State
from interlock.ports.leases import Lease
from interlock.wire import message as m
from interlock.wire import request as r
from interlock.wire.run_request import CancelRun
from soak.simulation.bulks import Bulks
from soak.simulation.executor import Execution, Ledger, Mark
from soak.simulation.guards import Guards
from soak.simulation.history import replay
from soak.simulation.lanes import Lanes
from soak.simulation.lineages import Lineages
from soak.simulation.loop import VirtualLoop
from soak.simulation.occurrences import Occurrences
from soak.simulation.policies import Policies
from soak.simulation.reruns import Reruns
from soak.simulation.routes import Routes
from soak.simulation.scans import Scans
from soak.simulation.sessions import Sessions
from soak.simulation.spans import Spans
from soak.simulation.store import Disk
from soak.simulation.trace import Trace
from soak.simulation.workflows import Workflows

_CONSTANT = Run.__struct_fields__[: Run.CONSTANT]


class Violation(Exception):
    """Something that must always hold did not."""


def _is_refused(job: Job, last: Execution) -> bool:
    """Whether the job does not retry what the attempt failed with."""
    types = [] if last.failure is None else last.failure.types
    asked = last.failure is not None and last.failure.retry_after is not None
    fits = not job.retry.on or any(one in job.retry.on for one in types)
    return not asked and (not fits or any(one in job.retry.never for one in types))


def _most_retries(job: Job, run: Run) -> int:
    allowed = run.limits.max_retries
    return job.max_retries if allowed is None else min(allowed, job.max_retries)


def _longest(job: Job, run: Run) -> float | None:
    """The longest run time, by job and verdict."""
    limits = [one for one in (job.max_runtime, run.limits.max_runtime) if one is not None]
    return min(map(checked, limits), default=None)


class Invariants(Ledger):
    def __init__(self, disk: Disk, lanes: Mapping[str, int], loop: VirtualLoop, trace: Trace) -> None:
        super().__init__()
        self.disk = disk
        self.acknowledged: dict[str, None] = {}
        self.cancels: dict[str, None] = {}  # runs that a client asked to be cancelled
        self.checks = 0
        self._loop = loop
        self._trace = trace
        self._seen: dict[str, Run] = {}  # every run as it was after the last commit that touched it
        self._histories: dict[str, list[Transition]] = {}
        self._fences: dict[tuple[str, int], Execution] = {}
        self._attempts: dict[tuple[str, int], None] = {}
        self._sent: dict[tuple[str, int], None] = {}
        self._executing: dict[tuple[str, int], Execution] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self.occurrences = Occurrences(disk, self.check)
        self.bulks = Bulks(disk, self.check)
        self.reruns = Reruns(disk, self.check)
        self.sessions = Sessions(disk, self.check)
        self.lanes = Lanes(disk, lanes, self.check)
        self.spans = Spans(loop, self.check)
        self.guards = Guards(disk, self.check)
        self.lineages = Lineages(disk, self.check)
        self.policies = Policies(disk, self.lanes, self.check)
        self.routes = Routes(disk, self.lanes, self.check)
        self.scans = Scans(disk, self.check)
        self.workflows = Workflows(disk, self.lanes, self.check)
        self._leader = ""
        self.led: dict[str, bool] = {}  # schedulers that have led in a cluster, and whether another followed
        self._writers: dict[int, str] = {}  # epoch → the token that it was written under
        self.lost: set[str] = set()  # runs that the store had, and a replica of it had not
        self.reverted: set[str] = set()  # runs that were further in the store than in its replica
        self.is_synchronous = False  # whether a replica has all that is confirmed
        self.has_clocks = False  # whether each scheduler has its own
        self.workers_are_well = False  # whether nothing happens to them and their links but by schedulers
        disk.before_commit = self._fenced
        disk.before_apply = self._before
        disk.after_apply = self._after
        disk.on_load = self._loaded
        disk.after_prune = lambda lease: self.check(disk.has_lease(lease), f"{lease.holder} prunes, its lease is over")

        disk.after_take = self._taken

    def _taken(self, before: Lease | None, after: Lease) -> None:
        is_free = before is None or before.token in ("", after.token) or before.ends_at <= after.granted_at
        self.check(is_free, f"{after.holder} takes a lease that has not ended")
        for holder in self.led:
            self.led[holder] |= holder != after.holder
        self.check(not self.led.get(after.holder), f"{after.holder} leads again, and another has led since")

    def go_back(self, lost: set[str], reverted: set[str], led: dict[str, bool]) -> None:
        """Take a replica for the store: forget what it does not have, but not what was sent and what executes."""
        self.lost |= lost
        self.reverted |= reverted
        for run_id in lost & self.acknowledged.keys():
            del self.acknowledged[run_id]
        for holder in self.led:
            self.led[holder] = led.get(holder, False)
        for execution in [one for one in self.executions if self._is_of_lost_time(one.run_id, one.fence)]:
            self.executions.remove(execution)
            self._attempts.pop((execution.run_id, execution.attempt), None)
        self.lanes.jumped = self._loop.time()
        self.lanes.restarted()
        self.spans.scheduler_starts()

    def _is_of_lost_time(self, run_id: str, fence: int) -> bool:
        run = self.disk.found(run_id)
        return (run is None and run_id in self.lost) or (
            run is not None and run_id in self.lost | self.reverted and fence > run.fence
        )

    def _fenced(self, lease: Lease) -> None:
        same = self._writers.setdefault(lease.epoch, lease.token) == lease.token
        self.check(same, f"{lease.holder} writes under epoch {lease.epoch}, and so did another")

    def _loaded(self) -> None:
        self.lanes.restarted()
        lease = self.disk.leases.get(LEADER)
        if lease is not None and lease.holder != self._leader:
            # Who takes over knows the spans of the leader before it by the wall clock alone.
            self._leader = lease.holder
            self.spans.scheduler_starts()
            if self.has_clocks:
                self.lanes.jumped = self._loop.time()
        self.policies.loaded = self._loop.time()

    def fail(self, text: str) -> None:
        self._trace.add(f"VIOLATED: {text}")
        self._loop.halt(Violation(text))

    def check(self, holds: bool, text: str) -> None:
        if not holds:
            self.fail(text)

    # ── after every commit ──────────────────────────────────────────────────────────────────────────────────────────

    def _before(self, batch: Batch) -> None:
        self.occurrences.before(batch)
        self.bulks.before(batch)
        self.reruns.before(batch)
        self.lineages.before(batch)
        self.workflows.before(batch)
        for row in batch.created:
            self.check(self.disk.found(row[0]) is None, f"run {row[0]} is created a second time")

    def _after(self, batch: Batch) -> None:
        self.checks += 1
        touched = dict.fromkeys([row[0] for row in batch.created])
        for row in (row for rows in batch.updated.values() for row in rows):
            # An ended run may be pruned after it was read, to be retried or because its scan is over.
            pruned = None if row[0] in self.disk.runs_by_id else self.disk.pruned.get(row[0])
            if pruned is None or pruned.ended_at is None:
                touched[row[0]] = None
        touched |= dict.fromkeys(run_id for run_id, _ in batch.history)
        for run_id, entries in batch.history:
            for entry in entries:
                self._trace.add(f"{run_id[-12:]} #{entry.seq} {entry.before} → {entry.after}: {entry.reason}")
        for run_id in touched:
            run = self.disk.runs_by_id.get(run_id)
            if run is None:
                self.fail(f"run {run_id} is written to and does not exist")
            else:
                self._check_history(run, self.disk.entries.get(run_id, []))
                self._check_change(self._seen.get(run_id), run)
                last, execution = self._histories[run_id][-1], self._fences.get((run_id, run.fence))
                if run.state is State.RETRYING and last.before is State.TERMINATING and execution is not None:
                    self.check(not _is_refused(self._job(run), execution), f"{run_id} is retried against its rules")
                self.spans.stored(run, self._job(run), last, execution)
                self._seen[run_id] = msgspec.structs.replace(run)
        self.lanes.after(batch, touched)
        self.occurrences.after(touched)
        self.bulks.after(batch)
        self.reruns.after(batch, touched)
        self.sessions.after(touched)
        self.guards.after(batch, touched)
        self.lineages.after(batch)
        self.policies.after(batch)
        self.routes.after(batch)
        self.workflows.after(batch, touched)
        self.scans.after(touched | dict.fromkeys(line[0] for line in batch.logs.lines))
        self._check_keys(batch)
        self._check_letters(batch)

    def _check_history(self, run: Run, history: list[Transition]) -> None:
        try:
            state = replay(history)
        except ValueError as error:
            self.fail(f"the history of {run.id} does not join: {error}")
            return
        self.check(state is run.state, f"the history of {run.id} ends in {state}, the run is {run.state}")
        self.check(run.seq == len(history), f"run {run.id} is at {run.seq}, its history has {len(history)} entries")
        before = self._histories.get(run.id, [])
        self.check(history[: len(before)] == before, f"the history of {run.id} was rewritten")
        held = run.facets is not None and run.facets.hold is not None
        for entry in history[len(before) :]:
            self.check(not held or entry.after is not State.DISPATCHED, f"{run.id} is held and was dispatched")
            is_silent = ": no heartbeat from" in entry.reason
            self.check(not (is_silent and self.workers_are_well), f"{run.id}: {entry.reason}, and its worker is well")
            allowed = entry.before is None or entry.after in ALLOWED[entry.before]
            self.check(allowed, f"run {run.id} went from {entry.before} to {entry.after}")
        self._histories[run.id] = list(history)

    def _check_change(self, before: Run | None, run: Run) -> None:
        if before is not None:
            # A retry of an ended run is noted in its facets, and changes nothing else.
            same = before.state in TERMINAL and msgspec.structs.replace(run, facets=before.facets) == before
            live = before.state not in TERMINAL
            self.check(live or same, f"run {run.id} had ended as {before.state} and was written to")
            self.check(run.fence >= before.fence, f"the fence of {run.id} went from {before.fence} to {run.fence}")
            same = all(getattr(run, name) == getattr(before, name) for name in _CONSTANT)
            self.check(same, f"a constant field of {run.id} was changed")
        ended = run.state in TERMINAL
        self.check(ended == (run.ended_at is not None), f"run {run.id} is {run.state} with end {run.ended_at}")
        done = run.state in (State.TERMINATING, State.SUCCEEDED, State.OUTPUT_QUARANTINED)
        # A workflow whose success is decided keeps its result while its last steps stop.
        done = done or (run.closing is not None and run.closing.state is State.SUCCEEDED)
        self.check(run.result is None or done, f"{run.id}: a result, no success")
        if ended and (before is None or before.state is not run.state):
            self._check_end(run)

    def _check_keys(self, batch: Batch) -> None:
        for row in batch.created:
            run = self.disk.runs_by_id[row[0]]
            if run.idempotency_key is not None and (run.facets is None or run.facets.unique is None):
                key = (run.tenant, run.idempotency_key)
                first = self._keys.setdefault(key, run.id)
                self.check(first == run.id, f"key {key} has the runs {first} and {run.id}")
                known = self.disk.keys.get(key)
                if run.is_step:
                    continue  # a compensation shows its key to whoever it calls; nobody submits it
                self.check(known is not None and known[0] == run.id, f"key {key} of {run.id} leads to {known}")

    def _check_letters(self, batch: Batch) -> None:
        for letter in batch.of(DeadLetter):
            run = self.disk.runs_by_id[letter.id]
            fits = run.state is State.FAILED or CODE_OF.get(run.state) is letter.code
            self.check(fits, f"a dead letter {letter.code} for {run.id}, which is {run.state}")

    # ── when a run ends ─────────────────────────────────────────────────────────────────────────────────────────────

    def _check_end(self, run: Run) -> None:
        """The end a run came to must be one that something outside explains."""
        has_letter = self.disk.get_record(DeadLetter, run.id) is not None
        self.check(
            has_letter == (run.state in CODE_OF and (not run.is_step or run.is_compensation)),
            f"{run.id} is {run.state}, and has a letter: {has_letter}",
        )
        job = self._job(run)
        history = self._histories[run.id]
        last = self._fences.get((run.id, run.fence))
        executed = [execution for execution in self.executions if execution.run_id == run.id]
        if (
            self.guards.explains_end(run)
            or self.workflows.explains_end(run)
            or (run.state is State.FAILED and self.routes.explains_end(run))
        ):
            return
        if run.state is State.SUCCEEDED or (run.state is State.OUTPUT_QUARANTINED and self.scans.mode is not None):
            self._check_mark(run, run.result)
            how = "" if last is None else last.how
            self.check(read_outcome(how) is Outcome.SUCCEEDED, f"{run.id} succeeded, its attempt {how or 'never ran'}")
        elif run.state is State.FAILED:
            self._check_mark(run, (run.error or "").encode())
            fatal = last is not None and last.how == Outcome.FAILED_FATAL
            spent = run.failures > _most_retries(job, run) or (last is not None and _is_refused(job, last))
            self.check(fatal or spent, f"{run.id} failed for good after {run.failures} failures, fatal: {fatal}")
        elif run.state is State.CANCELLED:
            gave_up = last is not None and last.how == Outcome.CANCELLED
            asked = run.id in self.cancels or self.bulks.asked_for(run) or self.sessions.gives_way(run)
            asked = asked or self.lineages.asked_for(run)
            self.check(asked or gave_up, f"{run.id} is cancelled, and nobody asked for it")
        elif run.state is State.TIMEOUT:
            is_start = self._is_late_start(run, run.reason)
            limited = run.deadline_at is not None or _longest(job, run) is not None or is_start
            self.check(limited, f"{run.id} ran into a limit that it does not have")
            if not is_start and run.deadline_at is None and not job.max_runtime_per_attempt:
                self.spans.timed_out(_longest(job, run), executed)
        elif run.state is State.ORPHANED:
            most = max(1, job.max_crashes)
            self.check(run.crashes == most, f"{run.id} is orphaned after {run.crashes} of {most} crashes")
        elif run.state is State.SKIPPED:
            self.occurrences.check_skipped(run, executed)
        elif run.state is not State.DENIED or not self.policies.is_on:
            self.fail(f"{run.id} ended as {run.state}, which nothing here can cause")
        self._check_counts(run, job, history, executed)

    def _is_late_start(self, run: Run, reason: str) -> bool:
        """Whether the run is stopped because it takes too long to start; then that must have taken so long."""
        is_late = reason.startswith("start_timeout")
        if is_late and (execution := self._fences.get((run.id, run.fence))) is not None:
            self.spans.start_timed_out(self._job(run), execution)
        return is_late

    def _check_mark(self, run: Run, data: bytes | None) -> None:
        """A result or an error must come from the attempt that had the run's fence when it ended."""
        try:
            mark = msgspec.json.decode(data or b"", type=Mark)
        except msgspec.DecodeError:
            self.fail(f"{run.id} ended as {run.state} with {data!r}, which no attempt said")
            return
        same = (mark.run_id, mark.fence) == (run.id, run.fence)
        self.check(same, f"{run.id} ended under fence {run.fence} by what {mark.run_id} said under {mark.fence}")

    def _check_counts(self, run: Run, job: Job, history: list[Transition], executed: list[Execution]) -> None:
        moves = [(entry.before, entry.after) for entry in history]
        dispatches = sum(1 for _, after in moves if after is State.DISPATCHED)
        unsent = moves.count((State.DISPATCHED, State.SCHEDULED))
        self.check(run.attempt == dispatches, f"{run.id} counts {run.attempt} attempts, {moves}")
        self.check(len(executed) <= dispatches, f"{run.id} executed {len(executed)} times, sent {dispatches} times")
        again = sum(moves.count((state, State.RETRYING)) for state in ON_WORKER)
        failed = moves.count((State.TERMINATING, State.RETRYING))
        self.check(run.crashes <= max(1, job.max_crashes) + (run.state in (State.CANCELLED, State.TIMEOUT)),
                      f"{run.id} crashed {run.crashes} times")  # fmt: skip
        self.check(run.failures <= job.max_retries + 1, f"{run.id} failed {run.failures} times")
        self.check(failed <= job.max_retries, f"{run.id} was retried {failed} times")
        self.check(dispatches <= failed + again + unsent + 1, f"{run.id} was sent out too often: {moves}")
        if dispatches == 0:
            self.check(not executed, f"{run.id} was never dispatched, and executed")

    def _job(self, run: Run) -> Job:
        return self.disk.job_versions[run.job_version]

    # ── what executes ───────────────────────────────────────────────────────────────────────────────────────────────

    def began(self, execution: Execution) -> None:
        key = (execution.run_id, execution.fence)
        self._trace.add(f"{execution.run_id[-12:]} executes under {execution.fence} on {execution.worker}")
        self.check(key not in self._fences, f"{execution.run_id} executes twice under fence {execution.fence}")
        self._fences[key] = execution
        self._executing[key] = execution
        if self._is_of_lost_time(*key):
            return
        super().began(execution)
        numbered = (execution.run_id, execution.attempt)
        self.check(numbered not in self._attempts, f"{execution.run_id} begins attempt {execution.attempt} twice")
        self._attempts[numbered] = None
        run = self.disk.found(execution.run_id)
        stored = run is not None and run.fence >= execution.fence
        self.check(stored, f"{execution.run_id} executes under fence {execution.fence}, which is not stored")
        # Removing a worker that is away says that it is gone. If it is not, it may begin what it was offered.
        removed = any("was removed by" in entry.reason for entry in self.disk.entries.get(execution.run_id, ()))
        given_up = run is not None and run.fence > execution.fence and not removed and not execution.is_turn
        self.check(not given_up, f"{execution.run_id} begins under fence {execution.fence}, which was given up")
        if execution.checkpoint is not None:
            mark = msgspec.json.decode(execution.checkpoint, type=Mark)
            earlier = mark.run_id == execution.run_id and mark.fence < execution.fence
            self.check(earlier, f"{execution.run_id} was given the checkpoint of {mark}")
        if not execution.is_turn:
            self.spans.began(execution, run)
            self.guards.began(execution, run)
        live = [one for one in self._executing if run is not None and one == (run.id, run.fence)]
        self.check(len(live) <= 1, f"{execution.run_id} executes {len(live)} times under its current fence")

    def ended(self, execution: Execution) -> None:
        self._trace.add(f"{execution.run_id[-12:]} ends under {execution.fence}: {execution.how}")
        self._executing.pop((execution.run_id, execution.fence), None)

    def turn_ended(self, dispatch: m.Dispatch, orders: bytes) -> None:
        self.workflows.functions.turn_ended(dispatch, orders)

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────────────────

    def sent(self, message: m.Message) -> None:
        """Nobody may be told what is not durable."""
        if isinstance(message, r.Accepted):
            for run_id in message.run_ids:
                if run_id in self.lost and not self.is_synchronous:
                    continue  # it was stored
                self.acknowledged[run_id] = None
                self.check(self.disk.found(run_id) is not None, f"run {run_id} is acknowledged and not stored")
        elif isinstance(message, r.RunReport):
            self.scans.told(message)
            if message.state in TERMINAL:
                self.agrees(message.run_id, message.state, message.result)
        elif isinstance(message, m.Dispatch):
            self._dispatched(message)
        elif isinstance(message, r.ValueAnswer) and isinstance(message.value, BulkRequest):
            self.bulks.sent(message.value)
        elif isinstance(message, m.Stop) and message.run_id in self.disk.runs_by_id:
            run = self.disk.runs_by_id[message.run_id]
            executed = [execution for execution in self.executions if execution.run_id == run.id]
            # If the time of the whole run passes in the same pass, that is the reason which is stored.
            in_start = message.reason == "attempt_timeout" and run.state is State.STARTING
            is_start = self._is_late_start(run, "start_timeout" if in_start else run.stop_reason or "")
            self.spans.stops(message, run, None if is_start else _longest(self._job(run), run), executed)
        elif isinstance(message, CancelRun):
            self.cancels[message.run_id] = None

    def _dispatched(self, message: m.Dispatch) -> None:
        run = self.disk.runs_by_id.get(message.run_id)
        key = (message.run_id, message.fence)
        self.check(key not in self._sent, f"{message.run_id} is sent out twice under fence {message.fence}")
        self._sent[key] = None
        stored = (run is not None and run.fence >= message.fence) or self._is_of_lost_time(*key)
        self.check(stored, f"{message.run_id} is sent out under fence {message.fence}, which is not stored")
        is_alone = message.isolated and message.record is None
        if is_alone and run is not None and self._job(run).executor is not ExecutorKind.PROCESS:
            self.check(run.id in self.crashed, f"{message.run_id} is suspected, and no process died under it")

    def agrees(self, run_id: str, state: State, result: bytes | None) -> None:
        run = self.disk.found(run_id)
        if run_id in self.lost | self.reverted:
            return
        stored = None if run is None else run.state
        self.check(stored is state, f"a client was told that {run_id} is {state}, the store has {stored}")
        if run is not None and state is State.SUCCEEDED and result is not None:
            self.check(result == run.result, f"a client was told {result!r} of {run_id}, the store has {run.result!r}")

    # ── at rest ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def unfinished(self) -> list[Run]:
        live = [run for run in self.disk.runs_by_id.values() if run.state not in TERMINAL]
        return live or self.scans.pending()

    def check_rest(self) -> None:
        """Once the faults are over and everybody has had time."""
        for run_id in self.acknowledged:
            self.check(self.disk.found(run_id) is not None, f"run {run_id} was acknowledged and is gone")
        for run in self.disk.runs_by_id.values():
            self.check(run.state in TERMINAL, f"run {run.id} is still {run.state}: {run.reason}")
        for execution in self._executing.values():
            self.fail(f"{execution.run_id} still executes under {execution.fence} on {execution.worker}")
        self.occurrences.check_rest()
        self.bulks.check_rest()
        succeeded = {run.id for run in self.disk.runs_by_id.values() if run.state is State.SUCCEEDED}
        for run_id in self.disk.all_of(DeadLetter):
            self.check(run_id not in succeeded, f"{run_id} succeeded and is a dead letter")
        self.lanes.check_rest()
        self.guards.check_rest()
        self.policies.check_rest()
        self.scans.check_rest()

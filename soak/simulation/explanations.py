"""An explanation must not contradict what then happens: before each pass some live runs are explained, and after it
each reason that was given must have changed for those that started."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec
from msgspec.structs import replace

from interlock.core.decisions import Decisions
from interlock.core.explain import TIMED, explain
from interlock.core.facts import Facts
from interlock.core.lanes.gate import limit_names
from interlock.core.policy.judge_state import Judging
from interlock.core.routing import dispatch as routing
from interlock.core.routing.roster import Worker
from interlock.core.sessions.session import Sessions
from interlock.core.state import JUMP, SchedulerState
from interlock.core.step import NO_FACTS, Command, step
from interlock.core.tenants.tenant import Tenants
from interlock.model.explanation import Explanation, Obstacle, Reason
from interlock.model.explanation import ReasonKind as K
from interlock.model.lane import LaneStatus
from interlock.model.run import Now, Run
from interlock.model.state import ON_WORKER, State
from interlock.wire.command import Define, WorkerUp
from interlock.wire.lane_request import SetLane
from interlock.wire.message import Load
from soak.simulation.careless_judge import careless_step
from soak.simulation.careless_routing import careless_routing_step
from soak.simulation.invariants import Invariants
from soak.simulation.scenario import Sabotage

ROUNDING = 1e-6
SLACK = 2 * JUMP  # the end of a delay is inexact by jumps of the wall clock that nobody follows: before it, and after
OF_CLOCK = frozenset({K.DEBOUNCE, K.RATE})  # ends that count elapsed time


class Seen(msgspec.Struct):
    """What a run was said to wait for, and the facts behind that."""

    run: Run
    seq: int
    fence: int
    said: Explanation
    held: dict[K, tuple[int, set[str]]]  # kind → what is allowed at once, and who is in the way
    workers: dict[str, set[tuple[str, int]]]  # worker → its attempts
    ahead: list[str]  # in its session
    behind: set[str]  # the others that its session knows
    policy: str  # digest


class Explanations:
    def __init__(self, require: Callable[[bool, str], None], rng: Random, most: int = 2) -> None:
        self._require = require
        self._rng = rng
        self._most = most  # runs explained before a pass
        self._state: SchedulerState | None = None
        self._seen: list[Seen] = []
        self._loaded: set[str] = set()  # workers that may be overloaded no longer
        self._promised: dict[tuple[str, K, str | None], tuple[int, bool, float]] = {}
        """run, kind and name → its seq then, whether elapsed time counts, and the time before which it cannot start"""
        self.explain: Callable[[SchedulerState, Run, Now], Explanation] = explain
        self.asked = 0

    def before(self, state: SchedulerState, now: Now) -> None:
        if state is not self._state:
            self._state = state
            self._promised.clear()
        runs = list(state.runs.values())
        self._seen = [self._look(state, run, now) for run in self._rng.sample(runs, min(self._most, len(runs)))]

    def _look(self, state: SchedulerState, run: Run, now: Now) -> Seen:
        self.asked += 1
        said = self.explain(state, run, now)
        for reason in said.reasons:
            if reason.kind in TIMED and reason.at is not None:
                elapsed = reason.kind in OF_CLOCK or state.machine.waits_for_span(run)
                until = reason.at - now.wall + now.elapsed if elapsed else reason.at
                known = self._promised.get((run.id, reason.kind, reason.name))
                if known is None or known[0] != run.seq:
                    self._promised[run.id, reason.kind, reason.name] = run.seq, elapsed, until
        ahead, behind = _neighbours(state, run)
        attempts = {worker.id: _attempts(worker) for worker in state.workers.values()}
        return Seen(
            run, run.seq, run.fence, said, _holders(state, run), attempts, ahead, behind, state.of(Judging).digest
        )

    def after(self, state: SchedulerState, commands: Sequence[Command], now: Now, decisions: Decisions) -> None:
        if any(isinstance(content, SetLane) for _, content in commands):
            # A lane with a new rate keeps no promise of the old one.
            self._promised = {known: said for known, said in self._promised.items() if known[1] is not K.RATE}
        moves = dict(decisions.batch.history)
        joined = {content.worker_id for _, content in commands if isinstance(content, WorkerUp)}
        self._loaded = {origin for origin, content in commands if isinstance(content, Load)}
        if any(isinstance(content, Define) for _, content in commands):
            self._loaded |= state.workers.keys()
        for seen in self._seen:
            run = seen.run
            if any(entry.after is State.DISPATCHED for entry in moves.get(run.id, ())):
                held = _holders(state, run)
                for reason in seen.said.reasons:
                    gone = self._is_gone(state, seen, reason, held, joined, now)
                    self._require(gone, f"{run.id} was said to wait ({reason.kind}: {reason.text}), and started")
                self._check_order(state, seen)
            elif run.ended_at is None:
                self._check_waiting(state, seen, now)

    def _is_gone(
        self,
        state: SchedulerState,
        seen: Seen,
        reason: Reason,
        held: dict[K, tuple[int, set[str]]],
        joined: set[str],
        now: Now,
    ) -> bool:
        run, kind = seen.run, reason.kind
        if kind in TIMED:
            promised = self._promised.get((run.id, kind, reason.name))
            if promised is None:
                return True
            _, elapsed, until = promised
            return until <= (now.elapsed + SLACK if elapsed else now.wall) + state.limits.lead + ROUNDING
        if kind in (K.POLICY, K.APPROVAL):
            approval = None if run.judged is None else run.judged.approval
            answered = approval is not None and bool(approval.approved)
            over = reason.at is None or reason.at <= now.wall + SLACK
            return seen.policy != state.of(Judging).digest or (answered if kind is K.APPROVAL else over)
        if kind in seen.held and kind in held:
            (before, others), (after, left) = seen.held[kind], held[kind]
            return after > before or bool(others - left) or len(others) < before
        if kind is K.NO_WORKER:
            taker = str(run.worker_id)
            known = {worker.id: worker for worker in seen.said.workers}.get(taker)
            if known is None or taker in joined:
                return True
            if known.obstacle not in (Obstacle.FULL, Obstacle.OVERLOADED):
                now_there = next(one for one in routing.explain(state, run, {}) if one.id == taker)
                return now_there.obstacle in (None, Obstacle.FULL, Obstacle.OVERLOADED)
            said_load = known.obstacle is Obstacle.OVERLOADED and taker in self._loaded
            return said_load or bool(seen.workers[taker] - _attempts(state.workers[taker]))
        return {
            K.HELD: not run.is_held,
            K.LANE_PAUSED: state.lanes[run.lane].status is LaneStatus.OPEN,
            K.DRAINING: False,
        }.get(kind, True)

    def _check_order(self, state: SchedulerState, seen: Seen) -> None:
        session = None if seen.run.session is None else state.of(Sessions).get((seen.run.tenant, seen.run.session))
        waiting = {} if session is None else session.waiting
        passed = [one for one in seen.ahead if one in waiting and waiting[one].state is State.SCHEDULED]
        self._require(not passed, f"{seen.run.id} started before {', '.join(passed)}, said to be ahead in its session")

    def _check_waiting(self, state: SchedulerState, seen: Seen, now: Now) -> None:
        run = seen.run
        first = seen.said.reasons[0]
        if first.kind is K.READY and run.seq == seen.seq:
            again = self.explain(state, run, now).reasons[0].kind
            self._require(again is not K.READY, f"{run.id} was said to wait for nothing, and stayed")
        for reason in seen.said.reasons:
            if reason.kind in (K.EXECUTING, K.SENT, K.STARTING) and run.fence == seen.fence and run.state in ON_WORKER:
                self._require(run.worker_id == reason.name, f"{run.id} was said to be on {reason.name}, and is not")
        if run.seq == seen.seq and run.state is State.SCHEDULED:
            ahead, _ = _neighbours(state, run)
            new = set(ahead) - set(seen.ahead) - seen.behind
            self._require(not new, f"{', '.join(new)} arrived ahead of {run.id} in its session")


class ExplainedPasses(Explanations):
    """The passes of one scheduler. A sabotaged one explains wrongly."""

    def __init__(self, invariants: Invariants, rng: Random, sabotage: Sabotage) -> None:
        super().__init__(lambda holds, text: None if holds else invariants.fail(text), rng)
        self._executions = invariants.executions
        self._lost = invariants.lost, invariants.reverted
        self._policies = invariants.policies
        self._routes = invariants.routes
        self._step = careless_step(sabotage) if sabotage.of_policy else step
        if sabotage.of_routes:
            self._step = careless_routing_step(sabotage)
        self._first: dict[str, Explanation] = {}
        if sabotage.engine_explains_once:
            self.explain = self._explain_once
        elif sabotage.engine_explains_late:
            self.explain = _explain_late

    def decide(
        self, state: SchedulerState, commands: Sequence[Command], now: Now, rng: Random, facts: Facts = NO_FACTS
    ) -> Decisions:
        self.before(state, now)
        for seen in self._seen:
            for reason in seen.said.reasons:
                if reason.kind in (K.EXECUTING, K.STARTING):
                    begun = any(
                        (execution.run_id, execution.fence) == (seen.run.id, seen.fence)
                        and (execution.running_since is not None or reason.kind is K.STARTING)
                        for execution in self._executions
                    )
                    begun = begun or any(seen.run.id in gone for gone in self._lost)
                    self._require(begun, f"{seen.run.id} was said to be {reason.kind}, and has not begun")
        commands = self._routes.bound(state, commands)
        decisions = self._step(state, commands, now, rng, facts)
        self._policies.decided(state, decisions.batch)
        self._routes.decided(state, commands, now, decisions)
        self.after(state, commands, now, decisions)
        return decisions

    def _explain_once(self, state: SchedulerState, run: Run, now: Now) -> Explanation:
        return self._first.setdefault(run.id, explain(state, run, now))


def _explain_late(state: SchedulerState, run: Run, now: Now) -> Explanation:
    """Promise times that are later than the true ones."""
    said = explain(state, run, now)
    reasons = [replace(reason, at=None if reason.at is None else reason.at + 5.0) for reason in said.reasons]
    return replace(said, reasons=reasons)


def _holders(state: SchedulerState, run: Run) -> dict[K, tuple[int, set[str]]]:
    lane = state.lanes[run.lane]
    found = {K.LANE_FULL: (lane.limit, lane.holding.keys() - {run.id})}
    session = None if run.session is None else state.of(Sessions).get((run.tenant, run.session))
    if session is not None:
        found[K.SESSION_TURN] = session.room + len(session.active), session.active.keys() - {run.id}
    job = state.job_of(run)
    if job.limit is not None and job.limit.max is not None:
        found[K.LIMIT] = job.limit.max, state.gates.limit(limit_names(run)[0]).holders - {run.id}
    if (tenant := state.of(Tenants).get(run.tenant)) is not None:
        found[K.TENANT_LIMIT] = tenant.most, tenant.holders - {run.id}
    return found


def _attempts(worker: Worker) -> set[tuple[str, int]]:
    return {(attempt.run.id, attempt.run.fence) for attempt in worker.attempts.values()}


def _neighbours(state: SchedulerState, run: Run) -> tuple[list[str], set[str]]:
    """Return the runs ahead in the session, and all others that it knows."""
    session = None if run.session is None else state.of(Sessions).get((run.tenant, run.session))
    if session is None:
        return [], set()
    if run.id not in session.waiting:
        return [], {*session.waiting, *session.active}  # it may wait again, in its old place
    ready = [one.id for one in session.waiting.values() if one.state is State.SCHEDULED or one is run]
    return ready[: ready.index(run.id)], {*session.waiting, *session.active}

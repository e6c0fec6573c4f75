"""Explanations: a row for each reason, the end of a run, and whether what they say agrees with what then happens."""

import copyreg
import hashlib
import pickle
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from interlock.core.decisions import Decisions
from interlock.core.entry.lineage import Proofs
from interlock.core.explain import explain
from interlock.core.facts import Facts
from interlock.core.part import Machine as Machinery
from interlock.core.part import joined
from interlock.core.state import CoreLimits, SchedulerState
from interlock.core.step import NO_FACTS, Command, step
from interlock.model.bulk import RunAction
from interlock.model.explanation import Explanation, Obstacle, Reason, explain_end
from interlock.model.explanation import ReasonKind as K
from interlock.model.facets import Facets, OtherRun
from interlock.model.job import ExecutorKind, Job, KeyLimit
from interlock.model.lane import LaneAction, LaneSpec
from interlock.model.run import Now, RunFilter
from interlock.model.schedule.schedule import Schedule
from interlock.model.session import SessionAction
from interlock.model.state import ON_WORKER, State
from interlock.model.tenant import TenantSpec
from interlock.wire.command import Define, StartDraining, WorkerUp
from interlock.wire.lane_request import ActOnLane
from interlock.wire.request import StartBulk
from interlock.wire.session_request import ActOnSession
from soak.simulation.explanations import Explanations
from tests.core.machine import START, Machine, retrying_job

pytestmark = pytest.mark.behaviour("RUN-21")

PATTERNS: dict[str, dict[str, Any]] = {
    "chat": {"debounce": 0.0, "cap": 100},
    "slow": {"debounce": 0.8},
    "pair": {"debounce": 0.0, "max_concurrent": 2},
}
JOBS = [
    retrying_job(2),
    Job(id="rated", rate=0.5),
    Job(id="limited", limit=KeyLimit(key="who", max=1)),
    Job(id="alone", executor=ExecutorKind.PROCESS),
]
TICKING = Job(id="ticking", schedule=Schedule(every=5.0))
# The state of a scheduler has a hash with the key of proofs.
copyreg.pickle(hashlib.blake2b, lambda prover: (hashlib.blake2b, (prover.digest(),)))
copyreg.pickle(Machinery, lambda machine: (joined, ((),)))  # code, which is no part of the memory


def made(lanes: dict[str, int | LaneSpec] | None = None, slots: int = 100) -> Machine:
    machine = Machine(
        *JOBS,
        lanes=lanes or {"main": 2, "slow": LaneSpec(limit=5, rate=0.1)},
        limits=CoreLimits(session_patterns=PATTERNS),
    )
    if slots:
        machine.worker_up(slots=slots, processes=1)
    return machine


def asked(machine: Machine, run_id: str, **options: Any) -> Explanation:
    """Explain a run, and check that the question changes nothing."""
    machine.state.of(Proofs).prover = None  # a hash that is under way cannot be pickled
    before = pickle.dumps(machine.state)
    found = explain(machine.state, machine.state.runs[run_id], machine.now, **options)
    assert pickle.dumps(machine.state) == before
    assert found.sentence.startswith("The run ")
    return found


def kinds(found: Explanation) -> list[K]:
    return [reason.kind for reason in found.reasons]


def only(found: Explanation, kind: K) -> Reason:
    (reason,) = [one for one in found.reasons if one.kind is kind]
    return reason


# ── what a run waits for ────────────────────────────────────────────────────────────────────────────────────────────


def _delayed(machine: Machine) -> str:
    return machine.submit(delay=30.0)


def _at(machine: Machine) -> str:
    return machine.submit(at=START + 40.0)


def _retrying(machine: Machine) -> str:
    run_id = machine.running()
    machine.finished(run_id, "failed")
    return run_id


def _held(machine: Machine) -> str:
    run_id = machine.submit_many(3)[2]
    machine.act(RunAction.HOLD, run_id)
    return run_id


def _collecting(machine: Machine) -> str:
    return machine.submit(session="slow")


def _second_of_session(machine: Machine) -> str:
    return machine.submit_many(3, session="chat")[2]


def _paused_session(machine: Machine) -> str:
    machine.submit(session="chat", delay=9.0)
    machine.step(("client", ActOnSession(7, "chat", SessionAction.PAUSE)))
    return machine.submit(session="chat")


def _third_of_lane(machine: Machine) -> str:
    return machine.submit_many(3)[2]


def _paused_lane(machine: Machine) -> str:
    machine.step(("client", ActOnLane(7, "main", LaneAction.PAUSE)))
    return machine.submit()


def _rated(machine: Machine) -> str:
    return machine.submit_many(2, "rated")[1]


def _rated_lane(machine: Machine) -> str:
    return machine.submit_many(2, lane="slow")[1]


def _limited(machine: Machine) -> str:
    return machine.submit_many(2, "limited", payload=b'{"who": "a"}')[1]


def _without_worker(machine: Machine) -> str:
    machine.worker_down(dead=True)
    return machine.submit()


def _draining(machine: Machine) -> str:
    machine.worker_down(dead=True)
    run_id = machine.submit()
    machine.step(("", StartDraining()))
    return run_id


def _overlapping(machine: Machine) -> str:
    machine.step(("", Define(0, [*JOBS, TICKING])))
    for _ in range(2):
        machine.advance(5.0)
    return f"ticking:{int(START + 10)}"


def _reading(machine: Machine) -> str:
    machine.worker_down(dead=True)
    run_id = machine.submit(payload=b'{"text": "' + b"x" * 1000 + b'"}')
    machine.holds_answers = True
    machine.worker_up()
    return run_id


def _sent(machine: Machine) -> str:
    return machine.submit()


def _running(machine: Machine) -> str:
    return machine.running()


def _stopping(machine: Machine) -> str:
    run_id = machine.running()
    machine.cancel(run_id)
    return run_id


def _away(machine: Machine) -> str:
    run_id = machine.running()
    machine.worker_down()
    return run_id


WAITS: list[tuple[Callable[[Machine], str], list[K], float | None]] = [
    (_delayed, [K.SCHEDULED_TIME], 30.0),
    (_at, [K.SCHEDULED_TIME], 40.0),
    (_retrying, [K.RETRY], 2.0),
    (_held, [K.HELD], None),
    (_collecting, [K.DEBOUNCE], 0.8),
    (_second_of_session, [K.SESSION_TURN], None),
    (_paused_session, [K.SESSION_PAUSED], None),
    (_third_of_lane, [K.LANE_FULL], None),
    (_paused_lane, [K.LANE_PAUSED], None),
    (_rated, [K.RATE], 2.0),
    (_rated_lane, [K.RATE], 10.0),
    (_limited, [K.LIMIT], None),
    (_without_worker, [K.NO_WORKER], None),
    (_draining, [K.DRAINING, K.NO_WORKER], None),
    (_overlapping, [K.OVERLAP], None),
    (_reading, [K.PAYLOAD], None),
    (_sent, [K.SENT], None),
    (_running, [K.EXECUTING], None),
    (_stopping, [K.STOPPING, K.EXECUTING], None),
    (_away, [K.EXECUTING, K.WORKER_AWAY], None),
]


@pytest.mark.parametrize(("arrange", "expected", "next_at"), WAITS)
def test_each_stage_explains_what_it_holds(
    arrange: Callable[[Machine], str], expected: list[K], next_at: float | None
) -> None:
    machine = made()
    run_id = arrange(machine)
    found = asked(machine, run_id)
    assert (found.run_id, found.state, found.end) == (run_id, machine.state_of(run_id), None)
    assert kinds(found) == expected
    assert found.next_at == (None if next_at is None else pytest.approx(START + next_at))


def test_a_session_names_the_active_run_and_those_ahead() -> None:
    machine = made()
    first, second, third = machine.submit_many(3, session="chat")
    reason = only(asked(machine, third), K.SESSION_TURN)
    assert (reason.name, reason.place, reason.holders, reason.ahead) == ("chat", 2, [first], [second])
    machine.act(RunAction.HOLD, second)
    assert only(asked(machine, third), K.SESSION_TURN).place == 1
    assert kinds(asked(machine, second)) == [K.HELD]


@pytest.mark.parametrize("seed", range(20))
def test_a_lane_tells_the_order_in_which_its_runs_start(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.lanes.lane.AGEING", 1_000_000)
    rng, machine = Random(seed), made({"main": 1})
    jobs = ["work", "work", "alone"]
    for _ in range(12):
        machine.submit(rng.choice(jobs), tenant=rng.choice("abc"), priority=rng.choice(["interactive", "batch"]))
        if rng.random() < 0.2:
            machine.finished(machine.dispatched()[-1])
    (holder,) = machine.state.lanes["main"].holding
    places: dict[int, str] = {}
    for run_id in machine.state.runs:
        if run_id != holder:
            found = asked(machine, run_id)
            assert only(found, K.LANE_FULL).holders == [holder]
            turn = [one for one in found.reasons if one.kind is K.LANE_TURN]
            places[turn[0].place or 0 if turn else 1] = run_id
            assert not turn or turn[0].ahead[0] == places.get(1, turn[0].ahead[0])
    started = len(machine.dispatched())
    while machine.state.runs:
        machine.finished(machine.dispatched()[-1])
    assert [places[place] for place in sorted(places)] == machine.dispatched()[started:]


def test_a_caller_sees_the_runs_of_its_tenant_only() -> None:
    machine = made({"main": 1})
    machine.submit()
    machine.submit_many(2, tenant="other")
    run_id = machine.submit(tenant="mine")
    found = asked(machine, run_id, tenant="mine")
    assert only(found, K.LANE_FULL).holders == []
    assert (only(found, K.LANE_TURN).place, only(found, K.LANE_TURN).ahead) == (2, [])
    assert "other" not in found.sentence


def test_a_caller_sees_no_workers_of_other_tenants() -> None:
    machine = made(slots=0)
    for tenant in ("other", "mine"):
        up = WorkerUp(f"token-{tenant}:w", 5, 1, {"another": ""}, [], False, tenants=frozenset({tenant}))
        machine.step(("", up))
    run_id = machine.submit(tenant="mine")
    found = asked(machine, run_id, tenant="mine")
    assert ([one.id for one in found.workers], "other" in found.sentence) == (["token-mine:w"], False)
    assert len(asked(machine, run_id).workers) == 2


def test_a_worker_that_fits_is_shown_however_many_do_not() -> None:
    machine = made({"main": 1}, slots=0)
    for number in range(150):
        machine.step(("", WorkerUp(f"strange-{number}", 5, 1, {"another": ""}, [], False)))
    machine.worker_up()
    machine.submit()
    found = asked(machine, machine.submit())
    assert (found.workers[0].id, len(found.workers)) == ("one", 100)
    assert K.NO_WORKER not in [reason.kind for reason in found.reasons]


def test_each_worker_that_was_passed_over_and_why() -> None:
    machine = made(slots=0)
    machine.step(("", WorkerUp("strange", 5, 1, {"another": ""}, [], False)))
    machine.step(("", WorkerUp("leaving", 5, 1, {"work": "", "alone": ""}, [], True)))
    machine.step(("", WorkerUp("small", 1, 1, {"work": "", "alone": ""}, [], False)))
    machine.submit()
    run_id = machine.submit()
    found = asked(machine, run_id, faults={"broken": "ImportError: no module"})
    obstacles = {one.id: one.obstacle for one in found.workers}
    assert obstacles == {
        "strange": Obstacle.UNKNOWN_JOB,
        "leaving": Obstacle.DRAINING,
        "small": Obstacle.FULL,
        "broken": Obstacle.FAULT,
    }
    assert not any(one.fits for one in found.workers)
    machine.worker_down("small")
    assert {one.id: one.obstacle for one in asked(machine, run_id).workers}["small"] is Obstacle.DISCONNECTED


def test_a_process_of_its_own_needs_a_slot_of_its_own() -> None:
    machine = made()
    machine.submit("alone")
    found = asked(machine, machine.submit("alone"))
    assert [(one.id, one.fits, one.obstacle) for one in found.workers] == [("one", False, Obstacle.FULL)]


def test_a_silent_worker_gets_nothing() -> None:
    machine = made({"main": 1})
    machine.running()
    waiting = machine.submit()
    machine.state.workers["one"].silent = True
    (worker,) = asked(machine, waiting).workers
    assert (worker.fits, worker.obstacle) == (False, Obstacle.SILENT)


def test_a_paused_schedule_and_a_bulk_request_under_way() -> None:
    machine = made()
    machine.step(("", Define(0, [*JOBS, TICKING])))
    occurrence = f"ticking:{int(START + 5)}"
    machine.state.timetable.entries["ticking"].paused = True
    assert kinds(asked(machine, occurrence)) == [K.SCHEDULE_PAUSED, K.SCHEDULED_TIME]
    machine = Machine(*JOBS, limits=CoreLimits(bulk_runs=1))
    first, _ = machine.submit_many(2)
    machine.step(("client", StartBulk(1, "b", RunAction.HOLD, RunFilter(), "because")))
    assert K.BULK in kinds(asked(machine, first))
    machine.step()
    assert kinds(asked(machine, first)) == [K.HELD]


def test_a_place_beyond_the_count_is_said_as_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.lanes.fill.MOST_AHEAD", 20)
    machine = made({"main": 1})
    runs = machine.submit_many(40)
    assert only(asked(machine, runs[10]), K.LANE_TURN).place == 10
    assert only(asked(machine, runs[39]), K.LANE_TURN).place == 21


def test_an_estimate_follows_the_pace_of_the_lane() -> None:
    machine = made({"main": 1})
    runs = machine.submit_many(100)
    assert asked(machine, runs[50]).estimate_at is None
    for run_id in runs[:40]:
        machine.advance(2.0)
        machine.finished(run_id)
    found = asked(machine, runs[50])
    assert found.estimate_at == pytest.approx(machine.wall + 20.0, abs=4.0)
    assert "Estimated" in found.sentence
    machine.step(("client", ActOnLane(7, "main", LaneAction.PAUSE)))
    assert asked(machine, runs[50]).estimate_at is None


# ── ends ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ended(machine: Machine, state: State) -> str:
    if state is State.SKIPPED:
        _, run_id = machine.submit(session="slow"), machine.submit(session="slow")
        return run_id
    run_id = machine.running(deadline=START + 5.0)
    if state is State.CANCELLED:
        machine.cancel(run_id)
        machine.finished(run_id, "cancelled")
    elif state is State.TIMEOUT:
        machine.advance(6.0)
        machine.finished(run_id, "cancelled")
    elif state is State.ORPHANED:
        while machine.state_of(run_id) is not State.ORPHANED:
            machine.lost(run_id)
    else:
        how = {State.SUCCEEDED: "succeeded", State.FAILED: "failed_fatal"}[state]
        error = None if state is State.SUCCEEDED else "Traceback\nValueError: no"
        machine.finished(run_id, how, error=error)
    return run_id


@pytest.mark.parametrize(
    ("state", "outcome", "error"),
    [
        (State.SUCCEEDED, "succeeded", None),
        (State.FAILED, "failed_fatal", "ValueError: no"),
        (State.CANCELLED, "cancelled", None),
        (State.TIMEOUT, "timeout", None),
        (State.ORPHANED, None, "signal 9"),
        (State.SKIPPED, None, None),
    ],
)
def test_a_run_that_has_ended_is_explained_from_its_record(
    state: State, outcome: str | None, error: str | None
) -> None:
    machine = made()
    run = machine.store.runs_by_id[_ended(machine, state)]
    found = explain_end(run)
    assert (found.state, found.reasons[0].kind, found.end is not None) == (state, K.ENDED, True)
    assert found.end is not None
    assert (found.end.outcome, found.end.error) == (outcome, error)
    assert (found.end.reason, found.end.actor, found.end.attempts) == (run.reason, run.actor, run.attempt)
    assert run.reason in found.sentence or state is State.SUCCEEDED
    if state is State.SKIPPED:
        assert (found.reasons[1].kind, found.reasons[1].runs) == (K.COLLECTED, [next(iter(machine.state.runs))])


def test_an_ended_run_names_the_one_that_runs_it_again() -> None:
    machine = made()
    run = machine.store.runs_by_id[_ended(machine, State.FAILED)]
    run.facets = Facets(retried_as=OtherRun("next"))
    assert [(one.kind, one.runs) for one in explain_end(run).reasons[1:]] == [(K.RETRIED, ["next"])]


# ── no contradiction ────────────────────────────────────────────────────────────────────────────────────────────────


def _require(holds: bool, text: str) -> None:
    assert holds, text


class ExplainMachine(RuleBasedStateMachine):
    """Random lives, each pass between a look and a check."""

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.checker = Explanations(_require, Random(seed), most=6)
        self.machine = made({"main": 3, "slow": LaneSpec(limit=2, rate=0.5)}, slots=0)
        self.machine.decide = self.decide
        self.machine.worker_up(slots=2, processes=1)

    def decide(
        self, state: SchedulerState, commands: Sequence[Command], now: Now, rng: Random, facts: Facts = NO_FACTS
    ) -> Decisions:
        self.checker.before(state, now)
        decisions = step(state, commands, now, rng, facts)
        self.checker.after(state, commands, now, decisions)
        return decisions

    @rule(
        job=st.sampled_from(["work", "rated", "limited", "alone"]),
        lane=st.sampled_from([None, "slow"]),
        session=st.sampled_from([None, None, "chat", "slow", "pair"]),
        delay=st.sampled_from([None, None, 1.0]),
        tenant=st.sampled_from("xy"),
    )
    def submit(self, **fields: Any) -> None:
        self.machine.submit(fields.pop("job"), b'{"who": "a"}', **fields)

    def some(self, place: int, executing: bool) -> str | None:
        runs = [one.id for one in self.machine.state.runs.values() if (one.state in ON_WORKER) == executing]
        return runs[place % len(runs)] if runs else None

    @rule(place=st.integers(0, 100), outcome=st.sampled_from(["succeeded", "failed", "lost", "started"]))
    def report(self, place: int, outcome: str) -> None:
        if (run_id := self.some(place, executing=True)) is not None:
            if outcome in ("lost", "started"):
                getattr(self.machine, outcome)(run_id)
            else:
                self.machine.finished(run_id, outcome)

    @rule(place=st.integers(0, 100), executing=st.booleans(), action=st.sampled_from(["cancel", "hold", "release"]))
    def act(self, place: int, executing: bool, action: str) -> None:
        if (run_id := self.some(place, executing)) is not None:
            self.machine.act(RunAction(action), run_id)

    @rule(action=st.sampled_from(list(SessionAction)), name=st.sampled_from(["chat", "slow", "pair"]))
    def act_on_session(self, action: SessionAction, name: str) -> None:
        self.machine.step(("client", ActOnSession(7, name, action)))

    @rule(action=st.sampled_from(list(LaneAction)[:2]), name=st.sampled_from(["main", "slow"]))
    def act_on_lane(self, action: LaneAction, name: str) -> None:
        self.machine.step(("client", ActOnLane(7, name, action)))

    @rule(who=st.sampled_from("x*"), most=st.sampled_from([None, 1, 2]))
    def declare_tenant(self, who: str, most: int | None) -> None:
        self.machine.tenants[who] = TenantSpec(max_running=most)
        self.machine.step(("", self.machine.define()))

    @precondition(lambda self: "one" in self.machine.state.workers)
    @rule(dead=st.booleans())
    def lose_worker(self, dead: bool) -> None:
        self.machine.worker_down(dead=dead)

    @rule()
    def bring_worker(self) -> None:
        worker = self.machine.state.workers.get("one")
        held = [] if worker is None else [self.machine.held(run_id) for run_id in worker.attempts]
        self.machine.worker_up(slots=2, processes=1, held=held)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.machine.advance(seconds)

    @rule()
    def restart(self) -> None:
        self.machine.restart()
        self.bring_worker()


@pytest.mark.behaviour("ROU-8")
def test_a_run_behind_the_limit_of_its_tenant_starts_as_soon_as_there_is_none() -> None:
    explained = ExplainMachine()
    explained.begin(1)
    for _ in range(2):
        explained.declare_tenant("*", 1)
        first, second = explained.machine.submit_many(2, tenant="y")
        assert kinds(asked(explained.machine, second)) == [K.TENANT_LIMIT]
        explained.declare_tenant("*", None)
        assert explained.machine.state_of(second) is State.DISPATCHED
        for run_id in (first, second):
            explained.machine.finished(run_id)


def test_an_explanation_never_contradicts_what_then_happens() -> None:
    run_state_machine_as_test(
        ExplainMachine,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )

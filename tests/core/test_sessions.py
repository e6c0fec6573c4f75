"""Sessions: the core against plain lists, and what a person sees of them."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings, stateful

from interlock.core.sessions.session import Sessions
from interlock.core.state import CoreLimits
from interlock.error import Draining, QueueFull
from interlock.model.bulk import RunAction
from interlock.model.lane import LaneAction
from interlock.model.session import SessionAction, SessionOptions
from interlock.model.state import ON_WORKER, State
from interlock.wire.lane_request import ActOnLane, LaneChangeBody, SetLane
from interlock.wire.message import Returned, Usage
from interlock.wire.request import ValueAnswer
from interlock.wire.session_request import ActOnSession
from tests.core.machine import Machine, retrying_job
from tests.core.plain_sessions import ACTIVE, Entry, PlainSession

PATTERNS: dict[str, dict[str, Any]] = {
    "serial": {"debounce": 0.0},
    "two": {"debounce": 0.0, "max_concurrent": 2, "cap": 2},
    "full": {"debounce": 0.0, "cap": 1, "drop": "new"},
    "slow": {"debounce": 1.0, "cap": 2},
    "chat": {"mode": "interrupt"},
}


def act(machine: Machine, action: SessionAction, session: str) -> bool:
    answer = machine.step(("client", ActOnSession(7, session, action))).answers[-1][1]
    assert isinstance(answer, ValueAnswer)
    return bool(answer.value.acted)


class SessionMachine(stateful.RuleBasedStateMachine):
    @stateful.initialize()
    def begin(self) -> None:
        limits = CoreLimits(session_patterns=PATTERNS)
        self.machine = Machine(retrying_job(1), lanes={"main": 100}, limits=limits)
        self.machine.worker_up(slots=100)
        self.plain = {name: PlainSession(SessionOptions(**given)) for name, given in PATTERNS.items()}
        self.of: dict[str, PlainSession] = {}

    @stateful.rule(name=st.sampled_from(list(PATTERNS)), age=st.sampled_from([None, 0.0, 1.5]))
    def submit(self, name: str, age: float | None) -> None:
        plain = self.plain[name]
        stamp = None if age is None else self.machine.wall - age
        try:
            run_id = self.machine.submit(session=name, stamp=stamp)
        except QueueFull:
            assert name == "full"
            assert len(plain.at("waiting")) == 1
            return
        self.of[run_id] = plain
        plain.submit(run_id, self.machine.elapsed, self.machine.wall if stamp is None else stamp)
        self.settle()

    @stateful.precondition(lambda self: self.executing())
    @stateful.rule(place=st.integers(0, 100), outcome=st.sampled_from(["succeeded", "failed_fatal", "cancelled"]))
    def finish(self, place: int, outcome: str) -> None:
        run_id = self.executing()[place % len(self.executing())]
        self.machine.finished(run_id, outcome)
        self.of[run_id].end(run_id, str(self.machine.state_of(run_id)))
        self.settle()

    @stateful.precondition(lambda self: self.executing())
    @stateful.rule(place=st.integers(0, 100))
    def fail_and_retry(self, place: int) -> None:
        """It keeps its place while it waits for its retry."""
        run_id = self.executing()[place % len(self.executing())]
        stopping = self.machine.run(run_id).stop is not None
        self.machine.finished(run_id, "failed")
        if stopping or self.machine.run(run_id).ended_at is not None:
            self.of[run_id].end(run_id, str(self.machine.state_of(run_id)))
        self.settle()

    @stateful.precondition(lambda self: self.executing())
    @stateful.rule(
        place=st.integers(0, 100), tokens=st.sampled_from([0, 59, 60, 100]), window=st.sampled_from([0, 100, 100])
    )
    def report_usage(self, place: int, tokens: int, window: int) -> None:
        run = self.machine.run(self.executing()[place % len(self.executing())])
        self.machine.step((str(run.worker_id), Usage(run.id, run.fence, tokens, window)))
        plain = self.of[run.id]
        if run.id not in [one.run_id for one in plain.at("detached")]:
            plain.busy = window > 0 and tokens >= 60
        self.settle()

    @stateful.precondition(lambda self: self.machine.state.runs)
    @stateful.rule(place=st.integers(0, 100))
    def cancel(self, place: int) -> None:
        run_id = list(self.machine.state.runs)[place % len(self.machine.state.runs)]
        self.machine.cancel(run_id)
        plain = self.of[run_id]
        if run_id in [one.run_id for one in plain.at("detached")] and self.machine.run(run_id).ended_at is not None:
            plain.end(run_id, "cancelled")
        else:
            plain.cancel(run_id, "asked to")
        self.settle()

    @stateful.rule(name=st.sampled_from(list(PATTERNS)))
    def stop(self, name: str) -> None:
        plain = self.plain[name]
        oldest = next(iter(plain.at(*ACTIVE)), None)
        assert act(self.machine, SessionAction.STOP, name) == (oldest is not None and oldest.place != "stopping")
        if oldest is not None:
            plain.cancel(oldest.run_id, "stopped")
        self.settle()

    @stateful.rule(name=st.sampled_from(list(PATTERNS)))
    def stop_all(self, name: str) -> None:
        plain = self.plain[name]
        plain.stop_all("stopped")
        plain.cutoff = self.machine.wall
        act(self.machine, SessionAction.STOP_ALL, name)
        self.settle()

    @stateful.rule(name=st.sampled_from(list(PATTERNS)))
    def reset(self, name: str) -> None:
        act(self.machine, SessionAction.RESET, name)
        self.plain[name].reset()
        self.settle()

    @stateful.rule(name=st.sampled_from(list(PATTERNS)))
    def pause_or_resume(self, name: str) -> None:
        plain = self.plain[name]
        plain.paused = not plain.paused
        assert act(self.machine, SessionAction.PAUSE if plain.paused else SessionAction.RESUME, name)
        self.settle()

    @stateful.precondition(lambda self: self.live())
    @stateful.rule(place=st.integers(0, 100))
    def hold_or_release(self, place: int) -> None:
        """Others pass by a waiting run that is held. One whose turn has come keeps it."""
        one = self.live()[place % len(self.live())]
        one.held = not one.held
        self.machine.act(RunAction.HOLD if one.held else RunAction.RELEASE, one.run_id)
        self.settle()

    @stateful.rule(place=st.integers(0, 100), action=st.sampled_from([LaneAction.PAUSE, LaneAction.DRAIN, None]))
    def close_the_lane_for_a_while(self, place: int, action: LaneAction | None) -> None:
        """Pause or drain the lane, or make it small. A turn that comes meanwhile is used once it is open again."""
        small, large = (SetLane(1, "main", LaneChangeBody(limit=limit)) for limit in (1, 100))
        self.machine.step(("", small if action is None else ActOnLane(1, "main", action)))
        if action is LaneAction.DRAIN:
            with pytest.raises(Draining):
                self.machine.submit(session="serial")
        if self.executing():
            run_id = self.executing()[place % len(self.executing())]
            self.machine.finished(run_id)
            self.of[run_id].end(run_id, str(self.machine.state_of(run_id)))
        self.restart()
        self.machine.step(("", large if action is None else ActOnLane(1, "main", LaneAction.RESUME)))
        self.settle()

    @stateful.rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.machine.advance(seconds)
        self.settle()

    @stateful.rule()
    def restart(self) -> None:
        self.machine.restart()
        self.machine.worker_up(slots=100, held=[self.machine.held(run_id) for run_id in self.executing()])
        for one in self.live():
            if one.held:
                one.window = 0.0  # it no longer collects

    def settle(self) -> None:
        for plain in self.plain.values():
            for one in plain.at("active", "retrying"):
                between = self.machine.state_of(one.run_id) in (State.RETRYING, State.PENDING)
                one.place = "retrying" if between else "active"
            plain.proceed(self.machine.elapsed)

    def live(self) -> list[Entry]:
        return [one for plain in self.plain.values() for one in plain.runs]

    def executing(self) -> list[str]:
        return [run.id for run in self.machine.state.runs.values() if run.state in ON_WORKER]

    @stateful.invariant()
    def all_is_as_in_the_plain_lists(self) -> None:
        if not hasattr(self, "plain"):
            return
        state = self.machine.state
        for name, plain in self.plain.items():
            session = state.of(Sessions).get(("default", name))
            assert (session is None) == (not plain.runs), "an idle session takes no memory"
            if session is None:
                continue
            assert sorted(session.active) == sorted(one.run_id for one in plain.at(*ACTIVE))
            assert list(session.waiting) == [one.run_id for one in plain.at("waiting")]
            for one in plain.runs:
                run = state.runs[one.run_id]
                if one.place == "waiting":
                    assert run.state is (State.PENDING if one.held else State.SCHEDULED)
                else:
                    assert run.state is not State.SCHEDULED, "there is room for all in the lane"
            assert len(plain.at(*ACTIVE)) <= plain.options.max_concurrent
        for plain in self.plain.values():
            for run_id, how in plain.ended.items():
                run = self.machine.run(run_id)
                assert how in (str(run.state), f"{run.state} {run.reason}")


@pytest.mark.behaviour("SES-1", "SES-2", "SES-3", "SES-4", "SES-5", "SES-6", "SES-7", "SES-8", "SES-10")
def test_sessions_are_as_plain_lists_would_be() -> None:
    stateful.run_state_machine_as_test(
        SessionMachine,
        settings=settings(max_examples=200, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.behaviour("SES-4")
def test_a_delayed_run_that_is_held_while_it_collects_others_outlasts_a_restart() -> None:
    machine = Machine(lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    machine.worker_up()
    run_id = machine.submit(session="slow", delay=5.0)
    machine.advance(5.0)
    machine.act(RunAction.HOLD, run_id)
    machine.restart_with_worker()
    machine.advance(10.0)
    assert machine.state_of(run_id) is State.PENDING
    machine.act(RunAction.RELEASE, run_id)
    assert machine.dispatched() == [run_id]


@pytest.mark.behaviour("SES-4")
def test_a_run_that_was_held_while_it_collected_others_starts_when_its_window_ends() -> None:
    machine = Machine(lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    machine.worker_up()
    run_id = machine.submit(session="slow")
    machine.act(RunAction.HOLD, run_id)
    machine.act(RunAction.RELEASE, run_id)
    assert machine.state_of(run_id) is State.SCHEDULED
    assert machine.last.wake_at is not None
    machine.advance_to(machine.last.wake_at)
    assert machine.dispatched() == [run_id]


def test_a_full_session_refuses_a_whole_submit() -> None:
    machine = Machine(lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    machine.worker_up()
    machine.submit(session="full")
    machine.submit(session="full")
    before = len(machine.store.runs_by_id)
    with pytest.raises(QueueFull):
        machine.submit(session="full")
    assert len(machine.store.runs_by_id) == before


@pytest.mark.behaviour("SES-5")
@pytest.mark.parametrize("action", SessionAction)
def test_a_request_that_comes_twice_at_once_acts_once(action: SessionAction) -> None:
    """Without a worker the first run of the session has its turn, and ends as soon as it is stopped."""
    machine = Machine(lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    runs = [machine.submit(session="serial") for _ in range(2)]
    decided = machine.step(*[("client", ActOnSession(7, "serial", action))] * 2)
    assert decided.problems == []
    ended = {SessionAction.STOP: 1, SessionAction.STOP_ALL: 2, SessionAction.RESET: 1}.get(action, 0)
    assert sum(machine.run(run_id).ended_at is not None for run_id in runs) == ended


@pytest.mark.behaviour("SES-6")
def test_a_run_held_after_its_turn_waits_for_the_next_one_over_a_restart() -> None:
    machine = Machine(lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    machine.worker_up()
    first, second = (machine.submit(session="serial") for _ in range(2))
    machine.act(RunAction.HOLD, first)
    machine.step(("one", Returned(first, machine.run(first).fence, "could not begin")))
    assert (machine.state_of(first), machine.state_of(second)) == (State.PENDING, State.DISPATCHED)
    machine.act(RunAction.RELEASE, first)
    for _ in range(2):
        machine.restart_with_worker(held=[machine.held(second)])
        assert (machine.state_of(first), machine.state_of(second)) == (State.SCHEDULED, State.DISPATCHED)
    machine.finished(second)
    assert machine.state_of(first) is State.DISPATCHED


@pytest.mark.behaviour("SES-6")
def test_a_run_held_between_two_attempts_keeps_its_turn_over_a_restart() -> None:
    machine = Machine(retrying_job(1), lanes={"main": 100}, limits=CoreLimits(session_patterns=PATTERNS))
    machine.worker_up()
    first = machine.running(session="serial")
    second = machine.submit(session="serial")
    machine.finished(first, "failed")
    machine.act(RunAction.HOLD, first)
    machine.advance(5.0)
    for _ in range(2):
        assert (machine.state_of(first), machine.state_of(second)) == (State.PENDING, State.SCHEDULED)
        machine.restart_with_worker()
    machine.act(RunAction.RELEASE, first)
    assert (machine.state_of(first), machine.state_of(second)) == (State.DISPATCHED, State.SCHEDULED)

"""The machine under random commands: stale, doubled and reordered messages, dying workers, a dying scheduler."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings, stateful

from interlock.core.step import Command, step
from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.letter import CODE_OF, DeadLetter
from interlock.model.run import Run
from interlock.model.state import HOLDS_SLOT, ON_WORKER, TERMINAL, State
from interlock.wire import message as m
from interlock.wire.command import Define, Stalled, StartDraining
from interlock.wire.request import NewRun
from soak.simulation.history import replay
from tests.core.machine import START, Machine, at_once
from tests.core.test_records import contents

LANES = {"main": 2, "side": 1}
STEADY = [
    Job(id="plain"),
    Job(id="retried", retry=Retry(max_retries=2, initial_delay=5, jitter=0.5), lane="side"),
    Job(id="alone", executor=ExecutorKind.PROCESS, max_crashes=2, max_runtime=40.0),
]
CHANGED = [Job(id="plain", lane="side", max_crashes=1), *STEADY[1:]]
WORKERS = ("one", "two")
SPANS = st.sampled_from([0.0, 0.5, 5.0, 10.0, 29.5, 30.0, 60.0])
NOT_STORED_AT_ONCE = {"payload", "heartbeats"}
"""a payload may be left in the store; heartbeats are written with whatever changes next"""


class SimulatedWorker:
    """What a worker has, and the messages that are still on their way to it."""

    def __init__(self) -> None:
        self.connected = False
        self.held: dict[str, int] = {}
        self.arriving: list[m.Message] = []


class SchedulerMachine(stateful.RuleBasedStateMachine):
    @stateful.initialize()
    def begin(self) -> None:
        self.machine = Machine(*STEADY, lanes=LANES)
        self.workers = {name: SimulatedWorker() for name in WORKERS}
        self.attempts: list[tuple[str, str, int]] = []
        """every attempt there ever was: worker, run, fence"""
        self.fences: dict[str, int] = {}
        self.ends: dict[str, str] = {}

    def step(self, *commands: Command) -> None:
        """One pass, and what it sends put on the way."""
        self.settle(self.machine.step(*commands).sends)

    def settle(self, sends: dict[str, list[m.Message]]) -> None:
        for name, messages in sends.items():
            worker = self.workers[name]
            for message in messages:
                if isinstance(message, m.Dispatch):
                    assert message.fence > self.fences.get(message.run_id, 0), "every dispatch raises the fence"
                    self.fences[message.run_id] = message.fence
                    self.attempts.append((name, message.run_id, message.fence))
            if worker.connected:
                worker.arriving += messages

    # ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @stateful.rule(
        job=st.sampled_from(STEADY),
        lane=st.sampled_from([None, "main", "side", "nowhere"]),
        key=st.sampled_from([None, None, None, "a", "b"]),
        wait=st.sampled_from([None, None, 3.0, 20.0]),
        deadline=st.sampled_from([None, None, 0.0, 25.0, 70.0]),
        occurrence=st.booleans(),
        size=st.sampled_from([2, 300]),
    )
    def submit(
        self, job: Job, lane: str | None, key: str | None, wait: float | None, deadline: float | None,
        occurrence: bool, size: int,
    ) -> None:  # fmt: skip
        now = self.machine.wall
        new = NewRun(
            job.id,
            b'"' + b"x" * size + b'"',
            lane=lane,
            idempotency_key=key,
            at=None if wait is None or occurrence else now + wait,
            deadline=None if deadline is None else now + (wait or 0) + deadline,
            occurrence=float(int(now) + (wait or 0)) if occurrence else None,
        )
        self.step(("client", self.machine.command(new)))

    @stateful.rule(data=st.data())
    @stateful.precondition(lambda self: self.machine.store.runs_by_id)
    def cancel(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.machine.store.runs_by_id)))
        self.step(self.machine.cancel_command(run_id))

    # ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @stateful.rule(
        name=st.sampled_from(WORKERS), slots=st.integers(0, 3), processes=st.integers(0, 2), draining=st.booleans()
    )
    def joins(self, name: str, slots: int, processes: int, draining: bool) -> None:
        worker = self.workers[name]
        worker.connected = True
        worker.arriving.clear()
        held = [m.Held(*one) for one in worker.held.items()]
        self.settle(self.machine.worker_up(name, slots, processes, held, draining).sends)

    @stateful.rule(name=st.sampled_from(WORKERS), dead=st.booleans())
    def goes(self, name: str, dead: bool) -> None:
        worker = self.workers[name]
        worker.connected = False
        worker.arriving.clear()
        if dead:
            worker.held.clear()
        self.settle(self.machine.worker_down(name, dead).sends)

    @stateful.rule(name=st.sampled_from(WORKERS))
    def takes_what_arrived(self, name: str) -> None:
        worker = self.workers[name]
        arrived, worker.arriving = worker.arriving, []
        for message in arrived:
            if isinstance(message, m.Dispatch):
                worker.held[message.run_id] = message.fence
            elif isinstance(message, (m.Stop, m.Settled)) and worker.held.get(message.run_id) == message.fence:
                del worker.held[message.run_id]

    def about(self, run_id: str, fence: int, data: st.DataObject) -> m.Message:
        outcome = data.draw(st.sampled_from(["succeeded", "succeeded", "failed", "failed_fatal", "cancelled", "odd"]))
        choices: list[m.Message] = [
            m.Started(run_id, fence),
            m.Finished(run_id, fence, outcome, b"1" if outcome == "succeeded" else None),
            m.Finished(run_id, fence, "failed", None, "no", 1),
            m.Lost(run_id, fence, "died", -9),
            m.Returned(run_id, fence, "no room"),
            m.Progress(run_id, fence, 5.0, "on it"),
            m.LogMessage(run_id, fence, data.draw(st.integers(1, 3)), START, "info", "line"),
            m.Checkpoint(run_id, fence, b"2"),
            m.Heartbeat([m.Held(run_id, fence, data.draw(st.booleans()))]),
        ]
        return data.draw(st.sampled_from(choices))

    @stateful.rule(data=st.data(), name=st.sampled_from(WORKERS))
    def reports_on_what_it_has(self, data: st.DataObject, name: str) -> None:
        held = self.workers[name].held
        if held:
            run_id = data.draw(st.sampled_from(sorted(held)))
            copies = data.draw(st.integers(1, 2))
            self.step(*[(name, self.about(run_id, held[run_id], data))] * copies)

    @stateful.rule(data=st.data())
    @stateful.precondition(lambda self: self.attempts)
    def says_anything_about_the_past(self, data: st.DataObject) -> None:
        commands: list[Command] = []
        for _ in range(data.draw(st.integers(1, 3))):
            name, run_id, fence = data.draw(st.sampled_from(self.attempts))
            stranger = data.draw(st.sampled_from([name, name, *WORKERS, "stranger"]))
            off = data.draw(st.sampled_from([0, 0, 0, -1, 1]))
            commands.append((stranger, self.about(run_id, fence + off, data)))
        self.workers.setdefault("stranger", SimulatedWorker())
        self.step(*commands)

    @stateful.rule(name=st.sampled_from(WORKERS))
    def beats(self, name: str) -> None:
        self.step((name, m.Heartbeat([m.Held(*one) for one in self.workers[name].held.items()])))

    @stateful.rule(name=st.sampled_from(WORKERS))
    def leaves(self, name: str) -> None:
        self.step((name, m.Leaving()))

    # ── the scheduler itself ────────────────────────────────────────────────────────────────────────────────────────

    @stateful.rule(span=SPANS)
    def time_passes(self, span: float) -> None:
        self.settle(self.machine.advance(span).sends)

    @stateful.rule(span=SPANS)
    def stands_still(self, span: float) -> None:
        self.machine.elapsed += span
        self.step(("", Stalled(span)))

    @stateful.rule(jobs=st.sampled_from([STEADY, CHANGED]))
    def is_told_other_definitions(self, jobs: list[Job]) -> None:
        self.machine.jobs = jobs
        self.step(("", Define(0, jobs)))

    @stateful.rule(drained=st.booleans(), name=st.sampled_from(WORKERS))
    def is_killed_and_comes_back(self, drained: bool, name: str) -> None:
        """At its worst moment: it has decided, and what it decided is not stored."""
        machine = self.machine
        new = machine.command(NewRun("plain", b"{}"))
        doomed: list[Command] = [("client", new), (name, m.Leaving())]
        doomed += [(name, m.Finished(*one, "succeeded", b"3")) for one in self.workers[name].held.items()]
        stored = contents(machine.store)
        if drained:
            self.step(("", StartDraining()))
        else:
            step(machine.state, doomed, machine.now, machine.rng)
            assert contents(machine.store) == stored
        for worker in self.workers.values():
            worker.connected = False
            worker.arriving.clear()
        machine.restart()
        self.settle(machine.last.sends)

    @stateful.rule()
    def stores_a_batch_twice(self) -> None:
        before = contents(self.machine.store)
        self.machine.store.apply(self.machine.last.batch)
        assert contents(self.machine.store) == before

    # ── what always holds ───────────────────────────────────────────────────────────────────────────────────────────

    @stateful.invariant()
    def memory_and_store_agree(self) -> None:
        machine = self.machine
        stored = {run.id: run for run in machine.store.runs_by_id.values() if run.state not in TERMINAL}
        assert machine.state.runs.keys() == stored.keys()
        for run_id, run in machine.state.runs.items():
            assert different(run, stored[run_id]) <= NOT_STORED_AT_ONCE

    @stateful.invariant()
    def every_history_replays_to_its_state(self) -> None:
        for run in self.machine.store.runs_by_id.values():
            history = at_once(self.machine.store.history(run.id))
            assert replay(history) is run.state
            assert (len(history), history[-1].before) == (run.seq, run.previous)
            assert (run.ended_at is not None) == (run.state in TERMINAL)

    @stateful.invariant()
    def lanes_hold_exactly_who_executes_and_no_more_than_their_limit(self) -> None:
        runs = self.machine.state.runs.values()
        for name, lane in self.machine.state.lanes.items():
            executing = {run.id: run for run in runs if run.lane == name and run.state in HOLDS_SLOT}
            assert lane.holding == executing
            assert len(executing) <= LANES[name]
            waiting = sorted(run.id for run in runs if run.lane == name and run.state is State.SCHEDULED)
            queued = [one for queue in lane.queues() for _, one in queue if one.state is State.SCHEDULED]
            assert sorted(run.id for run in queued) == waiting
            assert lane.waiting == len(waiting)

    @stateful.invariant()
    def a_run_has_one_live_attempt_at_the_most(self) -> None:
        machine = self.machine
        live = [
            (one.run.id, worker.id) for worker in machine.state.workers.values() for one in worker.attempts.values()
        ]
        executing = [(run.id, run.worker_id) for run in machine.state.runs.values() if run.state in ON_WORKER]
        assert sorted(live) == sorted(executing, key=str)
        for worker in machine.state.workers.values():
            assert worker.apart.keys() <= worker.attempts.keys()
        for run_id, run in machine.state.runs.items():
            holders = [name for name, worker in self.workers.items() if worker.held.get(run_id) == run.fence]
            assert len(holders) <= 1, "two workers have the same fence of one run"

    @stateful.invariant()
    def what_has_ended_stays_as_it_is(self) -> None:
        machine = self.machine
        for run in machine.store.runs_by_id.values():
            if run.state in TERMINAL:
                assert self.ends.setdefault(run.id, repr(run)) == repr(run)
        ended = [run.id for run in machine.ended]
        assert len(set(ended)) == len(ended)
        assert set(ended) == set(self.ends)
        letters = list(machine.store.all_of(DeadLetter))
        stored = machine.store.runs_by_id.values()
        assert sorted(letters) == sorted(run.id for run in stored if run.state in CODE_OF)

    @stateful.invariant()
    def a_key_has_one_run(self) -> None:
        runs = self.machine.store.runs_by_id.values()
        keys = [(run.tenant, run.idempotency_key) for run in runs if run.idempotency_key is not None]
        assert len(set(keys)) == len(keys)

    @stateful.invariant()
    def no_transition_was_refused(self) -> None:
        assert self.machine.last.problems == []

    def teardown(self) -> None:
        """Left alone with a good worker, everything comes to an end."""
        machine = getattr(self, "machine", None)
        if machine is None:
            return
        machine.restart()
        for _ in range(200):
            if not machine.state.runs:
                break
            machine.worker_up("good", 10, 10, [m.Held(run.id, run.fence) for run in machine.state.runs.values()])
            for run in list(machine.state.runs.values()):
                if run.worker_id == "good":
                    machine.step(("good", m.Finished(run.id, run.fence, "succeeded", b"1")))
            machine.advance(10)
        assert machine.state.runs == {}
        assert all(not lane.holding for lane in machine.state.lanes.values())


def different(one: Run, other: Run) -> set[str]:
    return {name for name in Run.__struct_fields__ if value(one, name) != value(other, name)}


def value(run: Run, name: str) -> Any:
    return getattr(run, name)


SETTINGS = settings(max_examples=300, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.behaviour("RUN-3", "RUN-4", "RUN-7", "RUN-8", "RUN-15", "LAN-1", "LAN-4", "REC-6")
def test_the_machine_under_random_commands() -> None:
    stateful.run_state_machine_as_test(SchedulerMachine, settings=SETTINGS)

"""Rates, and limits for each value of an argument: never exceeded, whatever happens, and nothing stands still."""

from collections import Counter
from itertools import pairwise
from math import nextafter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings, stateful
from msgspec import to_builtins

from interlock.core.explain import explain
from interlock.core.lanes.gate import REST, SESSION_RATE
from interlock.core.sessions.session import Sessions
from interlock.core.state import CoreLimits
from interlock.error import BadValue
from interlock.model.job import Job, KeyLimit
from interlock.model.lane import LaneAction, LaneSpec, LaneStatus
from interlock.model.session import SessionOptions
from interlock.model.state import ON_WORKER, State
from interlock.wire.command import Define
from interlock.wire.lane_request import ActOnLane
from interlock.wire.message import Dispatch, Usage
from tests.core.machine import AT_ONCE, START, Machine

LIMITED = Job(id="limited", limit=KeyLimit(key="who", max=2))
RATED = Job(id="rated", rate=2.0, burst=3)
BOTH = Job(id="both", rate=1.0, limit=KeyLimit(key="who", max=1))
JOBS = [LIMITED, RATED, BOTH, Job(id="free")]
SLOW = LaneSpec(limit=5, rate=4.0, burst=2)
CHAT = SessionOptions(debounce=0.0, cap=100, max_concurrent=4, rate=2.0, burst=2)
LIMITS = CoreLimits(session_patterns={"chat-*": to_builtins(CHAT)})

CHATS = ("chat-1", "chat-2")


def payload(who: str) -> bytes:
    return f'{{"who": "{who}"}}'.encode()


def check_rate(starts: list[float], rate: float | None, burst: int) -> None:
    """Check every window that begins and ends with a start."""
    assert rate is not None
    for first, begin in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= burst + (starts[last] - begin) * rate + 1e-6


def assert_no_session_rates(machine: Machine) -> None:
    machine.step()
    kept = [name for name in [*machine.state.gates, *machine.store.memos] if name.startswith(SESSION_RATE)]
    assert not kept


class GateMachine(stateful.RuleBasedStateMachine):
    @stateful.initialize(limit=st.integers(1, 8))
    def begin(self, limit: int) -> None:
        self.machine = Machine(*JOBS, lanes={"main": limit, "slow": SLOW}, limits=LIMITS)
        self.machine.worker_up(slots=100)
        self.starts: dict[str, list[float]] = {name: [] for name in (*(job.id for job in JOBS), "slow", *CHATS)}
        self.who: dict[str, tuple[str, str]] = {}
        self.seen = 0

    @stateful.rule(
        job=st.sampled_from(JOBS),
        who=st.sampled_from("ab"),
        tenant=st.sampled_from("xy"),
        priority=st.sampled_from(["critical", "batch"]),
        lane=st.sampled_from(["main", "slow"]),
        session=st.sampled_from([None, *CHATS]),
    )
    def submit(self, job: Job, who: str, tenant: str, priority: str, lane: str, session: str | None) -> None:
        tenant = tenant if session is None else "x"
        run_id = self.machine.submit(job.id, payload(who), tenant=tenant, priority=priority, lane=lane, session=session)
        self.who[run_id] = (job.id, who)

    @stateful.precondition(lambda self: self.executing())
    @stateful.rule(place=st.integers(0, 100), outcome=st.sampled_from(["succeeded", "failed"]))
    def finish(self, place: int, outcome: str) -> None:
        runs = self.executing()
        self.machine.finished(runs[place % len(runs)], outcome)

    @stateful.precondition(lambda self: self.waiting())
    @stateful.rule(place=st.integers(0, 100))
    def cancel(self, place: int) -> None:
        runs = self.waiting()
        self.machine.cancel(runs[place % len(runs)])

    @stateful.precondition(lambda self: self.executing())
    @stateful.rule(place=st.integers(0, 100), tokens=st.sampled_from([59, 60]))
    def report_usage(self, place: int, tokens: int) -> None:
        run = self.machine.run(self.executing()[place % len(self.executing())])
        self.machine.step((str(run.worker_id), Usage(run.id, run.fence, tokens, 100)))

    @stateful.rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.machine.advance(seconds)

    @stateful.rule(
        lane=st.sampled_from(["main", "slow"]), action=st.sampled_from([LaneAction.PAUSE, LaneAction.RESUME])
    )
    def act_on_lane(self, lane: str, action: LaneAction) -> None:
        self.machine.step(("client", ActOnLane(7, lane, action)))

    @stateful.rule()
    def restart(self) -> None:
        self.machine.restart()
        self.machine.worker_up(slots=100)

    def executing(self) -> list[str]:
        return [run.id for run in self.machine.state.runs.values() if run.state in ON_WORKER]

    def waiting(self) -> list[str]:
        return [run.id for run in self.machine.state.runs.values() if run.state is State.SCHEDULED]

    @stateful.invariant()
    def nothing_is_exceeded(self) -> None:
        if not hasattr(self, "seen"):
            return
        for _, message in self.machine.sent[self.seen :]:
            if isinstance(message, Dispatch):
                run = self.machine.run(message.run_id)
                assert self.machine.state.lanes[run.lane].status is LaneStatus.OPEN
                for name in {message.job_id, run.lane, str(run.session)} & self.starts.keys():
                    self.starts[name].append(self.machine.elapsed)
                if (
                    run.session is not None
                    and run.attempt == 1
                    and self.machine.state.of(Sessions)[run.tenant, run.session].is_busy
                ):
                    live = self.machine.state.runs.values()
                    assert not [one for one in live if one.session == run.session and one.attempt and one is not run]
        self.seen = len(self.machine.sent)
        counted = Counter(self.who[run_id] for run_id in self.executing())
        for job in JOBS:
            if job.limit is not None:
                most = job.limit.max or 0
                assert all(number <= most for (job_id, _), number in counted.items() if job_id == job.id)
            if job.rate is not None:
                check_rate(self.starts[job.id], job.rate, job.burst)
        check_rate(self.starts["slow"], SLOW.rate, SLOW.burst)
        for name in CHATS:
            check_rate(self.starts[name], CHAT.rate, CHAT.burst)

    def teardown(self) -> None:
        """Every run comes to its end, without a push from outside, once the lanes are open. Then nothing is left of the
        rates of sessions."""
        for lane in ("main", "slow") if hasattr(self, "machine") else ():
            self.machine.step(("client", ActOnLane(7, lane, LaneAction.RESUME)))
        for _ in range(1000):
            if not hasattr(self, "machine") or not self.machine.state.runs:
                break
            for run_id in self.executing():
                self.machine.finished(run_id)
            if self.machine.state.runs and not self.executing():
                assert self.machine.last.wake_at is not None, "it would sleep for ever"
                self.machine.advance_to(self.machine.last.wake_at)
        else:
            raise AssertionError(f"{len(self.machine.state.runs)} runs are left")
        if hasattr(self, "machine"):
            self.machine.advance(REST + CHAT.burst / (CHAT.rate or 1))
            assert_no_session_rates(self.machine)


@pytest.mark.behaviour("LAN-8", "LAN-9", "SES-8")
def test_rates_and_limits_under_random_commands() -> None:
    stateful.run_state_machine_as_test(
        GateMachine,
        settings=settings(max_examples=150, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.behaviour("LAN-8")
@pytest.mark.parametrize(("job", "lane"), [("rated", 100), ("free", LaneSpec(limit=100, rate=2.0, burst=3))])
def test_a_rate_spaces_the_starts_and_allows_a_burst(job: str, lane: int | LaneSpec) -> None:
    machine = Machine(RATED, Job(id="free"), lanes={"main": lane})
    machine.worker_up(slots=100)
    runs = machine.submit_many(7, job)
    times: list[float] = []
    while len(times) < 7:
        times += [machine.elapsed] * (len(machine.dispatched()) - len(times))
        assert machine.dispatched() == runs[: len(times)]
        if len(times) < 7:
            assert machine.last.wake_at is not None
            machine.advance_to(machine.last.wake_at)
    assert [round(after - before, 3) for before, after in pairwise(times)] == [0, 0, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.behaviour("RUN-21", "LAN-8")
@pytest.mark.parametrize("burst", [1, 4])
def test_a_run_is_said_to_wait_for_a_rate_until_it_is_tried_again(burst: int) -> None:
    """Another alarm may ring a rounding error earlier: nothing looks at this rate then."""
    machine = Machine(Job(id="rated", rate=10.0, burst=burst))
    machine.worker_up()
    run_id = machine.submit_many(burst + 1, "rated")[-1]
    gate = machine.state.gates.rate("rate:job:rated", 10.0, burst)
    for elapsed, expected in ((nextafter(gate.opens_at, 0.0), "rate"), (gate.opens_at, "ready")):
        assert machine.state_of(run_id) is State.SCHEDULED
        machine.elapsed = elapsed
        assert explain(machine.state, machine.run(run_id), machine.now).reasons[0].kind == expected
        machine.step()
    assert machine.state_of(run_id) is State.DISPATCHED


BY_PATTERN = {"chat*": {"rate": 2.0, "burst": 2, "debounce": 0.0, "max_concurrent": 100, "cap": 100}}


@pytest.mark.behaviour("LAN-8", "SES-10")
@pytest.mark.parametrize("by", ["pattern", "job", "submit"])
def test_each_session_has_its_own_rate_and_a_restart_does_not_begin_it_anew(by: str) -> None:
    given = BY_PATTERN["chat*"]
    job = Job(id="work", sessions=given if by == "job" else None)
    limits = CoreLimits(session_patterns=BY_PATTERN if by == "pattern" else AT_ONCE)
    machine = Machine(job, lanes={"main": 100}, limits=limits)
    machine.worker_up(slots=100)
    runs = [machine.submit(session="chat", session_options=given if by == "submit" else None) for _ in range(5)]
    assert machine.dispatched() == runs[:2]
    other = machine.submit(session="chat 2", session_options=given if by == "submit" else None)
    free = machine.submit()
    assert machine.dispatched() == [*runs[:2], other, free]
    for number in (2, 3, 4):
        machine.restart_with_worker(slots=100, held=[machine.held(run_id) for run_id in machine.dispatched()])
        assert machine.dispatched()[4:] == runs[2:number]
        assert machine.last.wake_at is not None
        machine.advance_to(machine.last.wake_at)
        assert machine.wall == START + (number - 1) * 0.5
        assert machine.dispatched()[4:] == runs[2 : number + 1]
    for run_id in [*runs, other, free]:
        machine.finished(run_id)
    machine.restart()
    machine.advance(REST + 1)
    assert_no_session_rates(machine)


@pytest.mark.behaviour("LAN-8")
def test_a_new_rate_of_a_session_counts_for_runs_that_wait_for_the_one_before() -> None:
    slow = {"rate": 1.0 / 86400, "debounce": 0.0, "max_concurrent": 3}
    machine = Machine(Job(id="work", sessions=slow), Job(id="other", sessions={"debounce": 0.0, "max_concurrent": 9}))
    machine.worker_up()
    first, second = machine.submit_many(2, session="a")
    third = machine.submit(session="a", session_options={"rate": 2.0})
    assert machine.dispatched() == [first]
    machine.advance(0.5)
    assert machine.dispatched() == [first, second]
    machine.advance(0.5)
    assert machine.dispatched() == [first, second, third]
    begun = machine.submit_many(2, session="b")
    free = machine.submit("other", session="b")
    assert set(machine.dispatched()[3:]) == {*begun, free}


@pytest.mark.behaviour("LAN-8", "LAN-9")
def test_a_queue_that_parks_at_another_gate_leaves_its_turn_to_the_next() -> None:
    machine = Machine(BOTH, lanes={"main": 100})
    machine.worker_up(slots=100)
    first = machine.submit("both", payload("a"))
    machine.submit("both", payload("a"))
    free = machine.submit("both", payload("b"))
    machine.advance(1.0)
    assert machine.dispatched() == [first, free]


@pytest.mark.behaviour("LAN-3", "LAN-8")
def test_a_paused_lane_does_not_take_the_turn_of_another_at_a_rate() -> None:
    machine = Machine(RATED, lanes={"main": 100, "other": 100})
    machine.worker_up(slots=100)
    burst = machine.submit_many(3, "rated")
    paused, later = machine.submit("rated", lane="other"), machine.submit("rated")
    machine.step(("client", ActOnLane(7, "other", LaneAction.PAUSE)))
    machine.advance(0.5)
    assert machine.dispatched() == [*burst, later]
    machine.step(("client", ActOnLane(7, "other", LaneAction.RESUME)))
    machine.advance(0.5)
    assert machine.dispatched() == [*burst, later, paused]


@pytest.mark.behaviour("LAN-9")
def test_runs_with_another_value_pass_by() -> None:
    machine = Machine(LIMITED, lanes={"main": 100})
    machine.worker_up(slots=100)
    same = [machine.submit("limited", payload("a")) for _ in range(5)]
    other = machine.submit("limited", payload("b"))
    without = machine.submit("limited", b"{}")
    assert machine.dispatched() == [*same[:2], other, without]
    machine.finished(same[1])
    assert machine.dispatched()[-1] == same[2]


@pytest.mark.behaviour("LAN-8", "LAN-9")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", "0/s"),
        ("rate", "-1/s"),
        ("rate", "10"),
        ("rate", "10/w"),
        ("rate", 0.0),
        ("rate", 1e-300),
        ("rate", float("inf")),
        ("rate", "0.000000001/d"),
        ("rate", "0.0027/d"),
        ("burst", 0),
        ("limit", {"key": "a"}),
    ],
)
def test_what_is_no_rate_or_limit_is_refused(field: str, value: object) -> None:
    with pytest.raises(BadValue) as caught:
        Job(id="job", **{field: value})  # type: ignore[arg-type]  # on purpose
    assert (caught.value.field, caught.value.value) == (field, value)


@pytest.mark.behaviour("LAN-8")
@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_step_of_the_wall_clock_neither_pays_nor_adds_debt(step: float) -> None:
    machine = Machine(Job(id="work", rate=1 / 3600))
    machine.worker_up()
    first, second = machine.submit_many(2)
    machine.wall += step
    machine.advance(1)
    machine.restart_with_worker(held=[machine.held(first)])
    machine.advance(3590)
    assert machine.state_of(second) is State.SCHEDULED
    machine.advance(10)
    assert machine.state_of(second) is State.DISPATCHED


@pytest.mark.behaviour("LAN-9")
@pytest.mark.parametrize("before", [None, KeyLimit(key="other", max=1)])
def test_runs_ahead_of_their_time_follow_a_new_limit(before: KeyLimit | None) -> None:
    machine = Machine(Job(id="work", limit=before))
    machine.worker_up()
    for number in range(3):
        machine.submit(payload=b'{"customer": 1, "other": %d}' % number, delay=5.0)
    machine.step(("", Define(0, [Job(id="work", limit=KeyLimit(key="customer", max=1))])))
    machine.advance(5)
    assert len(machine.dispatched()) == 1


@pytest.mark.behaviour("LAN-9", "SES-4")
def test_a_run_that_has_collected_others_counts_by_its_last_payload() -> None:
    limits = CoreLimits(session_patterns={"*": {"debounce": 1.0}})
    machine = Machine(Job(id="work", limit=KeyLimit(key="customer", max=1)), limits=limits)
    machine.worker_up()
    machine.submit(payload=b'{"customer": 2}')
    collector = machine.submit(payload=b'{"customer": 1}', session="chat")
    machine.submit(payload=b'{"customer": 2}', session="chat")
    machine.advance(1)
    assert machine.state_of(collector) is State.SCHEDULED


@pytest.mark.behaviour("LAN-9")
@pytest.mark.parametrize(("most", "at_once"), [(None, 3), (2, 2)])
def test_no_more_runs_with_one_value_start_than_the_rate_of_their_limit(most: int | None, at_once: int) -> None:
    """Two starts a second for each value, and three at once; others pass by, restarts included."""
    machine = Machine(Job(id="work", limit=KeyLimit(key="who", max=most, rate=2.0, burst=3)))
    machine.worker_up()
    for _ in range(20):
        machine.submit(payload=payload("a"))
    machine.submit(payload=payload("b"))
    started: list[tuple[float, bytes]] = []

    def work() -> None:
        for run in [one for one in machine.state.runs.values() if one.state is State.DISPATCHED]:
            started.append((machine.elapsed, run.payload or b""))
            machine.finished(run.id)

    active = [run for run in machine.state.runs.values() if run.state in ON_WORKER]
    assert Counter(run.payload for run in active) == {payload("a"): at_once, payload("b"): 1}
    waits = next(run for run in machine.state.runs.values() if run.state is State.SCHEDULED)
    reasons = [(str(one.kind), one.text) for one in explain(machine.state, waits, machine.now).reasons]
    if most is None:
        assert ("rate", 'waits for the rate of job work for "a", which allows the next start in 0.5s') in reasons
    else:
        assert reasons[0][0] == "limit"
    while machine.state.runs:
        work()
        if len(started) == 9:
            machine.restart_with_worker()
        if machine.state.runs and not any(run.state in ON_WORKER for run in machine.state.runs.values()):
            assert machine.last.wake_at is not None, "it would sleep for ever"
            machine.advance_to(machine.last.wake_at)
    times = [at for at, who in started if who == payload("a")]
    assert len(times) == 20
    check_rate(times, 2.0, 3)
    assert times[-1] - times[0] == pytest.approx(8.5), "three at once, and then one every half second"
    machine.advance(70)
    machine.advance(70)
    assert [name for name in machine.state.gates if "work:" in name] == [], "idle values take no memory"
    assert [name for name in machine.store.memos if "work:" in name] == [], "nor room in the store"

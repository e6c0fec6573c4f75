"""Schedules whatever happens: no drift, no gap, nothing twice, however often and for how long the scheduler is away."""

from math import floor, inf, nextafter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from interlock.core.timetable.table import first_time, following, newest_between, times_between
from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.run import CATCH_UP, SCHEDULE
from interlock.model.schedule.schedule import CatchUp, Schedule
from interlock.model.state import GUARDED, TERMINAL, State
from interlock.wire.command import Define
from interlock.wire.request import SetPaused
from tests.core.machine import START, Machine
from tests.core.scheduling import LIMITS, check_records, machine_of, pass_time, stop_for, times
from tests.core.scheduling import job as scheduled_job

ANCHORS = st.floats(1e9, 2e9)
INTERVALS = st.integers(1, 100_000).map(float) | st.floats(1.0, 1e6)


@st.composite
def every(draw: st.DrawFn) -> Schedule:
    interval = draw(INTERVALS)
    return Schedule(every=interval, wait=draw(st.floats(0, interval, exclude_max=True)))


CRON = st.builds(
    lambda minute, hour, tz: Schedule(cron=f"{minute} {hour} * * *", tz=tz),
    st.sampled_from(["*", "*/7", "30", "0,59"]),
    st.sampled_from(["*", "2", "*/5", "0-3"]),
    st.sampled_from(["UTC", "Europe/Paris", "Australia/Lord_Howe"]),
)


@pytest.mark.behaviour("TIM-2")
@given(every(), ANCHORS, st.integers(0, 10**7))
def test_every_never_drifts(schedule: Schedule, anchor: float, place: int) -> None:
    assert schedule.every is not None
    exact = anchor + schedule.wait + place * schedule.every
    found = following(schedule, anchor, exact - schedule.every / 2)
    assert found == exact
    after = following(schedule, anchor, exact)
    assert after == anchor + schedule.wait + (place + 1) * schedule.every


@pytest.mark.behaviour("TIM-7")
@given(every() | CRON, ANCHORS, st.floats(-1e8, 1e8))
def test_the_next_time_is_always_later_and_none_is_left_out(schedule: Schedule, anchor: float, distance: float) -> None:
    instant = anchor + distance
    found = following(schedule, anchor, instant)
    assert found is not None
    assert found > instant
    assert following(schedule, anchor, (instant + found) / 2) == found or (instant + found) / 2 >= found


@example(Schedule(every=1.0, wait=0.001), 1e9, 0.001, 1)
@given(every() | CRON, ANCHORS, st.floats(0, 1e5), st.integers(0, 30))
def test_the_newest_times_are_the_last_of_all(schedule: Schedule, anchor: float, span: float, most: int) -> None:
    span = min(span, (schedule.every or 60.0) * 50)
    end = anchor + span
    # One excludes its end, the other includes it.
    every_one = times_between(schedule, anchor, anchor, nextafter(end, inf), 100)
    newest = newest_between(schedule, anchor, anchor, end, most)
    assert newest == (every_one[-most:] if most else [])


@given(every(), ANCHORS)
def test_the_first_time_is_after_the_wait(schedule: Schedule, anchor: float) -> None:
    assert first_time(schedule, anchor) == anchor + schedule.wait


class Timetable(RuleBasedStateMachine):
    """One job, and a scheduler that works, stands still, is killed, is told of changes; against a model that only
    counts seconds."""

    @initialize(
        interval=st.sampled_from([1, 3, 7, 20, 61]),
        wait=st.sampled_from([0, 0.5]),
        catch_up=st.sampled_from(CatchUp),
        window=st.sampled_from([5, 60, 1000]),
        most=st.sampled_from([0, 1, 3, 100]),
        parallel=st.sampled_from([None, 1, 2]),
    )
    def begin(
        self, interval: int, wait: float, catch_up: CatchUp, window: int, most: int, parallel: int | None
    ) -> None:
        schedule = Schedule(every=interval, wait=wait, catch_up=catch_up, catch_up_window=window, catch_up_max=most)
        self.job = Job(id="work", schedule=schedule, constraints=Constraints(max_concurrent_runs=parallel))
        self.machine = Machine(self.job, limits=LIMITS)
        self.machine.worker_up()
        self.is_paused = False
        self.paused_spans: list[tuple[float, float]] = []

    @rule(seconds=st.floats(0.01, 30))
    def works(self, seconds: float) -> None:
        end = self.machine.wall + seconds
        while self.machine.wall < end:
            wake = self.machine.last.wake_at
            upcoming = end if wake is None else min(end, max(wake, self.machine.wall))
            self.machine.advance(upcoming - self.machine.wall)
            if upcoming == end:
                break

    @rule(seconds=st.sampled_from([0.5, 2, 9, 15, 70, 400]))
    def stands_still(self, seconds: float) -> None:
        self.machine.wall += seconds
        self.machine.elapsed += seconds
        self.settle()

    @rule(seconds=st.sampled_from([0, 0.5, 5, 30, 400, 900]))
    def is_killed(self, seconds: float) -> None:
        self.machine.wall += seconds
        self.machine.elapsed += seconds
        live = [run.id for run in self.machine.state.runs.values() if run.worker_id is not None]
        self.machine.restart()
        self.machine.worker_up(held=[self.machine.held(run_id) for run_id in live])
        self.settle()

    def settle(self) -> None:
        for _ in range(8):
            self.machine.step()

    @rule(count=st.integers(1, 5), outcome=st.sampled_from(["succeeded", "failed"]))
    def runs_end(self, count: int, outcome: str) -> None:
        on_worker = [run for run in self.machine.state.runs.values() if run.worker_id is not None]
        for run in on_worker[:count]:
            if self.machine.state.runs.get(run.id) is run and run.state not in TERMINAL:
                self.machine.finished(run.id, outcome)

    @rule(lane=st.sampled_from(["main", "team"]))
    def is_told_of_a_change_beside_the_schedule(self, lane: str) -> None:
        self.job = Job(id="work", lane=lane, schedule=self.job.schedule, constraints=self.job.constraints)
        self.machine.jobs = [self.job]
        self.machine.step(("", Define(1, self.machine.jobs)))

    @rule()
    def pauses_or_goes_on(self) -> None:
        if self.is_paused:
            self.paused_spans[-1] = (self.paused_spans[-1][0], self.machine.wall)
        else:
            self.paused_spans.append((self.machine.wall, float("inf")))
        self.is_paused = not self.is_paused
        self.machine.step(("client", SetPaused(1, "work", self.is_paused, "client")))

    @invariant()
    def every_time_is_a_run_once(self) -> None:
        """All times up to the cursor, but for those in a pause; and none that is no time of it."""
        schedule = self.job.schedule
        assert schedule is not None
        assert schedule.every is not None
        entry = self.machine.state.timetable.entries["work"]
        assert entry.anchor == START, "a restart or a change beside it moves nothing"
        found = sorted(run.scheduled_at for run in self.machine.store.runs_by_id.values())
        places = [(at - START - schedule.wait) / schedule.every for at in found]
        assert all(place == floor(place) >= 0 for place in places)
        count = floor((entry.cursor - START - schedule.wait) / schedule.every) + 1
        wanted = [START + schedule.wait + place * schedule.every for place in range(count)]
        missing = set(wanted) - set(found)
        assert all(any(start <= at <= end for start, end in self.paused_spans) for at in missing), sorted(missing)[:5]
        due = [at for at in wanted if at <= self.machine.wall - 1e-6]
        if not self.is_paused and due:
            assert entry.cursor >= due[-1]

    @invariant()
    def no_more_are_live_than_may_be(self) -> None:
        runs = self.machine.state.runs.values()
        most = self.job.constraints.max_concurrent_runs or 1
        not_yet = {State.PRERUN, *GUARDED}
        live = [run for run in runs if run.origin in (SCHEDULE, CATCH_UP) and run.state not in not_yet]
        assert len(live) <= most
        waiting = [run for run in runs if run.state in not_yet and run.due_at is None and run.origin == SCHEDULE]
        assert len(waiting) <= 1
        if waiting:
            assert len(live) == most, "nothing waits that could go"

    @invariant()
    def the_memory_is_what_the_store_has(self) -> None:
        assert self.machine.store.schedules["work"] == self.machine.state.timetable.entries["work"].row()
        stored = {run.id for run in self.machine.store.runs_by_id.values() if run.state not in TERMINAL}
        assert stored == set(self.machine.state.runs)


@pytest.mark.behaviour("TIM-2", "TIM-5", "TIM-9", "TIM-10", "TIM-14", "TIM-18")
def test_whatever_happens_every_time_becomes_one_run() -> None:
    run_state_machine_as_test(
        Timetable,
        settings=settings(
            max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.behaviour("TIM-9")
@settings(max_examples=100, deadline=None)
@given(
    interval=st.integers(1, 100),
    before=st.floats(0, 300),
    stop=st.floats(0, 990),
    catch_up=st.sampled_from(CatchUp),
    window=st.floats(0, 1000),
    most=st.integers(0, 20),
)
def test_catching_up_runs_exactly_what_it_should_whatever_the_stop(
    interval: int, before: float, stop: float, catch_up: CatchUp, window: float, most: int
) -> None:
    schedule = Schedule(every=interval, catch_up=catch_up, catch_up_window=window, catch_up_max=most)
    machine = Machine(
        Job(id="work", schedule=schedule, constraints=Constraints(max_concurrent_runs=1000)), limits=LIMITS
    )
    machine.worker_up(slots=10_000)
    end = machine.wall + before
    while machine.wall < end:
        wake = machine.last.wake_at
        machine.advance((end if wake is None else min(end, max(wake, machine.wall))) - machine.wall)
    gone = machine.wall
    machine.wall += stop
    machine.elapsed += stop
    machine.restart()
    now = machine.wall
    times = [START + place * float(interval) for place in range(int((now - START) / interval) + 2)]
    missed = [at for at in times if gone < at < now - 1.0]
    recent = [at for at in missed if at >= now - window]
    wanted = {CatchUp.NONE: [], CatchUp.LATEST: recent[-1:], CatchUp.ALL: recent[-most:] if most else []}[catch_up]
    runs = {run.scheduled_at: run for run in machine.store.runs_by_id.values()}
    skipped = {at for at in missed if runs[at].state is State.SKIPPED}
    assert [at for at in missed if at not in skipped] == wanted
    assert all(runs[at].reason.startswith("missed") for at in skipped)
    assert all(runs[at].origin == CATCH_UP for at in wanted)


CLOCK_STEPS = st.tuples(
    st.sampled_from([-4000.0, -600.0, -80.0, -59.0, -30.0, 30.0, 59.0, 80.0, 600.0]),
    st.sampled_from([0.0, 5.0, 30.0]),  # seconds until the next step
    st.booleans(),  # whether the scheduler restarts as the clock is set
)


@pytest.mark.behaviour("TIM-9")
@example([(600.0, 0.0, False), (-600.0, 0.0, False)] * 3, 0.0)
@example([(80.0, 5.0, False), (-80.0, 5.0, True)] * 3, 3.0)
@example([(-59.0, 0.0, True), (-59.0, 0.0, False)], 0.0)
@example([(600.0, 5.0, False), *[(-59.0, 0.0, False)] * 10], 0.0)
@settings(max_examples=15, deadline=None)
@given(steps=st.lists(CLOCK_STEPS, max_size=8), length=st.sampled_from([0.0, 3.0]))
def test_no_step_of_the_clock_silences_a_schedule(steps: list[tuple[float, float, bool]], length: float) -> None:
    """A minute and the ten seconds of prerun after the last step, each second has a run, and none is only skipped
    unless the run before still executed."""
    machine = machine_of(scheduled_job(every=1))
    pass_time(machine, 5, length)
    for step, seconds, restarts in steps:
        pass_time(machine, 0)  # the work ends; it counts in wall time here
        machine.wall += step
        stop_for(machine, 0) if restarts else machine.step()
        pass_time(machine, seconds, length)
    pass_time(machine, 71, length)
    first = floor(machine.wall - START)
    pass_time(machine, 30, length)
    due = range(first, first + 30)
    executed = [int(at) for at in times(machine, State.SUCCEEDED, State.RUNNING)]
    assert len(set(executed)) == len(executed), "no occurrence executes twice"
    missed = [at for at in due if at not in executed]
    assert all(length and set(executed) & set(range(at - 4, at)) for at in missed), missed
    check_records(machine)

"""Sweeps: each way to miss a run is found and put right, once, and a run that waits for a reason is left alone."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.effects import PendingEffects
from interlock.core.recovery.rebuild import rebuild
from interlock.core.recovery.sweep import SLACK, PendingMoves, Sweeps, why_missed
from interlock.core.sessions.session import Sessions
from interlock.core.state import CoreLimits
from interlock.core.step import MACHINE
from interlock.model.bulk import RunAction
from interlock.model.facets import Approval, Facets, Judged
from interlock.model.guard import Action, Constraints, Hook
from interlock.model.job import Job
from interlock.model.policy.verdict import Ruling, Verdict
from interlock.model.run import RunFilter
from interlock.model.state import State
from interlock.wire.command import Sweep
from interlock.wire.message import Stop
from interlock.wire.run_request import ReleaseRun
from tests.core.machine import Machine, at_once, retrying_job, specs
from tests.core.policies import ASKS, REMOTE, policy, rule
from tests.core.scheduling import LIMITS
from tests.core.test_explain import WAITS, made

S = State
HOUR = 3600.0
LIVE = RunFilter(live=True)
TOPIC = "topic"


def swept(machine: Machine) -> list[tuple[State, str]]:
    """Compare every stored run with the memory, as the sweeper does, and return what was put back."""
    page = at_once(machine.store.runs(LIVE, None, 1000))
    coming = PendingMoves(machine.state, machine.now)
    found = {run.id: run.job_version for run in page.runs if why_missed(coming, run) is not None}
    return machine.step(("", Sweep(found))).put_back if found else []


def missed(machine: Machine) -> list[str]:
    """Return in what ways runs are missed, without any slack."""
    page = at_once(machine.store.runs(LIVE, None, 1000))
    coming = PendingMoves(machine.state, machine.now, slack=0.0, patience=0.0)
    return [why for run in page.runs if (why := why_missed(coming, run)) is not None]


def forget(machine: Machine, run_id: str) -> None:
    """Go on with a memory that has never had this run."""
    snapshot = at_once(machine.store.load(machine.limits.small_payload))
    snapshot = replace(snapshot, runs=[run for run in snapshot.runs if run.id != run_id])
    machine.state = rebuild(MACHINE, machine.limits, specs(machine.lanes), snapshot, machine.now)
    machine.step(("", machine.define(0)))
    assert run_id not in machine.state.runs


# ── a run in the store that memory does not have ────────────────────────────────────────────────────────────────────

SESSIONS = replace(LIMITS, session_patterns={"s": {"debounce": 0.0}})
HOOK = Hook(url="https://hooks.example/done")
JOBS = (
    replace(retrying_job(3), topic=TOPIC),
    Job(id="single", topic=TOPIC, constraints=Constraints(max_concurrent_runs=1)),
    Job(id="hooked", topic=TOPIC, constraints=Constraints(post_run_hook=HOOK)),
)


def _held(machine: Machine) -> str:
    run_id = machine.submit()
    machine.act(RunAction.HOLD, run_id)
    return run_id


def _guarded(machine: Machine) -> str:
    machine.worker_up()
    machine.submit("single")
    return machine.submit("single")


def _retrying(machine: Machine) -> str:
    run_id = machine.running()
    machine.finished(run_id, "failed")
    return run_id


def _hooked(machine: Machine) -> str:
    machine.hook = None
    run_id = machine.running(job_id="hooked")
    machine.finished(run_id)
    return run_id


def _sent(machine: Machine) -> str:
    machine.worker_up()
    return machine.submit()


def _turn(machine: Machine) -> str:
    return machine.submit_many(2, session="s")[1]


@pytest.mark.behaviour("REC-2")
@pytest.mark.parametrize(
    ("arrange", "state"),
    [
        (lambda machine: machine.submit(delay=30.0), S.PRERUN),
        (lambda machine: machine.submit(at=machine.wall + 40.0), S.PRERUN),
        (_held, S.PENDING),
        (_guarded, S.ACTION_RUNNING),
        (lambda machine: machine.submit(), S.SCHEDULED),
        (lambda machine: machine.submit(payload=b'"%b"' % (b"x" * 1000)), S.SCHEDULED),
        (_turn, S.SCHEDULED),
        (_sent, S.DISPATCHED),
        (lambda machine: machine.running(), S.RUNNING),
        (_hooked, S.TERMINATING),
        (_retrying, S.RETRYING),
    ],
)
def test_a_run_that_memory_does_not_have_is_adopted_once_and_ends(
    arrange: Callable[[Machine], str], state: State
) -> None:
    machine = Machine(*JOBS, limits=SESSIONS)
    run_id = arrange(machine)
    assert machine.state_of(run_id) is state
    forget(machine, run_id)
    assert swept(machine) == [(state, TOPIC)]
    assert machine.warned == [
        f"the scheduler had missed run {run_id} ({state}, unknown to the scheduler); it was put back"
    ]
    assert swept(machine) == [] == missed(machine)
    if state is S.SCHEDULED:
        assert machine.path(run_id)[-2:] == [S.PENDING, S.SCHEDULED], "it has gone through the entry again"
    machine.hook = lambda _: (200, "")
    machine.act(RunAction.RELEASE, run_id)
    machine.worker_up(held=[machine.held(one.id) for one in machine.state.runs.values() if one.worker_id == "one"])
    for _ in range(10):
        machine.advance(10.0)
        for one in [one.id for one in machine.state.runs.values() if one.state in (S.DISPATCHED, S.RUNNING)]:
            machine.finished(one)
    assert machine.state_of(run_id) is S.SUCCEEDED
    assert not machine.state.runs
    assert not machine.state.of(Sessions)
    assert machine.state.lanes["main"].waiting == 0 == len(machine.state.lanes["main"].holding)


@pytest.mark.behaviour("REC-2")
def test_a_run_that_is_only_lost_from_the_index_keeps_its_place() -> None:
    machine = Machine(lanes={"main": 1})
    first, second = machine.submit_many(2)
    del machine.state.runs[first]
    assert swept(machine) == [(S.SCHEDULED, "work")]
    machine.worker_up()
    assert machine.dispatched() == [second]
    machine.finished(second)
    machine.finished(first)
    assert sorted(machine.dispatched()) == [first, second]


def test_the_definition_of_an_adopted_run_comes_from_the_store() -> None:
    machine = Machine(Job(id="work", topic="old"))
    run_id = machine.submit()
    machine.jobs = [Job(id="work", topic="new")]
    forget(machine, run_id)
    machine.state.versions.clear()
    assert swept(machine) == [(S.SCHEDULED, "old")]
    machine.worker_up()
    machine.finished(run_id)
    assert machine.state_of(run_id) is S.SUCCEEDED


# ── a run that nothing in memory moves ──────────────────────────────────────────────────────────────────────────────


def _lose_times(machine: Machine, run_id: str) -> None:
    machine.state.timers.heap.clear()
    machine.state.timers.spans.clear()


def _lose_effects(machine: Machine, run_id: str) -> None:
    machine.state.of(PendingEffects).pending.clear()
    machine.remote = lambda request: Verdict(ruling=Ruling.ALLOW)


def _lose_attempt(machine: Machine, run_id: str) -> None:
    machine.state.workers["one"].attempts.clear()


def _lose_approval(machine: Machine, run_id: str) -> None:
    run = machine.state.runs[run_id]
    facets, judged = run.facets or Facets(), run.judged or Judged(Ruling.ASK)
    approval = replace(judged.approval or Approval("", 0.0, 0.0), approved=True, by="ann", at=machine.wall)
    run.facets = replace(facets, policy=replace(judged, approval=approval))


PLAIN = replace(retrying_job(1), max_runtime=60.0)
PER_ATTEMPT = replace(PLAIN, max_runtime_per_attempt=True)
LATER = (Action(action="retry_later", delay=60.0),)
PARKED = Job(id="work", constraints=Constraints(max_concurrent_runs=1), on_constraint_violation=LATER)
ENTERED = [S.PENDING, S.SCHEDULED]


def _parked(machine: Machine) -> str:
    machine.running()
    return machine.submit()


@pytest.mark.behaviour("REC-1", "REC-2")
@pytest.mark.parametrize(
    ("job", "arrange", "lose", "after", "why", "path"),
    [
        (PLAIN, lambda m: m.running(), _lose_times, 60.0, "past its longest run time", []),
        (PER_ATTEMPT, lambda m: m.running(), _lose_times, 60.0, "its attempt took too long", []),
        (PLAIN, lambda m: m.running(deadline=m.wall + 50.0), _lose_times, 50.0, "past its deadline", []),
        (PLAIN, lambda m: m.submit(deadline=m.wall + 50.0), _lose_times, 50.0, "past its deadline", [S.TIMEOUT]),
        (PLAIN, lambda m: m.submit(delay=50.0), _lose_times, 50.0, "past the end of its wait", ENTERED),
        (PLAIN, lambda m: m.submit(at=m.wall + 50.0), _lose_times, 50.0, "past the end of its wait", ENTERED),
        (PLAIN, _retrying, _lose_times, 2.0, "past the end of its wait", [*ENTERED, S.DISPATCHED]),
        (
            PARKED, _parked, _lose_times, 60.0, "past the end of its wait",
            [S.CONDITION_PENDING, S.CONDITION_RUNNING, S.ACTION_PENDING, S.ACTION_RUNNING],
        ),
    ],
)  # fmt: skip
def test_a_run_that_has_lost_its_time_is_put_back_when_it_is_late(
    job: Job,
    arrange: Callable[[Machine], str],
    lose: Callable[[Machine, str], None],
    after: float,
    why: str,
    path: list[State],
) -> None:
    machine = Machine(job, limits=LIMITS)
    run_id = arrange(machine)
    state, before = machine.state_of(run_id), machine.path(run_id)
    lose(machine, run_id)
    machine.advance(after + SLACK)
    assert swept(machine) == []
    machine.advance(0.01)
    assert swept(machine) == [(state, "work")]
    assert machine.warned == [f"the scheduler had missed run {run_id} ({state}, {why}); it was put back"]
    assert machine.path(run_id) == [*before, *path]
    assert path or [one.run_id for one in machine.messages(Stop)] == [run_id]
    assert swept(machine) == []


@pytest.mark.behaviour("REC-2")
def test_a_run_that_is_pending_for_two_minutes_and_waits_for_nothing_enters_again() -> None:
    machine = Machine(limits=REMOTE)
    machine.worker_up()
    run_id = machine.submit()
    _lose_effects(machine, run_id)
    machine.advance(120.0)
    assert swept(machine) == []
    machine.advance(0.01)
    assert swept(machine) == [(S.PENDING, "work")]
    assert machine.state_of(run_id) is S.DISPATCHED
    assert len(machine.checked) == 2
    assert swept(machine) == []


@pytest.mark.behaviour("REC-2")
def test_an_approved_run_that_does_not_move_enters_again() -> None:
    machine = Machine(policy=ASKS, limits=LIMITS)
    machine.worker_up()
    run_id = machine.submit()
    _lose_approval(machine, run_id)
    assert swept(machine) == [(S.APPROVAL_REQUIRED, "work")]
    assert machine.path(run_id)[-3:] == [S.PENDING, S.SCHEDULED, S.DISPATCHED]
    assert swept(machine) == []


@pytest.mark.behaviour("REC-2")
def test_an_attempt_that_its_worker_does_not_count_becomes_silent(machine: Machine) -> None:
    run_id = machine.running()
    _lose_attempt(machine, run_id)
    machine.advance(HOUR)
    assert machine.state_of(run_id) is S.RUNNING, "nothing notices its silence"
    assert swept(machine) == [(S.RUNNING, "work")]
    machine.advance(machine.limits.silence)
    assert machine.run(run_id).crashes == 1


@pytest.mark.behaviour("REC-1")
def test_a_run_is_put_back_three_times_at_most_and_then_reported_once() -> None:
    machine = Machine(limits=REMOTE)
    run_id = machine.submit()
    problems = []
    for _ in range(6):
        machine.state.of(PendingEffects).pending.clear()
        machine.advance(121.0)
        swept(machine)
        problems += machine.last.problems
    assert len(machine.warned) == 3
    assert problems == [
        f"run {run_id} (pending, waits for nothing) was put back 3 times and is missed again; "
        "restart the scheduler, and report this as a defect"
    ]
    machine.cancel(run_id)
    machine.step(("", Sweep({run_id: ""})))
    assert machine.state.of(Sweeps).put_back == {}


# ── runs that are not missed ────────────────────────────────────────────────────────────────────────────────────────


def swept_all(machine: Machine) -> list[tuple[State, str]]:
    """Sweep every run, as if each seemed to be missed."""
    runs = {run.id: run.job_version for run in at_once(machine.store.runs(RunFilter(), None, 1000)).runs}
    decisions = machine.step(("", Sweep(runs)))
    return decisions.put_back


@pytest.mark.behaviour("REC-2")
@pytest.mark.parametrize("arrange", [one[0] for one in WAITS], ids=lambda arrange: arrange.__name__)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_waits_for_a_reason_is_left_alone(arrange: Callable[[Machine], str], restarts: bool) -> None:
    machine = made()
    run_id = arrange(machine)
    if restarts:
        machine.restart()
    seq = machine.run(run_id).seq
    assert missed(machine) == []
    assert swept_all(machine) == []
    assert machine.run(run_id).seq == seq


def _asked(machine: Machine) -> str:
    machine.policy = ASKS
    machine.step(("", machine.define()))
    return machine.submit()


def _throttled(machine: Machine) -> str:
    machine.policy = policy(rule(Ruling.THROTTLE))
    machine.step(("", machine.define()))
    return machine.submit()


@pytest.mark.parametrize(
    ("arrange", "limits"),
    [
        (_held, LIMITS),
        (_asked, LIMITS),
        (_throttled, LIMITS),
        (_guarded, LIMITS),
        (_hooked, LIMITS),
        (lambda machine: machine.submit(), REMOTE),  # the remote policy does not answer
    ],
)
def test_a_long_wait_for_a_person_a_policy_or_a_hook_is_left_alone(
    arrange: Callable[[Machine], str], limits: CoreLimits
) -> None:
    machine = Machine(*JOBS, limits=limits)
    arrange(machine)
    for _ in range(20):
        machine.advance(12.0)
        assert missed(machine) == []
    assert swept_all(machine) == []


def test_a_run_that_ends_in_the_same_pass_is_not_adopted(machine: Machine) -> None:
    run_id = machine.running()
    sweep = "", Sweep({run_id: machine.run(run_id).job_version})
    assert machine.step(machine.finish_command(run_id), sweep).put_back == []
    assert machine.state_of(run_id) is S.SUCCEEDED


def test_a_run_that_moves_in_the_same_pass_is_left_alone() -> None:
    machine = Machine(limits=REMOTE)
    run_id = _held(machine)
    machine.advance(HOUR)
    release = "client", ReleaseRun(7, run_id, "").by(actor="ann")
    assert machine.step(release, ("", Sweep({run_id: ""}))).put_back == []


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_jump_of_the_wall_clock_makes_no_run_late(jump: float) -> None:
    machine = Machine(replace(retrying_job(1), max_runtime=60.0), limits=LIMITS)
    machine.running()
    machine.submit(delay=30.0)
    _retrying(machine)
    machine.wall += jump
    assert missed(machine) in ([], ["past the end of its wait"])  # before a pass has followed the clock
    machine.step()
    assert missed(machine) == []
    assert swept_all(machine) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_healthy_scheduler_misses_nothing(seed: int) -> None:
    rng, machine = Random(seed), Machine(*JOBS, lanes={"main": 3}, limits=SESSIONS)
    machine.worker_up()
    for _ in range(60):
        live = [run.id for run in machine.state.runs.values()]
        on_worker = [run.id for run in machine.state.runs.values() if run.state in (S.DISPATCHED, S.RUNNING)]
        options: dict[str, Any] = rng.choice([{}, {"delay": 3.0}, {"session": "s"}, {"deadline": machine.wall + 5.0}])
        machine.submit(rng.choice(JOBS).id, **options)
        if on_worker and rng.random() < 0.7:
            machine.finished(rng.choice(on_worker), rng.choice(["succeeded", "failed"]))
        if live and rng.random() < 0.2:
            machine.act(rng.choice([RunAction.HOLD, RunAction.RELEASE]), rng.choice(live))
        if rng.random() < 0.1:
            machine.restart()
            held = [machine.held(run.id) for run in machine.state.runs.values() if run.worker_id == "one"]
            machine.worker_up(held=held)
        machine.advance(rng.random() * 3)
        assert missed(machine) == []
    assert machine.warned == []

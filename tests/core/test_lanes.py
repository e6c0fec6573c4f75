"""Lanes as limits: how many run at once, who is next, and slots counted from the runs that hold them."""

from random import Random

import pytest

from interlock import config
from interlock.core.jobs import queries as job_queries
from interlock.core.lanes.lane import SWEEP_AT
from interlock.core.state import DEFAULT_LANES
from interlock.error import BadValue, shown
from interlock.model.job import ExecutorKind, Job
from interlock.model.lane import LaneInfo, LaneList, LaneStatus, LaneValues
from interlock.model.state import State
from interlock.wire.command import Define
from interlock.wire.lane_request import AskLanes
from tests.core.machine import START, WORK, Machine, retrying_job, specs


def holding(machine: Machine, lane: str = "main") -> int:
    return len(machine.state.lanes[lane].holding)


@pytest.mark.behaviour("LAN-1")
def test_a_lane_bounds_how_many_runs_execute_at_once() -> None:
    machine = Machine(lanes={"main": 3})
    machine.worker_up(slots=100)
    machine.worker_up("two", slots=100)
    runs = machine.submit_many(10)
    assert machine.dispatched() == runs[:3]
    for place, run_id in enumerate(runs):
        assert holding(machine) == min(3, 10 - place)
        machine.finished(run_id)
    assert holding(machine) == 0
    assert machine.dispatched() == runs


@pytest.mark.behaviour("LAN-1")
def test_the_lanes_and_limits_by_default() -> None:
    assert config.lanes({}) == specs(DEFAULT_LANES)
    assert DEFAULT_LANES == {"main": 30, "subagent": 50, "team": 100, "cron": 30}
    machine = Machine(lanes=config.lanes({}))
    machine.worker_up(slots=1000)
    for lane, limit in DEFAULT_LANES.items():
        machine.submit_many(limit + 5, lane=lane)
        assert holding(machine, lane) == limit
        assert machine.state.lanes[lane].waiting == 5


@pytest.mark.behaviour("LAN-1")
def test_limits_come_from_the_environment_and_flags_win() -> None:
    environment = {"INTERLOCK_LANE_MAIN": "2", "INTERLOCK_LANE_GPU": "4", "PATH": "/bin"}
    assert config.lanes(environment) == specs({**DEFAULT_LANES, "main": 2, "gpu": 4})
    assert config.resolve({"lanes": ["main=7", "night-work=1"]}, None, environment).settings.lanes == {
        "main": 7,
        "gpu": 4,
        "night-work": 1,
    }
    machine = Machine(lanes=config.lanes(environment))
    machine.worker_up()
    machine.submit_many(5)
    assert holding(machine) == 2


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize("value", ["", "0", "-1", "+3", "2.5", "ten", " 5", "1e3", "٣", "0x10", "1_000", "9" * 5000])
@pytest.mark.parametrize("by_flag", [False, True])
def test_a_limit_that_is_not_a_positive_whole_number_is_refused(value: str, by_flag: bool) -> None:
    flags = {"lanes": [f"main={value}"]} if by_flag else {}
    with pytest.raises(BadValue) as caught:
        config.resolve(flags, None, {} if by_flag else {"INTERLOCK_LANE_MAIN": value})
    assert caught.value.code == "bad_value"
    assert caught.value.field == ("--lane main" if by_flag else "INTERLOCK_LANE_MAIN")
    assert caught.value.value == value
    assert shown(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize("flag", ["main", "=3", "a b=3", "x" * 65 + "=3", "-x=3"])
def test_a_flag_that_names_no_lane_is_refused(flag: str) -> None:
    with pytest.raises(BadValue, match="--lane"):
        config.resolve({"lanes": [flag]}, None, {})


def test_an_environment_variable_that_names_no_lane_is_refused() -> None:
    with pytest.raises(BadValue, match="INTERLOCK_LANE_"):
        config.lanes({"INTERLOCK_LANE_": "3"})


@pytest.mark.behaviour("LAN-4")
@pytest.mark.parametrize(
    "end",
    ["succeeded", "failed", "failed_fatal", "cancelled", "timeout", "process", "worker", "silence", "cancel", "retry"],
)
def test_however_an_attempt_ends_its_slot_is_free_once(end: str) -> None:
    machine = Machine(retrying_job(1 if end == "retry" else 0, max_crashes=1), lanes={"main": 1})
    run_id = machine.running()
    copies = [machine.finish_command(run_id, "failed" if end == "retry" else end)] * 3
    if end == "process":
        machine.lost(run_id)
    elif end == "worker":
        machine.worker_down(dead=True)
    elif end == "silence":
        machine.advance(30)
    elif end == "cancel":
        machine.cancel(run_id)
        assert holding(machine) == 1
        machine.finished(run_id, "cancelled")
    else:
        machine.step(*copies)
    assert holding(machine) == 0
    machine.step(*copies)
    machine.worker_up("two")
    next_runs = machine.submit_many(3)
    assert holding(machine) == 1, "one slot was freed, not two"
    assert machine.state_of(next_runs[0]) is State.DISPATCHED
    assert machine.state_of(next_runs[1]) is State.SCHEDULED


@pytest.mark.behaviour("LAN-4")
def test_a_cancel_of_what_waits_frees_no_slot() -> None:
    machine = Machine(lanes={"main": 1})
    machine.running()
    waiting = machine.submit_many(2)
    machine.cancel(waiting[0])
    assert holding(machine) == 1
    assert machine.state_of(waiting[1]) is State.SCHEDULED
    assert machine.state.lanes["main"].waiting == 1


@pytest.mark.behaviour("LAN-4")
def test_slots_are_counted_from_the_stored_runs_after_a_restart() -> None:
    machine = Machine(lanes={"main": 4})
    machine.worker_up(slots=10)
    runs = machine.submit_many(6)
    machine.started(runs[0])
    machine.finished(runs[1])
    before = sorted(machine.state.lanes["main"].holding)
    machine.restart()
    assert sorted(machine.state.lanes["main"].holding) == before
    assert len(before) == 4


def test_runs_of_a_lane_go_out_in_order_of_arrival_whatever_their_job() -> None:
    jobs = [WORK, Job(id="other"), Job(id="alone", executor=ExecutorKind.PROCESS)]
    machine = Machine(*jobs, lanes={"main": 2})
    rng = Random(7)
    runs = [machine.submit(rng.choice(jobs).id) for _ in range(60)]
    machine.worker_up(slots=10)
    for run_id in runs:
        machine.finished(run_id)
    assert machine.dispatched() == runs


def test_the_order_of_arrival_survives_a_restart() -> None:
    machine = Machine(lanes={"main": 1})
    runs = []
    for _ in range(10):
        runs.append(machine.submit())
        machine.wall += 0.5
    machine.restart_with_worker()
    for run_id in runs:
        machine.finished(run_id)
    assert machine.dispatched() == runs


def test_a_run_no_worker_knows_does_not_hold_up_the_others_of_its_lane() -> None:
    machine = Machine(WORK, Job(id="rare"), lanes={"main": 2})
    rare = machine.submit("rare")
    common = machine.submit()
    machine.jobs = [WORK]
    machine.worker_up()
    assert machine.dispatched() == [common]
    machine.jobs = [WORK, Job(id="rare")]
    machine.worker_up("two")
    assert machine.dispatched() == [common, rare]


def test_a_full_worker_is_passed_over_and_the_emptiest_comes_first(machine: Machine) -> None:
    machine.worker_up("small", slots=1)
    machine.worker_up("large", slots=3)
    runs = machine.submit_many(6)
    took = [machine.run(run_id).worker_id for run_id in runs]
    assert sorted(str(one) for one in took[:4]) == ["large", "large", "large", "small"]
    assert took[4:] == [None, None]


def test_work_that_was_lost_in_silence_goes_to_a_worker_that_speaks(machine: Machine) -> None:
    lost = machine.running(worker_id="silent")
    machine.mute.add("silent")
    machine.worker_up("speaks", slots=1)
    machine.advance(30)
    assert machine.run(lost).worker_id == "speaks"


def test_runs_given_back_go_out_again_before_those_that_wait() -> None:
    machine = Machine(lanes={"main": 2})
    machine.worker_up()
    runs = machine.submit_many(4)
    machine.worker_up(held=[])
    assert sorted(machine.dispatched()) == sorted(runs[:2] * 2)
    assert machine.state_of(runs[2]) is State.SCHEDULED


@pytest.mark.behaviour("LAN-2")
def test_an_unknown_lane_falls_back_to_main_and_the_run_says_so() -> None:
    machine = Machine(WORK, Job(id="lost", lane="nowhere"))
    by_submit, by_job = machine.submit(lane="gpu"), machine.submit("lost")
    assert {machine.run(run_id).lane for run_id in (by_submit, by_job)} == {"main"}
    assert machine.history(by_submit)[0].reason == "unknown lane 'gpu': uses main"
    assert machine.history(by_job)[0].reason == "unknown lane 'nowhere': uses main"


def test_a_lane_that_is_gone_after_a_restart_falls_back_to_main() -> None:
    machine = Machine(lanes={"main": 5, "gpu": 5})
    run_id = machine.running(lane="gpu")
    waiting = machine.submit(lane="gpu", at=START + 50)
    del machine.lanes["gpu"]
    machine.restart()
    assert list(machine.state.lanes["main"].holding) == [run_id]
    assert machine.run(waiting).lane == "main"
    machine.worker_up(held=[machine.held(run_id)])
    machine.finished(run_id)
    assert holding(machine) == 0


@pytest.mark.behaviour("LAN-1")
def test_a_limit_lowered_at_a_restart_stops_nothing_and_starts_nothing_until_there_is_room() -> None:
    machine = Machine(lanes={"main": 3})
    machine.worker_up()
    runs = machine.submit_many(5)
    held = [machine.held(run_id) for run_id in runs[:3]]
    machine.lanes["main"] = 1
    machine.restart_with_worker(held=held)
    assert holding(machine) == 3
    machine.finished(runs[0])
    machine.finished(runs[1])
    assert machine.state_of(runs[3]) is State.SCHEDULED
    machine.finished(runs[2])
    assert machine.state_of(runs[3]) is State.DISPATCHED
    assert machine.state_of(runs[4]) is State.SCHEDULED


def test_entries_of_cancelled_runs_are_swept_and_counted_out() -> None:
    machine = Machine(lanes={"main": 1})
    blocking = machine.running()
    many = SWEEP_AT + 5
    runs = machine.submit_many(many)
    kept = [runs[0], runs[-1]]
    lane = machine.state.lanes["main"]
    for run_id in runs[1:-1]:
        machine.cancel(run_id)
        assert lane.waiting == sum(one.state is State.SCHEDULED for one in machine.state.runs.values())
    assert sum(map(len, lane.queues())) < many
    assert (lane.dead, lane.waiting) == (many - 2 - SWEEP_AT - 1, 2)
    for run_id in (blocking, *kept):
        machine.finished(run_id)
    assert machine.dispatched() == [blocking, *kept]
    assert (lane.dead, lane.waiting, list(lane.queues())) == (0, 0, [])


def test_dead_entries_at_the_head_are_dropped_when_they_are_met() -> None:
    machine = Machine(WORK, Job(id="other"), lanes={"main": 2})
    blocking = [machine.running(), machine.running()]
    runs = [machine.submit(job_id) for job_id in ("work", "other", "work", "other", "work")]
    for place in (0, 1, 4):
        machine.cancel(runs[place])
    lane = machine.state.lanes["main"]
    assert (lane.dead, lane.waiting) == (3, 2)
    machine.step(*map(machine.finish_command, blocking))
    assert machine.dispatched() == [*blocking, runs[2], runs[3]]
    machine.finished(runs[2])
    assert (lane.dead, lane.waiting, list(lane.queues())) == (0, 0, [])


def test_runs_given_back_together_keep_their_order(machine: Machine) -> None:
    machine.worker_up()
    given_back = machine.submit_many(3)
    machine.worker_down(dead=False)
    waiting = machine.submit()
    machine.sent.clear()
    machine.worker_up(held=[])
    assert machine.dispatched() == [*given_back, waiting]


def test_where_workers_are_short_the_longest_wait_goes_first_whatever_its_lane() -> None:
    machine = Machine(lanes={"main": 50, "team": 50, "cron": 50})
    machine.worker_up(slots=1)
    lanes = ["main", "cron", "main", "team", "main", "cron", "team", "main"]
    runs = [machine.submit(lane=lane) for lane in lanes]
    for run_id in runs:
        assert machine.state_of(run_id) is State.DISPATCHED
        machine.finished(run_id)
    assert machine.dispatched() == runs


@pytest.mark.behaviour("LAN-3")
@pytest.mark.parametrize("executor", list(ExecutorKind))
def test_where_workers_are_short_the_backlog_of_one_lane_does_not_delay_another(executor: ExecutorKind) -> None:
    machine = Machine(Job(id="work", executor=executor), lanes={"main": 30, "team": 30})
    machine.worker_up(slots=2, processes=2)
    backlog = machine.submit_many(40)
    other = machine.submit(lane="team")
    machine.finished(backlog[0])
    assert machine.state_of(other) is State.DISPATCHED, "it has the first slot that became free"


def test_a_full_lane_with_many_jobs_costs_a_pass_little() -> None:
    """Looked at from outside: what a pass touches does not grow with what waits."""
    jobs = [Job(id=f"job{number}") for number in range(300)]
    machine = Machine(*jobs, lanes={"main": 1})
    machine.worker_up()
    runs = [machine.submit(job.id) for job in jobs]
    lane = machine.state.lanes["main"]
    (line,) = lane.lines.values()
    assert len(line.heads) == len(line.queues) == 299
    for run_id in runs:
        machine.finished(run_id)
        assert len(line.heads) == len(line.queues)
    assert machine.dispatched() == runs


def redefine(machine: Machine, **lanes: int) -> None:
    machine.lanes = {**lanes}
    machine.step(("", Define(1, machine.jobs, lanes=specs(lanes))))


@pytest.mark.behaviour("LAN-1")
def test_a_lowered_limit_stops_nothing_and_starts_nothing_until_there_is_room() -> None:
    machine = Machine(lanes={"main": 4})
    machine.worker_up()
    runs = machine.submit_many(6)
    redefine(machine, main=2)
    assert holding(machine) == 4
    for run_id in runs[:2]:
        machine.finished(run_id)
    assert machine.dispatched() == runs[:4]
    machine.finished(runs[2])
    assert machine.dispatched() == runs[:5]
    redefine(machine, main=10)
    assert machine.dispatched() == runs


@pytest.mark.behaviour("LAN-1")
@pytest.mark.behaviour("LAN-2")
def test_a_lane_can_be_added_while_running() -> None:
    machine = Machine(lanes={"main": 4})
    machine.worker_up()
    assert machine.run(machine.submit(lane="reports")).lane == "main"
    redefine(machine, main=4, reports=1)
    runs = machine.submit_many(2, lane="reports")
    assert [machine.run(one).lane for one in runs] == ["reports", "reports"]
    assert holding(machine, "reports") == 1
    assert machine.state.lanes["reports"].waiting == 1


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.behaviour("LAN-2")
@pytest.mark.behaviour("LAN-4")
def test_live_runs_of_a_lane_that_is_gone_use_main_after_a_reload_as_after_a_restart(restarts: bool) -> None:
    machine = Machine(WORK, retrying_job(1), lanes={"main": 2, "reports": 2})
    machine.worker_up()
    first = machine.submit_many(3, lane="reports")
    second = machine.submit_many(3)
    cancelled, last = machine.submit_many(2, lane="reports")
    machine.cancel(cancelled)
    later = machine.submit(lane="reports", delay=60.0)
    if restarts:
        machine.lanes = {"main": 2}
        machine.restart_with_worker(held=[machine.held(one) for one in [*first[:2], *second[:2]]])
    else:
        redefine(machine, main=2)
        assert {machine.store.runs_by_id[one].lane for one in (*first, last, later)} == {"main"}
    assert list(machine.state.lanes) == ["main"]
    assert {run.lane for run in machine.state.runs.values()} == {"main"}
    assert (holding(machine), machine.state.lanes["main"].waiting) == (4, 3)
    for run_id in [*first[:2], *second[:2]]:
        machine.finished(run_id)
    assert machine.dispatched()[4:] == [first[2], second[2]]
    machine.finished(first[2])
    machine.finished(second[2])
    assert machine.dispatched()[6:] == [last]
    machine.finished(last)
    machine.advance(60.0)
    machine.finished(later)
    assert holding(machine) == machine.state.lanes["main"].waiting == 0
    assert machine.state.lanes["main"].dead == 0


def info(name: str, limit: int, active: int, waiting: int, oldest_wait: float | None) -> LaneInfo:
    return LaneInfo(
        id=name,
        limit=limit,
        status=LaneStatus.OPEN,
        active=active,
        waiting=waiting,
        oldest_wait=oldest_wait,
        declared=LaneValues(limit=limit),
    )


def lane_infos(machine: Machine) -> list[LaneInfo]:
    found = job_queries.lanes(AskLanes(7), machine.state, machine.now).value
    assert isinstance(found, LaneList)
    return found.lanes


@pytest.mark.behaviour("LAN-6")
def test_a_lane_reports_limit_active_waiting_and_the_oldest_wait() -> None:
    machine = Machine(WORK, Job(id="other", executor=ExecutorKind.PROCESS), lanes={"main": 1, "gpu": 2})
    machine.worker_up()
    idle = info("gpu", 2, 0, 0, None)
    assert lane_infos(machine) == [info("main", 1, 0, 0, None), idle]
    first, second = machine.submit_many(2)
    machine.advance(5.0)
    third = machine.submit("other")
    machine.advance(2.0)
    assert lane_infos(machine) == [info("main", 1, 1, 2, 7.0), idle]
    # A run that no longer waits is still in its queue, and is not the oldest.
    machine.cancel(second)
    assert lane_infos(machine)[0] == info("main", 1, 1, 1, 2.0)
    machine.wall -= 100.0
    assert lane_infos(machine)[0].oldest_wait == 0.0
    machine.wall += 100.0
    for run_id in (first, third):
        machine.finished(run_id)
    assert lane_infos(machine)[0] == info("main", 1, 0, 0, None)


def test_a_run_that_needs_its_own_process_passes_by_runs_that_wait_for_a_shared_slot() -> None:
    apart = Job(id="apart", executor=ExecutorKind.PROCESS)
    machine = Machine(WORK, apart, lanes={"main": 10})
    machine.worker_up(slots=1, processes=1)
    first, second, third = machine.submit(), machine.submit(), machine.submit("apart")
    assert machine.dispatched() == [first, third]
    fourth = machine.submit("apart")
    machine.finished(third)
    assert machine.dispatched() == [first, third, fourth]
    machine.finished(first)
    assert machine.dispatched() == [first, third, fourth, second]


def test_runs_that_come_and_go_while_workers_are_full_leave_no_traces() -> None:
    machine = Machine(lanes={"main": 10})
    machine.worker_up(slots=1)
    machine.submit()
    for _ in range(300):
        machine.cancel(machine.submit())
    assert sum(map(len, machine.state.lanes.offers)) <= 100 + 4

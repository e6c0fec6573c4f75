"""Occurrences: created ahead of their time, each once, never over one another, and never lost in silence."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.decisions import Failed
from interlock.core.timetable.series import OVERTAKEN
from interlock.error import Forbidden
from interlock.model.job import Job, StoredJob
from interlock.model.run import SCHEDULE
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.command import Define, Put, StartDraining
from interlock.wire.request import Accepted, NewRun
from tests.core.machine import START, Machine
from tests.core.scheduling import LIMITS, TRUE, begun, declare, job, machine_of, pass_time, stop_for, times

# ── when ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-2")
def test_every_fires_after_its_wait_and_then_at_its_interval_however_long_runs_take() -> None:
    machine = machine_of(job(every=60, wait=10))
    pass_time(machine, 300, length=45)
    assert begun(machine) == [(10, 10), (70, 70), (130, 130), (190, 190), (250, 250)]


@pytest.mark.behaviour("TIM-2")
@pytest.mark.parametrize("schedule", [{"every": 60}, {"every": 60, "wait": 0}, {"once": True}])
def test_without_a_wait_it_fires_at_once(schedule: dict[str, Any]) -> None:
    machine = machine_of(job(**schedule))
    assert times(machine) == [0]
    assert machine.dispatched() == [f"work:{int(START)}"]


@pytest.mark.behaviour("TIM-6")
def test_cron_fires_strictly_after_now() -> None:
    machine = Machine(limits=LIMITS)
    assert START % 60 == 40
    machine.wall += 20
    machine.worker_up()
    machine.step(("", Define(0, [job(cron="* * * * *")])))
    pass_time(machine, 59)
    assert machine.dispatched() == []
    pass_time(machine, 1)
    assert times(machine) == [80]


@pytest.mark.behaviour("RUN-5", "SEC-2")
def test_who_may_not_pause_a_schedule_cannot_take_the_place_of_its_occurrences() -> None:
    machine = machine_of(job(every=60, wait=30), Job(id="plain"))
    at = START + 90
    ours = NewRun("work", b'{"mine":1}', occurrence=at)
    answer = machine.step(("client", replace(machine.command(ours), only_tenant="default"))).answers[-1][1]
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, Forbidden)
    assert "needs a token of every tenant" in str(answer.error)
    pass_time(machine, 100)
    run = machine.run(f"work:{int(at)}")
    assert (run.payload, run.origin, run.state) == (b"{}", SCHEDULE, State.SUCCEEDED)
    # Another tenant's occurrences, those of a job without a schedule, and one that exists are no harm.
    for new in (replace(ours, tenant="red"), replace(ours, job_id="plain"), replace(ours, payload=b"{}")):
        answer = machine.step(("client", replace(machine.command(new), only_tenant=new.tenant))).answers[-1][1]
        assert isinstance(answer, Accepted)
    assert isinstance(machine.ask(replace(ours, occurrence=at + 60)), Accepted), "who may pause it may"


@pytest.mark.behaviour("TIM-4", "RUN-5")
@pytest.mark.parametrize(
    "schedule", [{"once": True, "wait": 500}, {"at": START + 500}, {"at": START + 500, "keep": True}]
)
def test_once_and_at_fire_once_though_the_run_fails(schedule: dict[str, Any]) -> None:
    machine = machine_of(job(**schedule))
    pass_time(machine, 499)
    assert machine.dispatched() == []
    machine.advance(1)
    assert machine.dispatched() == [f"work:{int(START) + 500}"]
    machine.finished(f"work:{int(START) + 500}", "failed")
    pass_time(machine, 100_000)
    machine.restart()
    pass_time(machine, 100_000)
    assert times(machine) == [500]


@pytest.mark.behaviour("TIM-4")
def test_an_at_job_is_removed_after_its_run_and_its_declaration_may_stay_where_it_is() -> None:
    declared = job(at=START + 20)
    machine = machine_of(declared)
    pass_time(machine, 19)
    assert "work" in machine.state.jobs
    machine.advance(1)
    assert "work" in machine.state.jobs, "it runs"
    machine.finished(f"work:{int(START) + 20}")
    assert "work" not in machine.state.jobs
    machine.restart()
    assert "work" not in machine.state.jobs
    machine.step(("", Define(1, [declared])))
    assert not isinstance(machine.last.answers[-1][1], Failed), "it is known that it was there"
    assert "work" not in machine.state.jobs
    machine.step(("", Define(2, [])))
    machine.step(("", Define(3, [declared])))
    refused = machine.last.answers[-1][1]
    assert isinstance(refused, Failed)
    assert refused.error.code == "bad_schedule"
    assert str(refused.error).startswith("schedule.at: '1970-01-12 13:47:00Z'")


@pytest.mark.behaviour("TIM-4")
def test_an_at_job_that_is_put_is_gone_for_good_after_its_run() -> None:
    machine = machine_of()
    machine.step(("client", Put(1, [Job(id="put", schedule=Schedule(at=START + 20), work=TRUE)], "client")))
    pass_time(machine, 30)
    assert times(machine, State.SUCCEEDED, job_id="put") == [20]
    machine.restart()
    assert "put" not in machine.state.jobs
    assert machine.store.all_of(StoredJob) == {} == machine.store.schedules


@pytest.mark.behaviour("RUN-5")
def test_runs_are_created_ahead_with_the_id_of_their_time_and_the_cursor_moves_with_them() -> None:
    machine = machine_of(job(every=4))
    assert times(machine) == [0, 4, 8]
    assert set(machine.store.runs_by_id) == {f"work:{int(START) + at}" for at in (0, 4, 8)}
    assert machine.store.schedules["work"][3:5] == (START + 8, START + 12)
    states = [machine.run(f"work:{int(START) + at}").state for at in (0, 4, 8)]
    assert states == [State.DISPATCHED, State.PRERUN, State.PRERUN]
    assert machine.run(f"work:{int(START) + 4}").origin == SCHEDULE
    machine.advance(1.5)  # until the last look for a worker that was not there at first
    assert machine.last.wake_at == START + 2


@pytest.mark.behaviour("TIM-15")
def test_jitter_moves_the_time_and_not_the_id() -> None:
    one = job(every=60, jitter=30)
    machine = machine_of(one)
    assert one.schedule is not None
    offset = one.schedule.offset("work")
    assert 0 < offset < 30
    pass_time(machine, 179)
    assert [nominal for nominal, _ in begun(machine)] == [0, 60, 120]
    assert [at - nominal for nominal, at in begun(machine)] == pytest.approx([offset] * 3)
    assert set(machine.dispatched()) == {f"work:{int(START) + at}" for at in (0, 60, 120)}


@pytest.mark.behaviour("TIM-13")
def test_those_that_fire_together_start_in_the_order_of_their_declaration() -> None:
    names = ["zebra", "apple", "mango", "cherry", "banana"]
    machine = machine_of(*(job(name, every=60) for name in names))
    assert [run_id.partition(":")[0] for run_id in machine.dispatched()] == names
    pass_time(machine, 60)
    assert [run_id.partition(":")[0] for run_id in machine.dispatched()] == names * 2


# ── one after the other ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("TIM-5")
def test_of_those_that_come_while_a_run_goes_on_the_latest_follows_it_and_the_others_are_missed() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 33, length=34)
    assert times(machine, State.SKIPPED) == [10, 20]
    assert {run.reason for run in machine.ended} == {OVERTAKEN}
    pass_time(machine, 1, length=34)
    assert begun(machine) == [(0, 0), (30, 34)]
    pass_time(machine, 65, length=34)
    assert begun(machine) == [(0, 0), (30, 34), (60, 68)]
    assert times(machine, State.SKIPPED) == [10, 20, 40, 50, 70, 80]


@pytest.mark.behaviour("TIM-5")
def test_as_many_overlap_as_are_allowed_to() -> None:
    machine = machine_of(job(every=10, max_concurrent_runs=3))
    pass_time(machine, 45, length=100)
    assert begun(machine) == [(0, 0), (10, 10), (20, 20)]
    assert times(machine, State.SKIPPED) == [30]
    assert times(machine, State.ACTION_RUNNING) == [40]


@pytest.mark.behaviour("TIM-5")
@pytest.mark.parametrize("restart", [False, True])
def test_what_waits_for_its_turn_is_there_after_a_restart(restart: bool) -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 12, length=100)
    if restart:
        machine.restart_with_worker(held=[machine.held(f"work:{int(START)}")])
    pass_time(machine, 1, length=100)
    assert machine.state_of(f"work:{int(START) + 10}") is State.PRERUN
    machine.finished(f"work:{int(START)}")
    assert machine.state_of(f"work:{int(START) + 10}") is State.DISPATCHED


def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 12, length=100)
    machine.cancel(f"work:{int(START) + 10}")
    pass_time(machine, 5, length=100)
    machine.finished(f"work:{int(START)}")
    assert times(machine, State.CANCELLED) == [10]
    pass_time(machine, 4, length=100)
    assert begun(machine) == [(0, 0), (20, 20)]


def test_a_raised_limit_holds_for_what_waits() -> None:
    machine = machine_of(job(every=10))
    pass_time(machine, 15, length=100)
    machine.jobs = [job(every=10, max_concurrent_runs=2)]
    machine.step(("", Define(1, machine.jobs)))
    pass_time(machine, 6, length=100)
    assert begun(machine) == [(0, 0), (10, 15)]


# ── what was missed ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_while_it_is_stopping_nothing_is_created() -> None:
    machine = machine_of(job(every=10))
    machine.step(("", StartDraining()))
    pass_time(machine, 30)
    assert times(machine) == [0, 10]


@pytest.mark.behaviour("RUN-5", "TIM-18")
def test_more_uncertain_times_than_one_pass_asks_about_are_all_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.core.timetable.occurrences.MOST_ASKED", 2)
    names = [f"job{number}" for number in range(10)]
    machine = machine_of(*(job(name, every=60, wait=5) for name in names))
    machine.advance(1)
    declare(machine, *(job(name, every=60, wait=4) for name in names))
    at = int(START) + 5
    assert {run.id for run in machine.state.runs.values()} == {f"{name}:{at}~again" for name in names}


@pytest.mark.parametrize("restart", [False, True])
def test_a_deadline_counts_from_when_an_occurrence_really_fires_and_changes_with_its_job(restart: bool) -> None:
    scheduled = Schedule(every=600, jitter=300)
    machine = machine_of(Job(id="work", deadline=5.0, schedule=scheduled))
    offset = scheduled.offset("work")
    pass_time(machine, offset - 3)
    declare(machine, Job(id="work", deadline=20.0, schedule=scheduled))
    if restart:
        stop_for(machine, 0)
    pass_time(machine, 4, length=1)
    run = machine.run(f"work:{int(START)}")
    assert run.deadline_at == pytest.approx(START + offset + 20)
    pass_time(machine, 3, length=1)
    assert run.state is State.SUCCEEDED

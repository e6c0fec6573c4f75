"""Runs beside the schedule: triggered at once, and made up for a range that has passed, so many at a time."""

from typing import Any

import pytest

from interlock.core.decisions import Failed
from interlock.engine.catalog import Catalog, CatalogEntry, any_object, refill
from interlock.error import InterlockError
from interlock.model.job import Job
from interlock.model.job_info import Backfilled
from interlock.model.run import TRIGGER
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.wire.request import Backfill, ValueAnswer
from tests.core.machine import START, Machine
from tests.core.scheduling import begun, check_records, declare, job, machine_of, pass_time, pause, stop_for, times


def backfill(machine: Machine, start: float, end: float, max_parallel: int = 1, **fields: Any) -> Backfilled:
    """As the shell hands it in, with what the store knows."""
    catalog = Catalog([CatalogEntry(one, any_object(one.id)) for one in machine.jobs])
    message = Backfill(1, fields.pop("job_id", "work"), START + start, START + end, max_parallel, **fields)
    command = refill(message, machine.state, catalog, "client", machine.wall)
    answer = machine.step(("client", command)).answers[-1][1]
    if isinstance(answer, Failed):
        raise answer.error
    assert isinstance(answer, ValueAnswer)
    assert isinstance(answer.value, Backfilled)
    return answer.value


@pytest.mark.behaviour("TIM-11", "RUN-5")
def test_the_times_of_a_range_become_runs_under_their_ids_so_many_at_once() -> None:
    machine = machine_of(job(every=60, wait=59))
    pass_time(machine, 10)
    answer = backfill(machine, -600, 0, max_parallel=3)
    assert answer.created == [f"work:{int(START) + 59 - 60 * back}" for back in range(10, 0, -1)]
    assert answer.existing == []
    assert len(machine.dispatched()) == 3
    assert len(times(machine, State.PRERUN)) == 7
    pass_time(machine, 41, length=10)
    started = [at for nominal, at in begun(machine) if nominal < 0]
    assert started == [10] * 3 + [20] * 3 + [30] * 3 + [40]
    assert {run.origin for run in machine.ended} == {"backfill:3"}


@pytest.mark.behaviour("TIM-11")
def test_a_backfill_goes_on_beside_the_schedule_and_after_a_restart() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 30, length=1)
    created = backfill(machine, -300, 0, max_parallel=2).created
    assert len(created) == 5
    machine.restart_with_worker(held=[machine.held(run_id) for run_id in created[:2]])
    assert machine.dispatched()[-2:] == created[:2]
    pass_time(machine, 40, length=15)
    assert all(machine.state_of(run_id) is State.SUCCEEDED for run_id in created[:4])
    assert (60, 60) in begun(machine), "the schedule does not wait for it"


@pytest.mark.behaviour("TIM-11")
def test_what_has_run_is_left_and_what_was_missed_is_made_up_for_once() -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 25)
    stop_for(machine, 30)
    pass_time(machine, 4)
    assert times(machine, State.SKIPPED) == [30, 40, 50]
    first = backfill(machine, 0, 55)
    assert first.existing == [f"work:{int(START) + at}" for at in (0, 10, 20)]
    assert first.created == [f"work:{int(START) + at}~again" for at in (30, 40, 50)]
    again = backfill(machine, 0, 55)
    assert again.created == []
    pass_time(machine, 5)
    assert times(machine, State.SUCCEEDED)[:8] == [0, 10, 20, 30, 40, 50, 60][:8]
    assert backfill(machine, 0, 55).created == []


@pytest.mark.behaviour("TIM-11")
def test_a_pause_does_not_keep_a_backfill_from_going_on() -> None:
    machine = machine_of(job(every=60))
    pause(machine, True)
    pass_time(machine, 10)
    assert len(backfill(machine, -300, 0).created) == 5
    pass_time(machine, 10)
    assert len(times(machine, State.SUCCEEDED)) == 6


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"start": -10, "end": -10}, "bad_value", "to: '1970-01-12T13:46:30Z'"),
        ({"start": -10, "end": 50}, "bad_value", "to: '1970-01-12T13:47:30Z'"),
        ({"start": float("nan"), "end": 0}, "bad_value", "from: nan"),
        ({"start": -10, "end": 0, "max_parallel": 0}, "bad_value", "max_parallel: 0"),
        ({"start": -900_000, "end": 0}, "bad_value", "to: "),
        ({"start": -10, "end": 0, "job_id": "plain"}, "bad_schedule", "job: 'plain'"),
        ({"start": -10, "end": 0, "job_id": "plan"}, "unknown_job", "job: 'plan'"),
        ({"start": -10, "end": 0, "payload": b"[1]"}, "bad_payload", "payload of 'work'"),
        ({"start": -10, "end": 0, "tenant": "a b"}, "bad_value", "tenant: 'a b'"),
    ],
)
def test_what_is_wrong_with_a_backfill_is_said(fields: dict[str, Any], code: str, said: str) -> None:
    machine = machine_of(job(every=60), Job(id="plain"))
    pass_time(machine, 10)
    with pytest.raises(InterlockError) as raised:
        backfill(machine, fields.pop("start"), fields.pop("end"), **fields)
    assert raised.value.code == code
    assert str(raised.value).startswith(said)


@pytest.mark.behaviour("TIM-11")
def test_a_trigger_runs_beside_the_schedule_and_moves_nothing() -> None:
    machine = machine_of(job(every=60))
    pass_time(machine, 10, length=100)
    before = machine.store.schedules["work"]
    run_id = machine.submit(origin=TRIGGER)
    assert machine.state_of(run_id) is State.DISPATCHED, "it does not wait for the one that is live"
    assert machine.store.schedules["work"] == before
    assert machine.run(run_id).origin == TRIGGER


def test_a_run_that_is_submitted_does_not_hold_up_the_schedule() -> None:
    machine = machine_of(Job(id="work", schedule=Schedule(every=60, wait=20)))
    machine.submit()
    pass_time(machine, 30, length=100)
    assert (20, 20) in begun(machine)


def test_what_was_backfilled_before_its_place_within_the_jitter_does_not_run_again() -> None:
    one = job(cron="0 * * * *", jitter=3000)
    machine = machine_of(one)
    hour = 3600 - START % 3600
    pass_time(machine, hour + 5)
    assert one.schedule is not None
    assert one.schedule.offset("work") > 10
    assert len(backfill(machine, hour, hour + 1).created) == 1
    pass_time(machine, 3600)
    check_records(machine)


def test_the_tenant_of_a_run_is_never_taken_for_a_second_try() -> None:
    machine = machine_of(job(every=10, catch_up="none"))
    pass_time(machine, 5)
    machine.submit(occurrence=START + 20, tenant="again")
    stop_for(machine, 30)
    pass_time(machine, 4)
    assert 20 in times(machine, State.SKIPPED)
    assert backfill(machine, 15, 25).created == [f"work:{int(START) + 20}~again"]


@pytest.mark.behaviour("LAN-1")
@pytest.mark.parametrize(("named", "of_occurrences", "of_others"), [(None, "cron", "main"), ("team", "team", "team")])
def test_occurrences_go_to_lane_cron_unless_their_job_names_a_lane(
    named: str | None, of_occurrences: str, of_others: str
) -> None:
    machine = machine_of(Job(id="work", lane=named, schedule=Schedule(every=60)))
    pass_time(machine, 30, length=1)
    backfill(machine, -300, 0, max_parallel=2)
    stop_for(machine, 50)
    pass_time(machine, 20)
    machine.submit()
    machine.submit(origin=TRIGGER)
    machine.submit(occurrence=START - 600)
    machine.submit(lane="subagent", origin="asked")
    lanes = {(run.origin, run.lane) for run in machine.store.runs_by_id.values()}
    assert lanes == {
        ("schedule", of_occurrences), ("catch_up", of_occurrences), ("backfill:2", of_occurrences),
        (None, of_others), ("trigger", of_others), ("asked", "subagent"),
    }  # fmt: skip


@pytest.mark.behaviour("LAN-1", "RUN-14")
def test_waiting_occurrences_and_submits_take_the_lane_of_a_changed_job_each_its_own() -> None:
    machine = machine_of(Job(id="work", schedule=Schedule(every=60, wait=5)))
    occurrence, submitted = f"work:{int(START) + 5}", machine.submit(delay=5)

    def lanes_with(lane: str | None) -> tuple[str, str]:
        declare(machine, Job(id="work", lane=lane, schedule=Schedule(every=60, wait=5)))
        return machine.run(occurrence).lane, machine.run(submitted).lane

    assert [lanes_with(lane) for lane in (None, "team", None)] == [("cron", "main"), ("team", "team"), ("cron", "main")]

"""A changed definition: runs ahead of their time follow it, the others keep what they started with."""

import pytest

from interlock.model.job import ExecutorKind, Job, Retry
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.model.work import JobWork, ProcessWork
from interlock.wire.command import Define, Put
from interlock.wire.message import Dispatch
from tests.core.machine import START, WORK, Machine
from tests.core.scheduling import machine_of

pytestmark = pytest.mark.behaviour("RUN-14")

CHANGED = Job(id="work", lane="cron", retry=Retry(max_retries=1, jitter=0), max_crashes=9)


def test_a_run_in_prerun_adopts_the_change_and_says_which_version_it_has() -> None:
    machine = Machine()
    run_id = machine.submit(at=START + 10)
    assert machine.run(run_id).job_version == WORK.version
    decisions = machine.step(("", Define(0, [CHANGED])))
    assert machine.run(run_id).job_version == CHANGED.version
    assert machine.run(run_id).lane == "cron"
    assert machine.store.runs_by_id[run_id].job_version == CHANGED.version
    assert machine.store.job_versions[CHANGED.version] == CHANGED
    assert decisions.warnings == []
    machine.jobs = [CHANGED]
    machine.worker_up()
    machine.advance(10)
    machine.finished(run_id, "failed")
    assert machine.state_of(run_id) is State.RETRYING, "it is retried as the new definition says"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_that_has_left_prerun_keeps_its_version_and_the_change_is_refused_with_a_warning(restarted: bool) -> None:
    machine = Machine()
    machine.worker_up()
    waiting, ahead = machine.submit(lane="team"), machine.submit(at=START + 10)
    machine.advance(10)
    machine.jobs = [CHANGED]
    if restarted:
        machine.restart_with_worker(held=[machine.held(waiting), machine.held(ahead)])
    else:
        warnings = machine.step(("", Define(0, [CHANGED]))).warnings
        (warning,) = warnings
        assert "'work'" in warning
        assert "2 runs" in warning
    for run_id in (waiting, ahead):
        assert machine.run(run_id).job_version == WORK.version
        machine.finished(run_id, "failed")
        assert machine.state_of(run_id) is State.FAILED, "the version it started with has no retry"
    assert machine.submit() != waiting
    assert {run.job_version for run in machine.state.runs.values()} == {CHANGED.version}


def test_a_lane_given_at_the_submit_outlives_the_change(machine: Machine) -> None:
    run_id = machine.submit(at=START + 10, lane="team")
    machine.step(("", Define(0, [CHANGED])))
    assert machine.run(run_id).lane == "team"


def test_an_unchanged_definition_writes_nothing(machine: Machine) -> None:
    machine.submit(at=START + 10)
    machine.submit()
    decisions = machine.step(("", Define(0, [Job(id="work")])))
    assert not decisions.batch
    assert decisions.warnings == []


def test_a_job_that_is_no_longer_defined_takes_no_new_runs_and_keeps_the_old(machine: Machine) -> None:
    machine.worker_up()
    run_id = machine.submit()
    warnings = machine.step(("", Define(0, [Job(id="other")]))).warnings
    assert len(warnings) == 1
    assert "'work'" in warnings[0]
    machine.finished(run_id)
    assert machine.state_of(run_id) is State.SUCCEEDED


def test_a_version_changes_with_anything_in_the_definition_and_with_nothing_else() -> None:
    assert Job(id="work").version == WORK.version
    others = [
        Job(id="work2"),
        Job(id="work", lane="team"),
        Job(id="work", executor=ExecutorKind.PROCESS),
        Job(id="work", retry=Retry(max_retries=1)),
        Job(id="work", deadline=1.0),
        Job(id="work", max_runtime=1.0),
        Job(id="work", max_runtime_per_attempt=True),
        Job(id="work", max_crashes=1),
        Job(id="work", grace=1.0),
    ]
    assert len({WORK.version, *(job.version for job in others)}) == 10


def test_a_changed_deadline_is_adopted_unless_the_submit_gave_its_own() -> None:
    machine = Machine(Job(id="work", deadline=60.0))
    adopting = machine.submit(at=START + 100)
    own = machine.submit(at=START + 100, deadline=START + 500)
    machine.step(("", Define(0, [Job(id="work", deadline=5.0)])))
    assert machine.run(adopting).deadline_at == START + 105
    assert machine.run(own).deadline_at == START + 500
    machine.advance(105)
    assert machine.state_of(adopting) is State.TIMEOUT
    assert machine.state_of(own) is State.SCHEDULED


def test_definitions_that_nobody_refers_to_are_dropped_from_memory() -> None:
    machine = machine_of()
    for number in range(1500):
        put = Job(id="put", schedule=Schedule(at=START + number + 1), work=ProcessWork(command=("true", str(number))))
        machine.step(("client", Put(1, [put], "client")))
        machine.wall = START + number + 1
        machine.step()
        for run in list(machine.state.runs.values()):
            machine.finished(run.id)
    assert len(machine.state.versions) < 1100


@pytest.mark.behaviour("TIM-12")
@pytest.mark.parametrize("executor", [ExecutorKind.THREAD, ExecutorKind.PROCESS])
def test_a_job_that_runs_the_function_of_another_goes_to_workers_that_know_this_one(executor: ExecutorKind) -> None:
    report = Job(id="report", executor=executor)
    machine = Machine(report)
    machine.step(("client", Put(1, [Job(id="nightly", work=JobWork(job="report"))], "client")))
    run_id = machine.submit("nightly")
    machine.jobs = [WORK]
    machine.worker_up("other")
    assert machine.state_of(run_id) is State.SCHEDULED, "this worker does not know the function"
    machine.jobs = [report]
    machine.worker_up("one")
    assert machine.run(run_id).worker_id == "one"
    (dispatch,) = [sent for sent in machine.last.sends["one"] if isinstance(sent, Dispatch)]
    assert (dispatch.job_id, dispatch.handler) == ("nightly", "report")
    assert dispatch.isolated is (executor is ExecutorKind.PROCESS)

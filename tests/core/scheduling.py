"""Machines with schedules: time that passes from one thing to be done to the next, and what came of it."""

from typing import Any

from interlock.core.state import CoreLimits
from interlock.model.guard import Constraints
from interlock.model.job import Job
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.model.work import ProcessWork
from interlock.wire.command import Define
from interlock.wire.message import Dispatch
from interlock.wire.request import SetPaused
from soak.simulation.history import replay
from tests.core.machine import START, Machine, at_once

TRUE = ProcessWork(command=("true",))
LIMITS = CoreLimits(heartbeat_interval=1e6)

DAY = 86_400.0


def job(job_id: str = "work", max_concurrent_runs: int | None = None, **schedule: Any) -> Job:
    constraints = Constraints(max_concurrent_runs=max_concurrent_runs)
    return Job(id=job_id, schedule=Schedule(**schedule), constraints=constraints)


def machine_of(*jobs: Job) -> Machine:
    machine = Machine(*jobs, limits=LIMITS)
    machine.worker_up()
    return machine


def pass_time(machine: Machine, seconds: float, length: float = 0.0) -> None:
    """Go from one thing to be done to the next; whatever runs ends after so long."""
    end = machine.wall + seconds
    while True:
        _work(machine, length)
        if machine.wall >= end:
            return
        running = [run for run in machine.state.runs.values() if run.state is State.RUNNING]
        ends = [float(run.started_at or 0) + length for run in running]
        wake = machine.last.wake_at if machine.last.wake_at is not None else end
        machine.advance(max(0.0, min([wake, end, *ends]) - machine.wall))


def _work(machine: Machine, length: float) -> None:
    """Start what is dispatched and end what has had its time, until there is neither."""
    while True:
        runs = list(machine.state.runs.values())
        starting = [run for run in runs if run.state is State.DISPATCHED]
        ending = [
            run for run in runs if run.state is State.RUNNING and float(run.started_at or 0) + length <= machine.wall
        ]
        for run in starting:
            machine.started(run.id)
        for run in ending:
            machine.finished(run.id)
        if not starting and not ending:
            return


def times(machine: Machine, *states: State, job_id: str = "work") -> list[float]:
    """The times of a job's runs, from the start on; of those that ended so, if it is said how."""
    runs = [run for run in machine.store.runs_by_id.values() if run.job_id == job_id]
    return sorted(run.scheduled_at - START for run in runs if not states or run.state in states)


def begun(machine: Machine) -> list[tuple[float, float]]:
    """For each run that was started, its nominal time and when it was."""
    runs = [run for run in machine.store.runs_by_id.values() if run.started_at is not None]
    return sorted((run.scheduled_at - START, float(run.started_at or 0) - START) for run in runs)


def pause(machine: Machine, paused: bool, job_id: str = "work") -> Any:
    return machine.step(("client", SetPaused(1, job_id, paused, "client"))).answers[-1][1]


def stop_for(machine: Machine, seconds: float) -> None:
    machine.wall += seconds
    machine.elapsed += seconds
    machine.restart_with_worker()


def check_records(machine: Machine) -> None:
    """Memory and store agree, and every history tells how its run came to its state."""
    for run in machine.store.runs_by_id.values():
        assert replay(at_once(machine.store.history(run.id))) is run.state, run.id
    for run in machine.state.runs.values():
        assert machine.store.runs_by_id[run.id].state is run.state
    sent = [(one.run_id, one.fence) for one in machine.messages(Dispatch)]
    assert len(set(sent)) == len(sent), "no attempt is begun twice"


def declare(machine: Machine, *jobs: Job) -> None:
    machine.jobs = list(jobs)
    machine.step(("", Define(1, machine.jobs)))

"""Machines with a job that has constraints, for tests."""

from typing import Any

from interlock.core.state import CoreLimits
from interlock.model.delivery import Delivery
from interlock.model.guard import Constraints
from interlock.model.job import Job, Retry
from interlock.model.state import State
from tests.core.machine import Machine
from tests.core.scheduling import LIMITS

S = State
HOOK = "https://hooks.example/run"
NO_RETRY = Retry()
FULL_PATH = [S.PENDING, S.CONDITION_PENDING, S.CONDITION_RUNNING]


def guarded(
    on: Any = (), job_id: str = "work", retry: Retry = NO_RETRY, limits: CoreLimits | None = None, **constraints: Any
) -> Machine:
    job = Job(id=job_id, constraints=Constraints(**constraints), on_constraint_violation=on, retry=retry)
    others = [Job(id=one) for one in ("check", "other")]
    machine = Machine(job, *others, limits=limits or LIMITS)
    machine.worker_up()
    return machine


def violations(machine: Machine, run_id: str) -> list[str]:
    return [one.constraint for one in machine.run(run_id).guarded.violations]


def owed(machine: Machine) -> list[Delivery]:
    return list(machine.store.all_of(Delivery).values())


def reason(machine: Machine, run_id: str) -> str:
    return machine.run(run_id).reason


def answers(status: int | None, error: str = "") -> Any:
    return lambda call: (status, error)

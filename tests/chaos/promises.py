"""The invariants of sessions, guards, approvals, tenants, rates, withheld results and webhooks."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from interlock.model.state import State
from tests.chaos.jobs import RATE
from tests.chaos.people import People
from tests.chaos.record import Look, Run

WINDOW = 2.0
"""seconds in which the starts of a rate are counted, at least"""
SLACK = 3
"""starts beyond the rate: the first at once, and those whose decision a kill or a step of the clock lets forget"""


class Execution(NamedTuple):
    run_id: str
    attempt: int
    begin: float
    host: int
    alone: bool
    end: float | None

    def __str__(self) -> str:
        return f"{self.run_id} attempt {self.attempt}"


class Row(NamedTuple):
    invariant: str
    checked: int
    violations: list[str]


def check_promises(
    every: list[Run], looks: list[Look], executions: list[Execution], people: People, told: set[str]
) -> Iterator[Row]:
    """`told` are the runs that the receiver of webhooks has heard of."""
    of_job: dict[str, list[Run]] = defaultdict(list)
    for run in every:
        of_job[run.job_id].append(run)
    begun: dict[str, float] = {}
    for one in executions:
        begun.setdefault(one.run_id, one.begin)
    wrong = [run.id for run in of_job["forbidden"] if run.id in begun or run.state != State.DENIED]
    yield Row("what the policy denies never starts", len(of_job["forbidden"]), wrong)
    asked = of_job["asked"]
    wrong = [run.id for run in asked if run.id in begun and run.id not in people.approved]
    yield Row("nothing starts that must be approved and is not", len(asked), wrong)
    yield Row("nobody approves what they submitted", people.resolved, people.alone)
    wrong = [run.id for run in of_job["secretive"] if run.state == State.SUCCEEDED] + people.leaked
    yield Row("a withheld result is readable nowhere", people.read, wrong)
    yield _check_sessions(of_job["talk"], begun)
    yield _check_rate(looks)
    telling = [run for run in of_job["telling"] if run.state == State.SUCCEEDED]
    yield Row("each webhook arrives at least once", len(telling), [run.id for run in telling if run.id not in told])


def _check_sessions(talks: list[Run], begun: dict[str, float]) -> Row:
    """The runs of a session begin in the order of their arrival."""
    latest: dict[str, tuple[float, str]] = {}
    wrong: list[str] = []
    executed = [run for run in sorted(talks, key=lambda run: run.number) if run.id in begun]
    for run in executed:
        before, first = latest.get(str(run.session), (0.0, ""))
        if begun[run.id] < before:
            wrong.append(f"{run.session}: {run.id} at {begun[run.id]:.3f}, before {first}")
        latest[str(run.session)] = begun[run.id], run.id
    return Row("the runs of a session begin in order", len(executed), wrong)


def _check_rate(looks: list[Look]) -> Row:
    """What a look finds was stored after the look before had begun."""
    wrong: list[str] = []
    end, count = 0, 0
    for place, first in enumerate(looks):
        while end + 1 < len(looks) and looks[end].after < first.before + WINDOW:
            end += 1
            count += looks[end].paced
        span = looks[end].after - first.before
        if count > RATE * span + SLACK:
            wrong.append(f"{count} in {span:.2f} s from {first.before:.3f}")
        if place < end:
            count -= looks[place + 1].paced
        else:
            end += 1
    return Row("no more starts than its rate in any window", sum(look.paced for look in looks), wrong)

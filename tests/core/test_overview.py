"""The overview counts every waiting run once, under the reason of the first of its queue, and changes nothing."""

import pickle
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.entry.lineage import Proofs
from interlock.core.explain import explain
from interlock.core.overview import overview
from interlock.core.state import SchedulerState
from interlock.model.bulk import RunAction
from interlock.model.explanation import Reason
from interlock.model.explanation import ReasonKind as K
from interlock.model.job import Job
from interlock.model.lane import LaneAction, LaneSpec
from interlock.model.overview import NeedKind, Overview, WaitingRuns
from interlock.model.policy.verdict import Ruling
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.command import WorkerUp
from interlock.wire.lane_request import ActOnLane
from interlock.wire.overview_request import AskOverview
from interlock.wire.request import SetPaused
from tests.core import test_explain as explaining
from tests.core.machine import START, Machine
from tests.core.policies import policy, rule


def seen(machine: Machine, tenant: str | None = None) -> Overview:
    machine.state.of(Proofs).prover = None  # a hash that is under way cannot be pickled, nor can a policy
    before = None if machine.policy is not None else pickle.dumps(machine.state)
    found: Overview = overview(AskOverview(0, tenant), machine.state, machine.now).value
    assert before is None or pickle.dumps(machine.state) == before
    return found


def by_reason(found: Overview) -> dict[tuple[K, str | None], int]:
    return {(group.kind, group.name): group.count for group in found.waiting}


def group(found: Overview, kind: K) -> WaitingRuns:
    (one,) = [group for group in found.waiting if group.kind is kind]
    return one


def test_nothing_waits_and_nobody_is_needed() -> None:
    found = seen(explaining.made())
    assert (found.needs, found.waiting, found.unexplained, found.states) == ([], [], 0, {})
    assert (found.workers, found.policy) == (1, None)
    assert [lane.id for lane in found.lanes] == ["main", "slow"]


def test_a_full_lane_and_a_lane_with_a_rate() -> None:
    machine = explaining.made()
    runs = machine.submit_many(10)
    machine.advance(5)
    machine.submit_many(3, "alone")
    machine.submit_many(4, lane="slow")
    found = seen(machine)
    assert by_reason(found) == {(K.LANE_FULL, "main"): 11, (K.RATE, "rate:lane:slow"): 3}
    full = group(found, K.LANE_FULL)
    assert (full.run, full.job, full.since) == (runs[2], "work", START)
    assert full.text == "waits for a slot of lane main: 2 active, 2 allowed"
    assert full.holders == runs[:2]
    assert found.states == {"dispatched": 3, "scheduled": 14}
    assert group(found, K.RATE).at is not None


def test_runs_that_wait_elsewhere() -> None:
    machine = explaining.made({"main": 30, "slow": 5})
    machine.submit_many(3, delay=60.0)
    machine.submit_many(3, session="chat")
    machine.submit_many(2, session="chat", tenant="red")
    machine.submit_many(5, lane="slow")
    for run_id in machine.submit_many(2, lane="slow"):
        machine.act(RunAction.HOLD, run_id)
    failed = machine.running()
    machine.finished(failed, "failed")
    found = seen(machine)
    assert by_reason(found) == {
        (K.SCHEDULED_TIME, None): 3,
        (K.SESSION_TURN, None): 3,
        (K.RETRY, None): 1,
        (K.HELD, "ann"): 2,
    }
    assert group(found, K.SESSION_TURN).text.startswith("waits for its turn in session chat")


def test_no_worker_takes_a_run() -> None:
    machine = explaining.made({"main": 30}, slots=0)
    runs = machine.submit_many(5)
    found = seen(machine)
    assert by_reason(found) == {(K.NO_WORKER, "no_workers"): 5}
    assert (found.waiting[0].run, found.waiting[0].job, found.workers) == (runs[0], "work", 0)
    assert "none is connected" in found.waiting[0].text
    machine.worker_up(slots=2)
    found = seen(machine)
    assert by_reason(found) == {(K.NO_WORKER, None): 3}
    assert "one has no free slot" in found.waiting[0].text


def test_a_caller_of_one_tenant_sees_its_own_runs_alone() -> None:
    machine = explaining.made({"main": 1})
    machine.submit(tenant="red")
    machine.submit_many(3, tenant="red")
    own = machine.submit_many(2, tenant="blue")
    found = seen(machine, "blue")
    assert by_reason(found) == {(K.LANE_FULL, "main"): 2}
    assert (found.waiting[0].run, found.waiting[0].holders) == (own[0], [])
    assert (found.states, found.lanes) == ({"scheduled": 2}, [])
    machine.step(("boss", ActOnLane(1, "main", LaneAction.PAUSE)))
    assert (seen(machine, "blue").needs, len(seen(machine).needs)) == ([], 1)
    assert seen(machine, "").states == {}


def test_a_caller_sees_no_worker_of_other_tenants() -> None:
    machine = explaining.made(slots=0)
    for tenant in ("other", "mine"):
        up = WorkerUp(f"token-{tenant}:w", 5, 1, {"another": ""}, [], False, tenants=frozenset({tenant}))
        machine.step(("", up))
    machine.submit(tenant="mine")
    found = seen(machine, "mine")
    assert found.workers == 1
    assert "token" not in found.waiting[0].text


def test_what_needs_a_person() -> None:
    machine = Machine(
        Job(id="work"),
        explaining.TICKING,
        lanes={"main": LaneSpec(limit=2), "cron": 30},
        policy=policy(rule(reason="a person looks", topics=("work",)), default=Ruling.ALLOW),
    )
    first = machine.submit()
    machine.advance(60)
    machine.submit()
    machine.step(("ann", ActOnLane(1, "main", LaneAction.PAUSE)))
    machine.step(("ann", SetPaused(2, "ticking", True)))
    approval, lane, schedule = seen(machine).needs
    assert (approval.kind, approval.count, approval.run) == (NeedKind.APPROVAL, 2, first)
    assert (approval.text, approval.since) == ("2 runs wait for an approval", START)
    assert approval.detail == "work: a person looks"
    assert approval.until == START + 86_400.0
    assert (lane.kind, lane.name, lane.text, lane.since) == (
        NeedKind.LANE, "main", "lane main is paused by ann", START + 60.0
    )  # fmt: skip
    assert (schedule.kind, schedule.name, schedule.count) == (NeedKind.SCHEDULE, "ticking", 1)
    machine.restart()
    assert seen(machine).needs[1] == lane, "who paused it, and when, outlasts a restart"
    machine.step(("ann", ActOnLane(3, "main", LaneAction.RESUME)))
    assert [need.kind for need in seen(machine).needs] == [NeedKind.APPROVAL, NeedKind.SCHEDULE]


@pytest.mark.parametrize("seed", range(10))
def test_every_waiting_run_is_counted_once(seed: int) -> None:
    """Runs of any kind: the sum is that of all that wait, and the first of a queue is what its explanation says."""
    rng, machine = Random(seed), explaining.made({"main": 3, "slow": LaneSpec(limit=5, rate=0.1)})
    options: list[dict[str, Any]] = [
        {}, {"session": "chat"}, {"session": "pair"}, {"delay": 50.0}, {"lane": "slow"}, {"priority": "batch"},
    ]  # fmt: skip
    runs: list[str] = []
    for _ in range(60):
        job = rng.choice(["work", "rated", "alone"])
        runs.append(machine.submit(job, tenant=rng.choice("ab"), **rng.choice(options)))
        if rng.random() < 0.2:
            machine.cancel(rng.choice(runs))
        if rng.random() < 0.2 and machine.state.lanes["main"].holding:
            machine.finished(next(iter(machine.state.lanes["main"].holding)))
        found = seen(machine)
        states = Counter(run.state for run in machine.state.runs.values())
        assert found.states == states
        waits = sum(states.values()) - sum(states[one] for one in (State.DISPATCHED, State.RUNNING))
        assert (sum(one.count for one in found.waiting), found.unexplained) == (waits, 0)
        assert sum(sum(by_reason(seen(machine, tenant)).values()) for tenant in "ab") == waits
        for one in found.waiting:
            reasons = explain(machine.state, machine.state.runs[one.run], machine.now).reasons
            assert one.kind in {reason.kind for reason in reasons}
            assert one.kind is not K.LANE_TURN, "it is the first of its queue"


def test_at_most_a_thousand_queues_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[str] = []
    machine = explaining.made({"main": 1})
    machine.submit()
    for number in range(1100):
        machine.submit(tenant=f"t{number}")
    machine.submit_many(4, tenant="t1099")
    part = machine.state.machine.explains[0]

    def note(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
        explained.append(run.id)
        return part(state, run, now)

    explains = (note, *machine.state.machine.explains[1:])
    monkeypatch.setattr(machine.state, "machine", replace(machine.state.machine, explains=explains))
    found: Overview = overview(AskOverview(0), machine.state, machine.now).value
    assert len(explained) == 1000
    assert sum(one.count for one in found.waiting) + found.unexplained == 1104
    assert found.unexplained == 100, "the longest queues come first"

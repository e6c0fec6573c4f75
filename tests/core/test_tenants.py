"""Tenants: their limits hold, whatever happens; nobody waits for another's flood; and every run comes to its end."""

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings, stateful

from interlock.core.decisions import Failed
from interlock.core.explain import explain
from interlock.core.lanes.lane import AGEING
from interlock.core.state import CoreLimits
from interlock.core.tenants.limits import tenants
from interlock.core.tenants.tenant import Tenants
from interlock.error import BadValue, Forbidden, InterlockError, TenantLimit
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.explanation import ReasonKind
from interlock.model.job import Job
from interlock.model.run import RunFilter
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import HOLDS_SLOT, State
from interlock.model.tenant import OverLimit, TenantInfo, TenantList, TenantSpec
from interlock.wire.command import Refill
from interlock.wire.lane_request import AskTenants
from interlock.wire.message import Dispatch, Returned
from interlock.wire.request import Accepted, NewRun, StartBulk, ValueAnswer
from tests.core.machine import AT_ONCE, START, WORK, Machine
from tests.core.test_gates import check_rate

REFUSE = OverLimit.REFUSE


def machine_with(slots: int = 100, lanes: dict[str, int] | None = None, **tenants: TenantSpec) -> Machine:
    machine = Machine(lanes=lanes or {"main": 100, "other": 100}, tenants=tenants)
    machine.worker_up(slots=slots)
    return machine


def declare(machine: Machine, **tenants: TenantSpec) -> None:
    machine.tenants = tenants
    machine.step(("", machine.define()))


def flood(machine: Machine, count: int, **fields: Any) -> list[str]:
    machine.ask(*[NewRun("work", b"{}", **fields) for _ in range(count)])
    return list(machine.state.runs)[-count:]


def executing(machine: Machine, tenant: str | None = None) -> list[str]:
    runs = machine.state.runs.values()
    return [run.id for run in runs if run.state in HOLDS_SLOT and tenant in (None, run.tenant)]


def finish_all(machine: Machine) -> int:
    """Let every run end, and return the most that executed at once."""
    most = 0
    while machine.state.runs:
        most = max(most, len(executing(machine)))
        if executing(machine):
            machine.finished(executing(machine)[0])
        else:
            assert machine.last.wake_at is not None, "it would sleep for ever"
            machine.advance_to(machine.last.wake_at)
    return most


def refusal(machine: Machine, *runs: NewRun) -> InterlockError:
    answer = machine.ask(*runs)
    assert isinstance(answer, Failed)
    return answer.error


def info(machine: Machine, only: str | None = None) -> list[TenantInfo]:
    report = tenants(AskTenants(1).by(only_tenant=only), machine.state, machine.now)
    assert isinstance(report, ValueAnswer)
    assert isinstance(report.value, TenantList)
    return report.value.tenants


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("ROU-8")
def test_with_a_limit_of_one_all_runs_finish_one_at_a_time() -> None:
    machine = machine_with(a=TenantSpec(max_running=1))
    first, second, _ = machine.submit_many(3, tenant="a")
    assert executing(machine) == [first]
    (reason,) = [one for one in explain(machine.state, machine.run(second), machine.now).reasons if one.holders]
    assert (reason.kind, reason.name, reason.holders) == (ReasonKind.TENANT_LIMIT, "tenant:a", [first])
    assert reason.text == "waits for the limit of tenant a: 1 active, 1 allowed"
    assert finish_all(machine) == 1
    assert [run.state for run in machine.ended] == [State.SUCCEEDED] * 3


@pytest.mark.behaviour("ROU-8")
def test_a_limit_counts_in_all_lanes_for_every_attempt_and_after_a_restart() -> None:
    machine = machine_with(a=TenantSpec(max_running=2))
    runs = [machine.submit(tenant="a", lane=lane) for lane in ("main", "other", "main", "other")]
    assert executing(machine) == runs[:2]
    machine.lost(runs[0])  # given back, to be tried in a process of its own
    assert len(executing(machine)) == 2
    machine.restart_with_worker(held=[machine.held(one) for one in executing(machine)])
    assert len(executing(machine)) == 2
    assert finish_all(machine) == 2


@pytest.mark.behaviour("LAN-5", "ROU-8")
def test_others_pass_by_a_tenant_at_its_limit() -> None:
    machine = machine_with(slots=3, lanes={"main": 3}, a=TenantSpec(max_running=2))
    flood(machine, 10_000, tenant="a")
    assert len(executing(machine, "a")) == 2
    single = machine.submit(tenant="b")
    assert machine.state_of(single) is State.DISPATCHED


@pytest.mark.behaviour("LAN-5")
@pytest.mark.parametrize("limits", [None, TenantSpec(max_running=5), TenantSpec(max_running=9, rate=1e6, burst=1000)])
def test_a_single_run_starts_within_one_turn_of_another_tenants_flood(limits: TenantSpec | None) -> None:
    machine = machine_with(slots=5, lanes={"main": 5}, **({} if limits is None else {"a": limits}))
    flood(machine, 10_000, tenant="a")
    single = machine.submit(tenant="b")
    machine.finished(executing(machine, "a")[0])
    if machine.state_of(single) is not State.DISPATCHED:  # the turn was the other's
        machine.finished(executing(machine, "a")[0])
    assert machine.state_of(single) is State.DISPATCHED


@pytest.mark.behaviour("LAN-5")
def test_a_batch_run_gets_its_turn_behind_a_critical_flood_of_another_tenant() -> None:
    machine = machine_with(slots=2, lanes={"main": 2}, a=TenantSpec(max_running=2))
    flood(machine, 100, tenant="a", priority="critical")
    batch = machine.submit(tenant="b", priority="batch")
    flood(machine, 2000, tenant="a", priority="critical")
    starts = 0
    while machine.state_of(batch) is State.SCHEDULED:
        machine.finished(executing(machine)[0])
        starts += 1
    # Ageing serves the oldest: those of the flood that came before it, then it.
    assert starts <= AGEING * 101


def test_a_batch_run_overtakes_a_critical_flood_that_came_later() -> None:
    machine = machine_with(slots=1, lanes={"main": 1}, a=TenantSpec(max_running=1))
    machine.submit(tenant="a")
    batch = machine.submit(tenant="b", priority="batch")
    flood(machine, 1000, tenant="a", priority="critical")
    for _ in range(AGEING):
        machine.finished(executing(machine)[0])
    assert machine.state_of(batch) is not State.SCHEDULED


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("ROU-7")
def test_a_submit_beyond_max_waiting_is_refused_whole() -> None:
    machine = machine_with(slots=1, a=TenantSpec(max_waiting=3))
    machine.submit_many(3, tenant="a")
    error = refusal(machine, *[NewRun("work", b"{}", tenant="a")] * 2)
    assert isinstance(error, TenantLimit)
    assert str(error) == "tenant: 'a' is at its max_waiting of 3; try again in 1s"
    assert (error.code, error.status, error.retry_after) == ("tenant_limit", 429, 1.0)
    key = machine.submit(tenant="a", idempotency_key="k")
    assert machine.submit(tenant="a", idempotency_key="k") == key  # a repeat needs no room
    assert isinstance(refusal(machine, NewRun("work", b"{}", tenant="a")), TenantLimit)
    machine.submit_many(5, tenant="b")
    machine.cancel(key)
    machine.submit(tenant="a", delay=60.0)
    assert [(one.id, one.running, one.waiting, one.refused) for one in info(machine)] == [("a", 1, 3, 2)]
    error = refusal(machine, *[NewRun("work", b"{}", tenant="a")] * 4)
    assert isinstance(error, BadValue)
    assert (
        str(error)
        == "runs: 4 given; at most 3 are allowed; the max_waiting of tenant 'a' lets no more in at once; submit fewer"
    )


@pytest.mark.behaviour("LAN-8")
def test_a_tenant_that_refuses_takes_submits_at_its_rate_also_after_a_restart() -> None:
    machine = machine_with(a=TenantSpec(rate=2.0, burst=2, over_limit=REFUSE))
    taken = []
    for tick in range(50):
        if tick == 25:
            machine.restart_with_worker()
        answer = machine.ask(NewRun("work", b"{}", tenant="a"))
        if not isinstance(answer, Failed):
            taken.append(machine.elapsed)
        else:
            assert isinstance(answer.error, TenantLimit)
            left = answer.error.retry_after
            assert left is not None
            assert 0 < left <= 0.5
        machine.advance(0.1)
    check_rate(taken, 2.0, 2)
    assert len(taken) == 2 + 9
    assert len(executing(machine)) == len(taken)  # starts are not held back
    left = refusal(machine, *[NewRun("work", b"{}", tenant="a")] * 2).retry_after
    assert left is not None
    machine.advance(left)
    machine.ask(*[NewRun("work", b"{}", tenant="a")] * 2)
    assert len(executing(machine)) == len(taken) + 2
    assert isinstance(refusal(machine, *[NewRun("work", b"{}", tenant="a")] * 3), BadValue)


def test_a_tenant_that_refuses_takes_no_more_runs_than_may_execute() -> None:
    machine = machine_with(slots=1, a=TenantSpec(max_running=2, over_limit=REFUSE))
    first, _ = machine.submit_many(2, tenant="a")
    with pytest.raises(TenantLimit, match="is at its max_running of 2"):
        machine.submit(tenant="a")
    machine.finished(first)
    machine.submit(tenant="a")


@pytest.mark.behaviour("LAN-8")
def test_a_tenant_that_waits_starts_at_its_rate_and_says_when_it_has_room() -> None:
    machine = machine_with(a=TenantSpec(rate=0.25, burst=2, max_waiting=3))
    machine.submit_many(5, tenant="a")
    with pytest.raises(TenantLimit) as caught:
        machine.submit(tenant="a")
    assert caught.value.retry_after == pytest.approx(4.0)
    last = list(machine.state.runs)[-1]
    (reason,) = [one for one in explain(machine.state, machine.run(last), machine.now).reasons if one.at]
    assert (reason.kind, reason.text) == (
        ReasonKind.RATE,
        "waits for the rate of tenant a, which allows the next start in 4.0s",
    )
    machine.restart_with_worker()
    starts: list[float] = []
    while len(starts) < 3:
        before = len(machine.dispatched())
        assert machine.last.wake_at is not None
        machine.advance_to(machine.last.wake_at)
        starts += [machine.wall] * (len(machine.dispatched()) - before)
    assert starts == pytest.approx([START + 4, START + 8, START + 12])


# ── lanes and labels ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tenant_uses_only_its_lanes() -> None:
    machine = machine_with(a=TenantSpec(lanes=("other",)))
    machine.submit(tenant="a", lane="other")
    for lane in (None, "main", "unknown"):  # the job's own, a given one, and one that main stands for
        with pytest.raises(Forbidden, match=r"^lane: 'main' is not a lane of tenant 'a'; use one of other$"):
            machine.submit(tenant="a", lane=lane)
    machine.submit(tenant="b")


def test_labels_of_a_tenant_are_under_those_of_the_submit() -> None:
    machine = machine_with(a=TenantSpec(labels={"team": "data", "cost": "1"}))
    run_id = machine.submit(tenant="a", labels={"cost": "2"})
    assert machine.store.runs_by_id[run_id].labels == {"team": "data", "cost": "2"}
    assert not machine.run(machine.submit(tenant="b")).labels


# ── retries, backfills, occurrences ─────────────────────────────────────────────────────────────────────────────────


def test_retries_by_a_person_obey_the_limits() -> None:
    machine = machine_with(slots=0, a=TenantSpec(max_waiting=2))
    ended = machine.submit_many(2, tenant="a")
    for run_id in ended:
        machine.cancel(run_id)
    machine.submit(tenant="a")
    assert not isinstance(machine.act(RunAction.RETRY, ended[0]), Failed)
    answer = machine.act(RunAction.RETRY, ended[1])
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, TenantLimit)
    declare(machine, a=TenantSpec(max_waiting=3))
    more = machine.submit(tenant="a")
    machine.cancel(more)
    bulk = StartBulk(9, "b", RunAction.RETRY, RunFilter(tenant="a"), "again", "ann")
    report = machine.step(("client", bulk)).answers[-1][1]
    assert isinstance(report, ValueAnswer)
    found: BulkRequest = report.value
    assert (found.done, info(machine)[0].waiting) == (1, 3)


def test_a_backfill_is_refused_beyond_max_waiting_and_occurrences_wait() -> None:
    job = Job(id="often", schedule=Schedule(every=20.0))
    spec = TenantSpec(max_waiting=2, max_running=1, over_limit=REFUSE)
    machine = Machine(job, tenants={"default": spec}, limits=CoreLimits(prerun=1.0))
    machine.worker_up()
    times = [START - 20.0 * number for number in range(1, 4)]
    refill = Refill(5, "often", times, b"", "default", 10, "ann")
    answer = machine.step(("client", refill)).answers[-1][1]
    assert isinstance(answer, Failed)
    assert str(answer.error).startswith("runs: 3 given; at most 2 are allowed; the max_waiting of tenant 'default'")
    machine.step(("client", Refill(5, "often", times[:2], b"", "default", 10, "ann")))
    assert len(executing(machine)) == 1
    machine.advance(20.0)
    assert info(machine)[0].waiting == 3  # an occurrence is never refused
    assert finish_all_once(machine) == 4  # the first occurrence too, which is due at once


def finish_all_once(machine: Machine) -> int:
    """Finish what executes until nothing does; return how many ran, one at a time."""
    count = 0
    while executing(machine):
        assert len(executing(machine)) == 1
        machine.finished(executing(machine)[0])
        count += 1
    return count


# ── reload ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("ROU-8")
def test_a_reload_changes_limits_at_once_for_runs_that_wait() -> None:
    machine = machine_with()
    machine.submit_many(3, tenant="a")
    declare(machine, a=TenantSpec(max_running=2))  # it has 3, which go on
    machine.submit_many(6, tenant="a", labels={"with": "facets"})
    machine.submit_many(6, tenant="a")
    assert len(executing(machine)) == 3
    declare(machine, a=TenantSpec(max_running=5))
    assert len(executing(machine)) == 5
    declare(machine, a=TenantSpec(max_running=1))
    for left in (4, 3, 2, 1, 1):
        machine.finished(executing(machine)[0])
        assert len(executing(machine)) == left
    declare(machine, a=TenantSpec(rate=1.0))
    assert len(executing(machine)) == 2
    declare(machine, a=TenantSpec(rate=1.0, burst=3))
    assert len(executing(machine)) == 4
    assert [name for name in machine.store.memos if name.startswith("rate:")] == ["rate:tenant:a"]
    declare(machine)
    assert len(executing(machine)) == 10
    assert not machine.state.gates
    assert not machine.store.memos.keys() & {"rate:tenant:a"}
    assert info(machine) == []


@pytest.mark.behaviour("LAN-5", "ROU-8")
@pytest.mark.parametrize("before", ["cancelled", "cancelled with a successor", "started while there was no limit"])
def test_behind_a_limit_no_run_takes_the_place_of_an_earlier_one_of_its_job(before: str) -> None:
    machine = Machine(WORK, Job(id="other"), lanes={"main": 100}, tenants={"a": TenantSpec(max_running=1)})
    machine.worker_up(slots=100)
    first, earlier = machine.submit_many(2, tenant="a")
    if before == "started while there was no limit":
        declare(machine, a=TenantSpec())
        declare(machine, a=TenantSpec(max_running=1))
        other, later = machine.submit("other", tenant="a"), machine.submit(tenant="a")
        machine.finished(first)
        machine.finished(earlier)
    else:
        if before == "cancelled":
            machine.cancel(earlier)
        other, later = machine.submit("other", tenant="a"), machine.submit(tenant="a")
        machine.cancel(earlier)
        machine.finished(first)
    assert executing(machine) == [other]
    machine.finished(other)
    assert executing(machine) == [later]


@pytest.mark.behaviour("LAN-5", "ROU-8")
def test_behind_a_limit_a_run_that_no_worker_began_has_its_place_again() -> None:
    machine = Machine(WORK, Job(id="other"), lanes={"main": 100}, tenants={"a": TenantSpec(max_running=2)})
    machine.worker_up(slots=1)
    first = machine.submit(tenant="a")
    machine.worker_up("two", slots=100)
    second, other, later = [machine.submit(job, tenant="a") for job in ("work", "other", "work")]
    declare(machine, a=TenantSpec(max_running=1))
    machine.step(("one", Returned(first, 1, "no room")))
    for run_id in (second, first, other, later):
        assert executing(machine) == [run_id]
        machine.finished(run_id)


def test_a_limit_declared_later_counts_for_runs_that_wait_already() -> None:
    machine = machine_with(slots=1)
    first, *_ = machine.submit_many(5, tenant="a")
    machine.cancel(machine.submit(tenant="a"))
    declare(machine, a=TenantSpec(max_running=1))
    machine.worker_up("two")
    assert executing(machine) == [first]
    assert info(machine)[0].waiting == 4
    assert finish_all(machine) == 1


def test_a_caller_of_one_tenant_sees_only_it() -> None:
    spec = TenantSpec(rate=10.0, burst=3, lanes=("main",), labels={"team": "x"})
    machine = machine_with(a=spec, b=TenantSpec(max_running=3))
    assert [one.id for one in info(machine)] == ["a", "b"]
    (one,) = info(machine, "a")
    assert (one.rate, one.burst, one.lanes, one.labels, one.over_limit) == ("10/s", 3, ["main"], {"team": "x"}, "wait")
    assert info(machine, "c") == []


# ── a slow model ────────────────────────────────────────────────────────────────────────────────────────────────────

SPECS = {
    "a": (TenantSpec(max_running=2, max_waiting=3), TenantSpec(max_running=1), TenantSpec(rate=1.0, burst=2), None),
    "b": (TenantSpec(max_running=1, rate=2.0, over_limit=REFUSE), TenantSpec(max_running=3, max_waiting=1), None),
    "c": (None,),
}
JOBS = [WORK, Job(id="slow", rate=2.0)]


class TenantMachine(stateful.RuleBasedStateMachine):
    """The model counts every live run anew after each step."""

    @stateful.initialize(limit=st.integers(1, 6))
    def begin(self, limit: int) -> None:
        self.machine = Machine(
            *JOBS,
            lanes={"main": limit, "other": 2},
            limits=CoreLimits(session_patterns=AT_ONCE),
            tenants=self.specs(0, 0),
        )
        self.machine.worker_up(slots=100)
        self.before: dict[str, int] = {}  # tenant → runs that held a slot when its limit was lowered
        self.starts: dict[str, list[float]] = {}
        self.seen = 0

    def specs(self, *places: int) -> dict[str, TenantSpec]:
        found = {name: SPECS[name][place % len(SPECS[name])] for name, place in zip("ab", places, strict=True)}
        return {name: spec for name, spec in found.items() if spec is not None}

    def count(self, tenant: str) -> tuple[int, int]:
        runs = [run for run in self.machine.state.runs.values() if run.tenant == tenant]
        running = sum(run.state in HOLDS_SLOT for run in runs)
        return running, len(runs) - running

    @stateful.rule(
        tenant=st.sampled_from("abc"),
        job=st.sampled_from(JOBS),
        count=st.integers(1, 3),
        lane=st.sampled_from(["main", "other"]),
        priority=st.sampled_from(["critical", "batch"]),
        session=st.sampled_from([None, "s"]),
        delay=st.sampled_from([None, 2.0]),
    )
    def submit(
        self, tenant: str, job: Job, count: int, lane: str, priority: str, session: str | None, delay: float | None
    ) -> None:
        running, waiting = self.count(tenant)
        new = NewRun(job.id, b"{}", tenant, lane, session, priority=priority, delay=delay)
        answer = self.machine.ask(*[new] * count)
        spec = self.machine.tenants.get(tenant)
        if spec is None:
            assert not isinstance(answer, Failed)
            return
        full = spec.max_waiting is not None and waiting + count > spec.max_waiting
        if spec.over_limit is REFUSE and spec.max_running is not None:
            full = full or running + waiting + count > spec.max_running
        if full or spec.over_limit is OverLimit.WAIT:  # else the rate may refuse it too
            assert isinstance(answer, Failed) is full
        if isinstance(answer, Failed):
            assert isinstance(answer.error, (TenantLimit, BadValue))

    @stateful.precondition(lambda self: bool(executing(self.machine)))
    @stateful.rule(place=st.integers(0, 100), ends=st.sampled_from(["succeeded", "failed", "lost"]))
    def finish(self, place: int, ends: str) -> None:
        runs = executing(self.machine)
        run_id = runs[place % len(runs)]
        if ends == "lost":
            self.machine.lost(run_id)
        else:
            self.machine.finished(run_id, ends)

    @stateful.precondition(lambda self: self.machine.state.runs)
    @stateful.rule(place=st.integers(0, 100))
    def cancel(self, place: int) -> None:
        runs = list(self.machine.state.runs)
        self.machine.cancel(runs[place % len(runs)])

    @stateful.rule(seconds=st.sampled_from([0.2, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.machine.advance(seconds)

    @stateful.rule(a=st.integers(0, 3), b=st.integers(0, 2))
    def reload(self, a: int, b: int) -> None:
        self.before = {tenant: self.count(tenant)[0] for tenant in "ab"}
        self.starts = {}
        declare(self.machine, **self.specs(a, b))

    @stateful.rule()
    def restart(self) -> None:
        self.machine.restart()
        self.machine.worker_up(slots=100, held=[self.machine.held(one) for one in executing(self.machine)])

    @stateful.invariant()
    def nothing_is_exceeded(self) -> None:
        if not hasattr(self, "seen"):
            return
        for _, message in self.machine.sent[self.seen :]:
            if isinstance(message, Dispatch):
                self.starts.setdefault(self.machine.run(message.run_id).tenant, []).append(self.machine.elapsed)
        self.seen = len(self.machine.sent)
        for name, tenant in self.machine.state.of(Tenants).items():
            running, waiting = self.count(name)
            assert (len(tenant.holders), tenant.waiting) == (running, waiting)
            self.before[name] = min(self.before.get(name, 0), running)
            if (most := tenant.spec.max_running) is not None:
                assert running <= max(most, self.before[name])
            if tenant.spec.rate is not None and not tenant.refuses:
                check_rate(self.starts.get(name, []), *tenant.rate or (1.0, 1))

    def teardown(self) -> None:
        """Every run comes to its end, without a push from outside."""
        if hasattr(self, "machine"):
            for _ in range(1000):
                if not self.machine.state.runs:
                    return
                if running := executing(self.machine):
                    self.machine.finished(running[0])
                else:
                    assert self.machine.last.wake_at is not None, "it would sleep for ever"
                    self.machine.advance_to(self.machine.last.wake_at)
            raise AssertionError(f"{len(self.machine.state.runs)} runs are left")


@pytest.mark.behaviour("ROU-8", "LAN-5", "LAN-8")
def test_limits_of_tenants_under_random_commands() -> None:
    stateful.run_state_machine_as_test(
        TenantMachine,
        settings=settings(max_examples=100, stateful_step_count=40, suppress_health_check=list(HealthCheck)),
    )


# ── everybody else ──────────────────────────────────────────────────────────────────────────────────────────────────


def with_everybody(usual: TenantSpec, **tenants: TenantSpec) -> Machine:
    machine = machine_with()
    machine.tenants = {**tenants, "*": usual}
    machine.step(("", machine.define()))
    return machine


@pytest.mark.behaviour("ROU-8")
def test_every_tenant_without_a_document_has_the_limits_of_the_star_for_itself() -> None:
    machine = with_everybody(TenantSpec(max_running=1, max_waiting=2), a=TenantSpec(max_running=3))
    for tenant in ("a", "b", "c", "default"):
        machine.submit_many(3, tenant=tenant)
    active = Counter(machine.run(run_id).tenant for run_id in executing(machine))
    assert active == {"a": 3, "b": 1, "c": 1, "default": 1}
    assert str(refusal(machine, NewRun("work", b"{}", tenant="b"))).startswith("tenant: 'b' is at its max_waiting of 2")
    assert isinstance(machine.ask(NewRun("work", b"{}", tenant="a")), Accepted)
    shown = {one.id: (one.running, one.waiting, one.refused, one.max_running) for one in info(machine)}
    assert shown == {"a": (3, 1, 0, 3), "*": (3, 6, 1, 1)} | dict.fromkeys(("b", "c", "default"), (1, 2, 0, 1))
    assert [one.id for one in info(machine, "b")] == ["b"]
    assert [(one.id, one.max_running) for one in info(machine, "nobody")] == [("nobody", 1)]
    machine.restart_with_worker(held=[machine.held(one) for one in executing(machine)])
    assert Counter(machine.run(run_id).tenant for run_id in executing(machine)) == active
    finish_all(machine)
    assert [run.state for run in machine.ended] == [State.SUCCEEDED] * 13
    assert set(machine.state.of(Tenants)) == {"a", "*"}, "tenants without runs take no memory"


@pytest.mark.behaviour("ROU-8", "LAN-8")
def test_the_rate_of_a_tenant_without_a_document_holds_over_idle_times_and_restarts_and_is_then_forgotten() -> None:
    machine = with_everybody(TenantSpec(rate=0.1, burst=2))
    for _ in range(2):
        machine.submit(tenant="b")
        machine.finished(executing(machine)[0])
    assert set(machine.state.of(Tenants)) == {"*"}
    machine.restart_with_worker()
    waits = machine.submit(tenant="b")
    assert machine.state_of(waits) is State.SCHEDULED
    machine.advance(10)
    machine.finished(waits)
    for _ in range(3):
        machine.advance(60)
    assert [name for name in (*machine.state.gates, *machine.store.memos) if "tenant:b" in name] == []


@pytest.mark.behaviour("ROU-8")
def test_a_reload_changes_who_has_the_limits_of_the_star() -> None:
    machine = with_everybody(TenantSpec(max_running=1))
    machine.submit_many(4, tenant="b")
    assert len(executing(machine)) == 1
    two, three = {"*": TenantSpec(max_running=2)}, {"*": TenantSpec(), "b": TenantSpec(max_running=3)}
    for declared, most in ((two, 2), (three, 3), ({}, 4)):
        machine.tenants = declared
        machine.step(("", machine.define()))
        assert len(executing(machine)) == most

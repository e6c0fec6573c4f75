"""What is counted of a scheduler's life, and that Prometheus can read it."""

import math
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from interlock.circuit import Circuit
from interlock.core.decisions import Decisions
from interlock.core.state import CoreLimits
from interlock.core.step import Command
from interlock.engine.metrics import MOST_JOBS, OTHERS, SECONDS, Histogram, Metrics
from interlock.error import LeaseLost, StoreUnavailable, TenantLimit
from interlock.model.exposition import Family, exposition
from interlock.model.guard import Action, Constraints
from interlock.model.job import Job
from interlock.model.policy.output import Scanned
from interlock.model.policy.scanner import OutputAction
from interlock.model.policy.verdict import Ruling, Verdict
from interlock.model.pool import PoolSpec
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import TERMINAL, State
from interlock.model.tenant import TenantSpec
from interlock.model.workflow import Compensate, Workflow, WorkflowStep
from interlock.policy_service.client import CIRCUIT
from interlock.wire.command import Define, WorkerUp
from interlock.wire.message import Load, LogMessage
from tests.core.machine import Machine, retrying_job
from tests.core.test_output import SECRETS, report, succeeded
from tests.core.test_output import policy as output_policy
from tests.core.test_output import rule as output_rule

pytestmark = pytest.mark.behaviour("OBS-1")

Labels = frozenset[tuple[str, str]]
SAGA = ("recorded", "rollbacks", "compensations_dispatched", "compensations_failed", "unreadable")


class Counted(Machine):
    """A machine whose every pass is counted, as the engine does it."""

    def __init__(self, *jobs: Job, **lanes: int) -> None:
        self.metrics = Metrics()
        self.taken = 0.003
        super().__init__(*jobs, lanes=lanes or None)
        self.metrics.begin(self.state)

    def _pass(self, commands: Sequence[Command]) -> Decisions:
        decisions = super()._pass(commands)
        if decisions.outputs_judged:
            self.metrics.judged(decisions.outputs_judged, self.taken)
        self.metrics.add(decisions, self.taken)
        return decisions

    def restart(self) -> None:
        super().restart()
        self.metrics.begin(self.state)

    def read(self, available: bool = True, position: int = 7) -> dict[tuple[str, Labels], float]:
        """Every sample, as Prometheus itself reads it."""
        text = exposition(self.metrics.families(available=available, position=position))
        return {(name, labels): value for name, labels, value in samples_of(text)}

    def value(self, name: str, **labels: str) -> float:
        return self.read()[f"interlock_{name}", frozenset(labels.items())]


def samples_of(text: str) -> Iterator[tuple[str, Labels, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, frozenset(sample.labels.items()), sample.value


def test_the_life_of_runs_is_counted_by_job_and_end() -> None:
    machine = Counted(Job(id="work"), Job(id="other"))
    machine.worker_up()
    first, second, third = machine.submit(), machine.submit(), machine.submit("other")
    for run_id in (first, second, third):
        machine.started(run_id)
    machine.finished(first)
    machine.finished(second, "failed")
    machine.cancel(third)
    machine.finished(third, "cancelled")
    assert machine.value("runs_received_total", topic="work") == 2
    assert machine.value("runs_received_total", topic="other") == 1
    assert machine.value("runs_dispatched_total", topic="work") == 2
    assert machine.value("runs_completed_total", topic="work", status="succeeded") == 1
    assert machine.value("runs_completed_total", topic="work", status="failed") == 1
    assert machine.value("runs_completed_total", topic="other", status="cancelled") == 1
    assert machine.metrics.submitted == 3
    assert machine.metrics.ended == {"succeeded": 1, "failed": 1, "cancelled": 1}
    assert [run.id for run in machine.metrics.recent] == [first, second, third]


def test_retries_and_crashes_are_told_apart() -> None:
    machine = Counted(retrying_job(2, max_crashes=2))
    machine.worker_up()
    run_id = machine.running()
    machine.finished(run_id, "failed")
    machine.advance(60)
    machine.started(run_id)
    machine.lost(run_id)
    assert machine.state_of(run_id) is State.DISPATCHED
    machine.started(run_id)
    machine.lost(run_id)
    assert machine.state_of(run_id) is State.ORPHANED
    assert machine.value("runs_retried_total", job="work") == 1
    assert machine.value("runs_crashed_total", job="work") == 2
    assert machine.value("runs_dispatched_total", topic="work") == 3
    assert machine.value("dead_letters_total", reason="orphaned") == 1
    assert machine.value("dispatch_latency_seconds_count", topic="work") == 1


def test_how_long_runs_wait_and_take_is_measured() -> None:
    machine = Counted(Job(id="work"))
    run_id = machine.submit()
    later = machine.submit(at=machine.wall + 60)
    machine.advance(4)
    machine.worker_up()
    machine.started(run_id)
    machine.advance(0.2)
    machine.finished(run_id)
    assert machine.value("dispatch_latency_seconds_count", topic="work") == 1
    assert machine.value("dispatch_latency_seconds_sum", topic="work") == 4
    assert machine.value("dispatch_latency_seconds_bucket", topic="work", le="2.5") == 0
    assert machine.value("dispatch_latency_seconds_bucket", topic="work", le="5") == 1
    assert machine.value("run_duration_seconds_sum", job="work") == pytest.approx(0.2, abs=1e-6)
    assert machine.value("run_duration_seconds_bucket", job="work", le="+Inf") == 1
    machine.advance(55.8)
    assert machine.state_of(later) is State.DISPATCHED
    assert machine.value("dispatch_latency_seconds_sum", topic="work") == pytest.approx(4, abs=1e-6)
    assert machine.value("dispatch_latency_seconds_count", topic="work") == 2


def test_a_run_that_never_began_has_no_duration_and_a_clock_set_back_no_negative_one() -> None:
    machine = Counted(Job(id="work"))
    machine.cancel(machine.submit())
    assert ("interlock_run_duration_seconds_count", frozenset({("job", "work")})) not in machine.read()
    run_id = machine.running()
    machine.wall -= 3600
    machine.finished(run_id)
    assert machine.value("run_duration_seconds_sum", job="work") == 0
    assert machine.value("run_duration_seconds_count", job="work") == 1


def test_commits_are_measured_and_a_pass_without_one_is_not() -> None:
    machine = Counted(Job(id="work"))
    before = machine.value("commit_duration_seconds_count")
    machine.taken = 2.0
    machine.submit()
    machine.step()
    assert machine.metrics.commits == before + 1
    assert machine.value("commit_duration_seconds_count") == before + 1
    assert machine.value("commit_duration_seconds_sum") == pytest.approx(2.0 + 0.003 * before)
    assert machine.value("commit_rows_count") == before + 1
    assert machine.value("commit_rows_sum") >= 2


def test_what_is_there_now_is_read_from_the_state() -> None:
    machine = Counted(Job(id="work"), main=1, team=2)
    machine.running()
    machine.submit()
    machine.submit(at=machine.wall + 100)
    live = {state: machine.value("runs_live", state=state) for state in State if state not in TERMINAL}
    assert {state: count for state, count in live.items() if count} == {"prerun": 1, "scheduled": 1, "running": 1}
    assert machine.value("lane_active", lane="main") == 1
    assert machine.value("lane_limit", lane="team") == 2
    assert machine.value("lane_waiting", lane="main") == 1
    assert machine.value("workers") == 1
    assert machine.value("pool_slots", pool="default") == 100
    assert machine.value("pool_active", pool="default") == 1
    assert machine.value("store_available") == 1
    assert machine.value("store_position") == 7
    assert machine.read(available=False)["interlock_store_available", frozenset()] == 0
    machine.worker_down()
    assert machine.value("workers") == 0


def test_workers_are_counted_by_pool() -> None:
    machine = Counted(Job(id="work"))
    pools = {name: PoolSpec(topics=("*",), offers=("*",)) for name in ("gpu", "cpu")}
    machine.step(("", Define(1, machine.jobs, pools=pools)))
    for name, pool, slots, cpu in (("a", "gpu", 2, 20.0), ("b", "gpu", 1, 95.0), ("c", "cpu", 8, 5.0)):
        known = {"work": ""} if name == "a" else {}
        machine.step(("", WorkerUp(name, slots, 1, known, [], False, pool=pool)), (name, Load(cpu=cpu)))
    machine.submit()
    assert machine.value("workers") == 3
    assert machine.value("pool_workers", pool="gpu", state="ready") == 1
    assert machine.value("pool_workers", pool="gpu", state="overloaded") == 1
    assert machine.value("pool_workers", pool="cpu", state="ready") == 1
    for name, gpu, cpu in (("slots", 3, 8), ("active", 1, 0), ("cpu_percent", 57.5, 5)):
        assert (machine.value(f"pool_{name}", pool="gpu"), machine.value(f"pool_{name}", pool="cpu")) == (gpu, cpu)
    assert machine.value("pool_dispatches_total", pool="gpu") == 1
    machine.worker_down("c")
    assert machine.value("pool_workers", pool="cpu", state="away") == 1
    assert ("interlock_pool_slots", frozenset({("pool", "cpu")})) not in machine.read()


def test_looks_for_a_worker_in_vain_are_counted_by_reason() -> None:
    machine = Counted(Job(id="work"))
    machine.submit()
    for _ in range(3):
        machine.advance(30)
    assert machine.value("dispatch_waits_total", reason="no_workers") == 3


def test_what_is_counted_in_the_state_is_not_lost_with_it() -> None:
    machine = Counted(Job(id="work"))
    run = machine.run(machine.running())
    stale = ("one", LogMessage(run.id, run.fence + 1, 1, machine.wall, "info", "late"))
    full = ("one", LogMessage(run.id, run.fence, 1, machine.wall, "info", "x" * 5_000_000))
    machine.step(stale, full)
    machine.restart()
    machine.metrics.failed(StoreUnavailable("the disk is full"))
    machine.step(stale)
    machine.metrics.failed(LeaseLost("scheduler", "taken"))
    machine.metrics.count("submits_refused_total", "bad_payload")
    machine.metrics.count("submits_refused_total", "bad_payload")
    assert machine.value("stale_messages_total") == 2
    assert machine.value("log_lines_dropped_total") == 1
    assert machine.value("recoveries_total") == 2
    assert machine.value("leases_lost_total") == 1
    assert machine.value("submits_refused_total", code="bad_payload") == 2
    assert machine.value("runs_received_total", topic="work") == 1


def test_no_label_is_the_id_of_a_run_or_a_worker() -> None:
    machine = Counted(Job(id="work"))
    machine.worker_up("worker-1-abcd")
    ids = {"worker-1-abcd"}
    for number in range(20):
        run_id = machine.submit(occurrence=1000.0 + number)
        machine.started(run_id)
        machine.finished(run_id)
        ids.add(run_id)
    samples = machine.read()
    labels = {value for _, pairs in samples for _, value in pairs}
    assert labels.isdisjoint(ids)
    names = {name for _, pairs in samples for name, _ in pairs}
    assert names == {"job", "topic", "status", "state", "lane", "pool", "le"}


def test_declared_tenants_are_counted_and_no_others() -> None:
    machine = Counted(Job(id="work"))
    machine.tenants = {"a": TenantSpec(max_running=1, max_waiting=1)}
    machine.step(("", machine.define()))
    machine.worker_up()
    machine.submit_many(2, tenant="a")
    machine.submit(tenant="b")
    with pytest.raises(TenantLimit):
        machine.submit(tenant="a")
    for name, value in {"running": 1, "waiting": 1, "refused_total": 1}.items():
        assert machine.value(f"tenant_{name}", tenant="a") == value
    assert not [labels for _, labels in machine.read() if ("tenant", "b") in labels]


def test_names_and_kinds_are_what_prometheus_expects() -> None:
    families = Metrics().families(available=True, position=0)
    read = {family.name: family for family in text_string_to_metric_families(exposition(families))}
    assert len(read) == len(families)
    for family in families:
        assert family.name.startswith("interlock_")
        assert family.name.endswith("_total") is (family.kind == "counter")
        found = read[family.name.removesuffix("_total")]
        assert found.type == family.kind
        assert found.documentation == family.text


@given(st.lists(st.floats(0, 10_000), max_size=50))
def test_a_histogram_counts_what_is_at_most_each_bound(values: list[float]) -> None:
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.add(value)
    samples = {(suffix, labels.get("le")): value for suffix, labels, value in histogram.samples({"job": "x"})}
    for bound in SECONDS:
        assert samples["_bucket", f"{bound:g}"] == sum(value <= bound for value in values)
    assert samples["_bucket", "+Inf"] == samples["_count", None] == len(values)
    assert samples["_sum", None] == pytest.approx(math.fsum(values))


# A job's name, a lane's and a code are plain, but what is written must be readable whatever it is.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))
VALUE = st.floats() | st.integers(-(2**53), 2**53).map(float)


@given(TEXT, VALUE)
def test_any_label_and_value_arrives_as_it_was(label: str, value: float) -> None:
    text = exposition([Family("interlock_thing", "gauge", "Some thing.", [("", {"job": label, "b": "x"}, value)])])
    ((name, labels, read),) = samples_of(text)
    assert name == "interlock_thing"
    assert labels == {("job", label), ("b", "x")}
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_a_help_text_may_have_line_breaks_and_backslashes() -> None:
    text = exposition([Family("interlock_thing", "gauge", "a \\ b\nc", [("", {}, 1.5)])])
    (family,) = text_string_to_metric_families(text)
    assert family.documentation == "a \\ b\nc"
    assert text.endswith("interlock_thing 1.5\n")
    assert exposition([]) == ""


@pytest.mark.behaviour("POL-11")
def test_verdicts_are_counted_by_a_bounded_number_of_topics() -> None:
    machine = Counted(Job(id="work"))
    decisions = machine.step()
    many = [(f"topic{number}", Ruling.DENY) for number in range(MOST_JOBS + 5)]
    rulings = [("pay", Ruling.ASK), ("pay", Ruling.ASK), ("pay", Ruling.DENY), *many]
    decisions.counts.update(("verdicts_total", *ruling) for ruling in rulings)
    decisions.counts.update(("input_fail_open_total", topic) for topic in ("pay", "new", "newer"))
    machine.metrics.add(decisions, 0.001)
    assert machine.value("verdicts_total", topic="pay", decision="require_approval") == 2
    assert machine.value("verdicts_total", topic="pay", decision="deny") == 1
    assert machine.value("verdicts_total", topic=OTHERS, decision="deny") == 6
    assert machine.value("input_fail_open_total", topic="pay") == 1
    assert machine.value("input_fail_open_total", topic=OTHERS) == 2
    assert machine.value("approvals_waiting") == 0


@pytest.mark.behaviour("OBS-1", "WFL-5")
def test_sagas_are_counted() -> None:
    steps = (WorkflowStep(id=name, job="work", compensate=Compensate(job="undo")) for name in ("a", "b", "c"))
    machine = Counted(Job(id="flow", workflow=Workflow(steps=tuple(steps))), Job(id="work"), Job(id="undo"))
    machine.worker_up()
    run_id = machine.submit("flow")
    machine.finished(f"{run_id}@a")
    machine.finished(f"{run_id}@b")
    machine.finished(f"{run_id}@c", "failed_fatal")
    assert machine.value("saga_active") == 1
    machine.advance(2)
    machine.finished(f"{run_id}@comp-b", "failed_fatal")
    machine.finished(f"{run_id}@comp-a")
    counted = {name: machine.value(f"saga_{name}_total") for name in SAGA}
    assert counted == {
        "recorded": 2, "rollbacks": 1, "compensations_dispatched": 2, "compensations_failed": 1, "unreadable": 0,
    }  # fmt: skip
    assert (machine.value("saga_active"), machine.value("saga_duration_seconds_sum")) == (0, 2)


CONTRACT = """
runs_received_total topic
runs_dispatched_total topic
runs_completed_total status topic
runs_denied_total topic
policy_unavailable_total topic
input_fail_open_total topic
policy_circuit
dispatch_latency_seconds_count topic
dispatch_latency_seconds_sum topic
dispatch_latency_seconds_bucket le topic
schedule_lag_seconds_count
schedule_lag_seconds_sum
schedule_lag_seconds_bucket le
constraints_checked_total
constraints_violated_total constraint
actions_total
actions_failed_total
lane_active lane
lane_limit lane
lane_waiting lane
sessions
sessions_active_runs
sessions_waiting_runs
leases_lost_total
lease_waits_total
stale_messages_total
replays_total
saga_recorded_total
saga_rollbacks_total
saga_compensations_dispatched_total
saga_compensations_failed_total
saga_unreadable_total
saga_active
saga_duration_seconds_count
saga_duration_seconds_sum
saga_duration_seconds_bucket le
output_checked_total phase topic
output_quarantined_total phase topic
output_skipped_total phase topic
output_check_seconds_count phase
output_check_seconds_sum phase
output_check_seconds_bucket le phase
"""


def scanned_machine() -> Counted:
    """A machine with an output policy, and results that are clean, withheld in each phase, and not scanned."""
    machine = Counted(Job(id="work", topic="mail.send"))
    machine.policy = output_policy(output_rule(over=100), scanners=(SECRETS,))
    machine.step(("", machine.define()))
    succeeded(machine, result=b'"' + b"x" * 100 + b'"')
    runs = [succeeded(machine) for _ in range(3)]
    decisions = (OutputAction.ALLOW, OutputAction.QUARANTINE, OutputAction.ALLOW)
    errors = ("", "", "it took longer than 30s")
    scans = zip(runs, decisions, errors, strict=True)
    report(machine, *(Scanned(one, decision, took=0.25, error=error) for one, decision, error in scans))
    return machine


@pytest.mark.behaviour("OUT-2")
def test_results_are_counted_by_topic_and_phase() -> None:
    machine = scanned_machine()
    topic = {"topic": "mail.send"}
    assert machine.value("output_checked_total", **topic, phase="1") == 4
    assert machine.value("output_checked_total", **topic, phase="2") == 2
    assert machine.value("output_quarantined_total", **topic, phase="1") == 1
    assert machine.value("output_quarantined_total", **topic, phase="2") == 1
    assert machine.value("output_skipped_total", **topic, phase="2") == 1
    assert machine.value("output_check_seconds_sum", phase="2") == 0.5
    report(machine, *(Scanned(one.id, OutputAction.ALLOW) for one in machine.store.runs_by_id.values()))
    assert machine.value("output_checked_total", **topic, phase="2") == 2, "a report that is repeated counts nothing"


@pytest.mark.behaviour("POL-10")
def test_the_metrics_of_the_contract_have_these_names_and_labels() -> None:
    """Where a family has no sample yet, this test makes one."""
    one = Constraints(max_concurrent_runs=1)
    machine = Counted(
        Job(id="work", topic="mail.send", schedule=Schedule(every=60)),
        Job(id="guarded", constraints=one, on_constraint_violation=(Action(action="skip"),)),
    )
    machine.worker_up()
    machine.started("work:1000000")
    machine.finished("work:1000000")
    machine.limits = CoreLimits(remote_policy=True)
    machine.remote = lambda request: Verdict(ruling=Ruling.ALLOW, policy="p")
    machine.restart_with_worker()
    first = machine.submit("guarded", session="s")
    machine.advance(2)
    machine.started(first)
    machine.submit("guarded")
    machine.remote = lambda request: "no answer"
    machine.submit("work")
    machine.limits = CoreLimits(remote_policy=True, policy_fails_open=True)
    machine.restart()
    machine.submit("work")
    machine.remote = lambda request: Verdict(ruling=Ruling.DENY, policy="p")
    machine.submit("work")
    machine.finished(first)
    found = machine.read() | scanned_machine().read()
    shown = {" ".join([name.removeprefix("interlock_"), *sorted(dict(labels))]) for name, labels in found}
    assert set(CONTRACT.split("\n")) - {""} - shown == set()
    assert machine.value("policy_unavailable_total", topic="mail.send") >= 2
    assert machine.value("runs_denied_total", topic="mail.send") == 1
    assert machine.value("runs_completed_total", topic="mail.send", status="denied") == 1
    assert machine.value("runs_completed_total", topic="guarded", status="skipped") == 1


def test_the_lag_of_a_schedule_counts_to_the_first_line_of_the_work() -> None:
    machine = Counted(Job(id="work", schedule=Schedule(every=60)))
    machine.worker_up()
    machine.advance(0.75)
    assert machine.value("schedule_lag_seconds_count") == 0, "it waits at its worker"
    machine.started("work:1000000")
    assert machine.value("schedule_lag_seconds_sum") == 0.75
    machine.finished("work:1000000", "failed")
    machine.advance(10)
    machine.started("work:1000000")
    assert machine.value("schedule_lag_seconds_count") == 1, "a retry does not count again"


@pytest.mark.behaviour("POL-10")
def test_the_level_of_a_circuit() -> None:
    circuit = Circuit(CIRCUIT)
    levels = [circuit.level]
    for _ in range(3):
        circuit.fail(0, 1.0)
    levels.append(circuit.level)
    probes = [circuit.begin() for _ in range(2)]
    levels.append(circuit.level)
    for probe in probes:
        circuit.succeed(probe)
    assert [*levels, circuit.level] == [0, 2, 1, 0]

"""The whole system under every fault, a few hundred times; each time what must always hold does."""

import os
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest

from interlock.engine.ownership import LEADER
from interlock.model.audit import verify
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.policy.output import OutputStatus
from interlock.model.state import State
from soak.seeds import describe
from soak.simulation.scenario import WALL, Faults, scenario_of
from soak.simulation.simulate import Simulation, simulate
from tests.core.machine import at_once

MANY = 20 if "SOAK" in os.environ else 1
SCANNED = (85, 96)  # seeds with an output policy: one lets out what cannot be scanned, one withholds it


def seeds(first: int, count: int, step: int = 1) -> range:
    """So many seeds, and twenty times as many in `make soak`."""
    return range(first, first + MANY * count * step, step)


@pytest.mark.behaviour("REC-6", "RUN-17", "RUN-3", "RUN-4", "LAN-4", "TIM-5", "TIM-9")
def test_whatever_is_killed_every_run_ends_once_and_some_end_in_every_way() -> None:
    ended: Counter[str] = Counter()
    faults = 0
    for seed in seeds(0, 40):
        report = simulate(seed)
        assert report.violation is None, describe(report)
        assert report.runs > 0
        assert report.checks > 0
        faults += report.faults
        ended.update(report.ended)
    assert set(ended) == {
        State.SUCCEEDED, State.FAILED, State.TIMEOUT, State.CANCELLED, State.ORPHANED, State.SKIPPED,
        State.DENIED, State.OUTPUT_QUARANTINED,
    }  # fmt: skip
    assert faults > 400


@pytest.mark.behaviour("LEA-2", "LEA-5", "REC-6", "RUN-6")
def test_writes_that_are_not_confirmed_lose_nothing_and_do_nothing_twice() -> None:
    """They are carried out at once or up to a second later; commits, takes and renewals also are never answered."""
    faults = Faults.only("doubt_writes", "replace_scheduler")
    unconfirmed = epochs = 0
    for seed in [seed for seed in seeds(8000, 20) if scenario_of(seed).faults.doubt_writes]:
        simulation = Simulation(seed, faults)
        report = simulation.run()
        assert report.violation is None, describe(report)
        unconfirmed += simulation.cluster.store_faults.doubted
        epochs += simulation.cluster.disk.leases[LEADER].epoch
    assert unconfirmed > 20
    assert epochs > 30


@pytest.mark.behaviour("LEA-1", "LEA-2", "LEA-3", "LEA-6", "REC-3", "TIM-18")
def test_of_several_schedulers_one_leads_whatever_is_killed_and_whoever_is_cut_off() -> None:
    """Two or three of them, with clocks of their own. A leader that is killed, told to stop, paused, or cut off from
    the store, one way or both, is followed by another; its workers and clients find that one."""
    followed = cut = apart = 0
    for seed in seeds(9000, 60):
        if not scenario_of(seed).is_cluster:
            continue
        simulation = Simulation(seed)
        report = simulation.run()
        assert report.violation is None, describe(report)
        followed += simulation.cluster.take_overs
        cut += simulation.chaos.cut
        apart += max(abs(clock.offset - WALL) for clock in simulation.cluster.clocks) > 60
    assert followed > 30
    assert cut > 15
    assert apart > 2


@pytest.mark.behaviour("LEA-7", "REC-8")
def test_a_replica_that_takes_over_lacks_just_what_it_never_had() -> None:
    """A synchronous one lacks nothing that was acknowledged. Of an asynchronous one, a scheduler that survives begins
    nothing again under a fence, and no fire time again, of those that were lost."""
    lost = 0
    seen: Counter[str] = Counter()
    for seed in seeds(190, 230):
        if kind := scenario_of(seed).replica:
            simulation = Simulation(seed)
            report = simulation.run()
            assert report.violation is None, describe(report)
            lost += simulation.chaos.lost
            seen[kind] += 1
            said = [one for one in simulation.cluster.disk.audit_log if one.kind == "went_back"]
            seen["said"] += len(said)
    assert lost > 10
    for kind in ("synchronous", "asynchronous", "said"):
        assert seen[kind] > 2, kind


@pytest.mark.behaviour("RUN-7")
def test_a_link_that_lost_its_welcome_begins_nothing() -> None:
    """Its offers had no end: an answer half a minute late let a run begin that another worker had finished."""
    report = simulate(3251)
    assert report.violation is None, describe(report)


@pytest.mark.behaviour("RUN-1", "RUN-22", "LIV-2")
def test_attempts_that_start_slowly_are_left_in_every_way() -> None:
    """Workers are killed while they start them, and some are cancelled, time out or fail meanwhile."""
    after: Counter[State] = Counter()
    late = 0
    for seed in seeds(330_000_002, 12, 5):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.slow_starts or simulation.cluster.scenario.drought
        report = simulation.run()
        assert report.violation is None, describe(report)
        for entries in simulation.cluster.disk.entries.values():
            after.update(entry.after for entry in entries if entry.before is State.STARTING)
            late += sum(entry.before is State.STARTING and "start_timeout" in entry.reason for entry in entries)
    assert {State.RUNNING, State.RETRYING, State.CANCELLED, State.FAILED, State.TIMEOUT} <= set(after)
    assert after[State.RUNNING] > 100
    assert late > 5


@pytest.mark.behaviour("OUT-2", "OUT-7")
def test_scans_before_success_come_to_every_end() -> None:
    seen: Counter[OutputStatus] = Counter()
    for seed in SCANNED:
        simulation = Simulation(seed)
        report = simulation.run()
        assert report.violation is None, describe(report)
        seen += simulation.cluster.invariants.scans.seen
    assert set(seen) == set(OutputStatus)


@pytest.mark.behaviour("TIM-18", "RUN-5")
def test_of_schedulers_that_race_each_occurrence_is_created_once_and_none_is_lost() -> None:
    """One stands still while another takes over, and comes back believing that nothing has happened."""
    faults = Faults.only("replace_scheduler", "kill_scheduler", "crash_at_commit", "jump_clock")
    starts = checked = occurrences = 0
    for seed in seeds(2000, 7):
        simulation = Simulation(seed, faults)
        simulation.cluster.scenario.timetable = simulation.cluster.timetable = True
        report = simulation.run()
        assert report.violation is None, describe(report)
        starts += simulation.cluster.starts - simulation.cluster.scenario.workers
        checked += simulation.cluster.invariants.occurrences.checked
        occurrences += sum(run.origin is not None for run in simulation.cluster.disk.runs_by_id.values())
    assert starts > 15
    assert checked > 40, "schedules were looked at from their beginning to their end"
    assert occurrences > 500


@pytest.mark.behaviour("RUN-25")
def test_a_bulk_request_that_was_acknowledged_reaches_every_run_it_is_for() -> None:
    """A request ends one run a pass, so that schedulers die in the middle of it."""
    faults = Faults.only("kill_scheduler", "crash_at_commit", "replace_scheduler", "fail_store", "jump_clock")
    starts = reached = 0
    for seed in seeds(3000, 8):
        simulation = Simulation(seed, faults)
        simulation.cluster.scenario.bulks, simulation.cluster.scenario.bulk_runs = 4, 1
        report = simulation.run()
        assert report.violation is None, describe(report)
        starts += simulation.cluster.starts - simulation.cluster.scenario.workers
        reached += simulation.cluster.invariants.bulks.reached
        bulks = [bulk for bulk in simulation.cluster.disk.all_of(BulkRequest).values() if not bulk.is_cascade]
        assert sum(bulk.action is RunAction.CANCEL for bulk in bulks) == 4
    assert starts > 15
    assert reached > 60


@pytest.mark.behaviour("RUN-23", "RUN-25", "RUN-6")
def test_no_request_retries_a_run_twice_and_a_unique_key_has_one_live_run() -> None:
    faults = Faults.only("kill_scheduler", "crash_at_commit", "replace_scheduler", "fail_store", "break_links")
    retried = freed = 0
    for seed in seeds(4000, 7):
        simulation = Simulation(seed, faults)
        simulation.cluster.scenario.retries, simulation.cluster.scenario.bulk_runs = 5, 2
        simulation.cluster.scenario.lanes = False  # a bulk request leaves out the runs of a lane that drains
        report = simulation.run()
        assert report.violation is None, describe(report)
        retried += simulation.cluster.invariants.reruns.retried
        freed += simulation.cluster.invariants.reruns.freed
    assert retried > 65
    assert freed > 15


@pytest.mark.behaviour("LAN-1", "LAN-4", "LAN-5", "LAN-8", "LAN-9", "SES-6")
def test_lanes_that_are_changed_exceed_nothing_and_starve_nobody() -> None:
    rated = rated_values = limited = waited = ordered = 0
    for seed in seeds(5001, 8, 12):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.lanes
        report = simulation.run()
        assert report.violation is None, describe(report)
        lanes = simulation.cluster.invariants.lanes
        rated, limited, waited = rated + lanes.rated, limited + lanes.limited, waited + lanes.waited
        rated_values += lanes.rated_values
        ordered += simulation.cluster.invariants.sessions.ordered
    assert rated > 75
    assert rated_values > 25
    assert limited > 50
    assert waited > 10, "runs that others overtook"
    assert ordered > 7


@pytest.mark.behaviour("CON-1", "CON-2", "CON-4", "CON-5", "CON-6", "CON-7", "RUN-9", "REC-6")
def test_guarded_runs_exceed_nothing_and_every_delivery_arrives() -> None:
    waited = killed = requests = 0
    for seed in seeds(6003, 10, 5):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.guards
        report = simulation.run()
        assert report.violation is None, describe(report)
        guards = simulation.cluster.invariants.guards
        waited, killed = waited + guards.waited, killed + guards.killed
        requests += 0 if guards.receivers is None else len(guards.receivers.got)
    assert waited > 80
    assert killed > 12
    assert requests > 80


@pytest.mark.behaviour("POL-1", "POL-4", "POL-5", "POL-7", "POL-8", "POL-11")
@pytest.mark.parametrize("remote", [False, True])
def test_nothing_starts_against_the_policy_and_every_approval_has_one_outcome(remote: bool) -> None:
    """Policies change, a service restarts, people answer twice, late and for themselves, and schedulers die."""
    seen: Counter[str] = Counter()
    for seed in range(9 if remote else 2, 222, 14):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.remote_policy == remote
        report = simulation.run()
        assert report.violation is None, describe(report)
        seen += simulation.cluster.invariants.policies.seen
    often = {"denied": 50, "asked": 40, "approved": 10, "started as approved": 10, "limited": 20}
    rare = ("throttled", "rejected", "approval_expired", "already_resolved", "stale", "self_approval")
    for what, least in (often | dict.fromkeys(rare, 0)).items():
        assert seen[what] > least, what
    assert (seen["bypassed"] > 10) == remote
    assert seen["started as joined"] > 0


@pytest.mark.behaviour("ROU-1", "ROU-2", "ROU-3", "ROU-4", "ROU-6", "ROU-7", "ROU-8", "ROU-10", "LAN-5")
def test_runs_go_only_where_they_may_and_no_tenant_exceeds_its_limits() -> None:
    """Workers are not alike, join, leave, drain and lie about their load, and pools and tenants change."""
    seen: Counter[str] = Counter()
    for seed in range(7004, 7060, 7):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.routes
        report = simulation.run()
        assert report.violation is None, describe(report)
        seen += simulation.cluster.invariants.routes.seen
    for what in (
        "pool main",
        "pool gpu",
        "placed",
        "at its limit",
        "not declared",
        "rated",
        "refused",
        "waits for a slot",
    ):
        assert seen[what] > 20, what
    for what in ("bound", "not declared", "waiting at the limit"):
        assert seen[what] > 0, what


@pytest.mark.behaviour("ROU-7")
@pytest.mark.parametrize(("seed", "lack"), [(277, "no_pool_mapping"), (67, "no_workers"), (67, "pool_overloaded")])
def test_a_run_that_nobody_takes_for_too_long_is_given_up(seed: int, lack: str) -> None:
    seen = given_up(seed)
    assert seen[lack] > 1


@cache
def given_up(seed: int) -> Counter[str]:
    simulation = Simulation(seed)
    assert simulation.cluster.scenario.drought
    report = simulation.run()
    assert report.violation is None, describe(report)
    return simulation.cluster.invariants.routes.seen


@pytest.mark.behaviour("SEC-7")
def test_the_audit_stays_whole_whatever_is_killed() -> None:
    faults = Faults.only("kill_scheduler", "crash_at_commit", "replace_scheduler", "fail_store")
    written = 0
    for seed in seeds(0, 6):
        simulation = Simulation(seed, faults)
        report = simulation.run()
        assert report.violation is None, describe(report)
        page = at_once(simulation.cluster.disk.audit(0, 10_000))
        assert verify(page.entries, page.head).faults == []
        written += len(page.entries)
    assert written > 10, "every start with other jobs is in it"


BLAMES_A_WORKER = ("no heartbeat", "no longer has it", "may have begun", "died under", "is not connected")


def attempts_taken_for_lost(simulation: Simulation) -> list[str]:
    entries = [entry for history in simulation.cluster.disk.entries.values() for entry in history]
    return [entry.reason for entry in entries if any(words in entry.reason for words in BLAMES_A_WORKER)]


@pytest.mark.behaviour("LIV-4")
def test_however_often_the_scheduler_dies_running_work_is_not_started_twice() -> None:
    faults = Faults.only("kill_scheduler", "crash_at_commit", "pause_scheduler", "fail_store", "duplicate_messages")
    restarts = 0
    for seed in seeds(1000, 10):
        if scenario_of(seed).routes:
            continue  # its workers are replaced when the faults end
        simulation = Simulation(seed, faults)
        # Workers of one start of the scheduler leave when there is a new one, and that is their end.
        simulation.cluster.scenario.own_workers = False
        report = simulation.run()
        assert report.violation is None, describe(report)
        assert attempts_taken_for_lost(simulation) == [], f"seed {seed}: no worker died"
        restarts += simulation.cluster.starts - simulation.cluster.scenario.workers - 1
        executions = simulation.cluster.invariants.executions
        for run_id in simulation.cluster.disk.runs_by_id:
            for earlier, later in pairwise(one for one in executions if one.run_id == run_id):
                assert earlier.ended is not None
                assert earlier.ended <= later.began, f"seed {seed}: {run_id} was started while it executed"
    assert restarts > 8


@pytest.mark.behaviour("LIV-2")
def test_a_jump_of_the_wall_clock_loses_no_attempt() -> None:
    for seed in seeds(1100, 10):
        simulation = Simulation(seed, Faults.only("jump_clock"))
        report = simulation.run()
        assert report.violation is None, describe(report)
        assert attempts_taken_for_lost(simulation) == [], f"seed {seed}: no worker was silent"


@pytest.mark.behaviour("WFL-1", "WFL-12")
def test_workflows_come_to_every_end() -> None:
    ended = closed = groups = 0
    seen: Counter[str] = Counter()
    for seed in (7, 16, 34, 43):
        simulation = Simulation(seed)
        report = simulation.run()
        assert report.violation is None, describe(report)
        workflows = simulation.cluster.invariants.workflows
        ended, closed, groups = ended + workflows.ended, closed + workflows.closed, groups + workflows.groups
        seen += workflows.seen
    assert ended > closed > 5
    assert groups > 50
    for what, least in {"branched": 15, "branch failed": 4, "answered": 4, "begun again": 5, "taken over": 2}.items():
        assert seen[what] > least, seen


@pytest.mark.behaviour("WFL-4", "WFL-5", "WFL-9", "WFL-10")
def test_sagas_events_and_functions_come_to_every_end() -> None:
    """Seed 169: the store fails while an event waits for a record, and its sender is told."""
    seen: Counter[str] = Counter()
    turns = 0
    for seed in (7, 22, 34, 157, 169, 220):
        simulation = Simulation(seed)
        assert simulation.cluster.scenario.sagas
        report = simulation.run()
        assert report.violation is None, describe(report)
        workflows = simulation.cluster.invariants.workflows
        seen += workflows.sagas.seen + workflows.seen
        turns += workflows.functions.turns
    assert turns > 50
    wanted = {"undone": 20, "rolled back": 8, "acknowledged": 15, "sent": 5, "functions begun again": 6}
    for what, least in wanted.items():
        assert seen[what] > least, seen

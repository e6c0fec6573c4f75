"""What a seed stands for: the jobs, the lanes, how many workers, and which faults come how often."""

from random import Random
from typing import Any

import msgspec

from interlock.engine.housekeeping import Keep
from interlock.model.guard import Constraints
from interlock.model.job import ExecutorKind, Job, KeyLimit, Retry
from interlock.model.schedule.schedule import Schedule

LANES = {"main": 4, "narrow": 1, "wide": 8, "cron": 3}
HEARTBEAT = 2.0
LEASE_TTL = 4.0
LEAD = 0.05
APPROVAL_TIMEOUT = 5.0
KEEP = Keep(keep_runs=1, keep_keys=3600.0)
WALL = 1_800_000_000.0  # the wall clock as the simulation begins

JOBS = (
    Job(id="plain"),
    Job(id="narrow", lane="narrow", grace=1.0),
    Job(id="retried", retry=Retry(max_retries=2, initial_delay=1.0, max_delay=8.0), grace=2.0),
    Job(id="tireless", lane="wide", retry=Retry(max_retries=5, initial_delay=0.2, jitter=0.0), max_crashes=6),
    Job(id="urgent", deadline=15.0, retry=Retry(max_retries=3, initial_delay=4.0), grace=0.5),
    Job(
        id="bounded",
        lane="wide",
        max_runtime=6.0,
        start_timeout=3.0,
        retry=Retry(max_retries=2, initial_delay=0.5),
        grace=1.0,
    ),
    Job(
        id="bounded_attempt",
        max_runtime=3.0,
        max_runtime_per_attempt=True,
        retry=Retry(max_retries=2, initial_delay=0.5),
        grace=1.0,
    ),
    Job(id="isolated", lane="wide", executor=ExecutorKind.PROCESS, max_crashes=2),
    Job(id="fragile", max_crashes=1, start_timeout=2.0),
    Job(id="patient", retry=Retry(max_retries=1, initial_delay=20.0, jitter=0.0)),
    Job(id="choosy", retry=Retry(max_retries=3, initial_delay=0.5, on=("OSError",), never=("ValueError",))),
)

OF_LANES = (
    Job(id="quick", lane="narrow"),
    Job(id="rated", lane="wide", rate=0.5, burst=4),
    Job(id="limited", lane="wide", limit=KeyLimit(key="customer", max=2)),
    Job(id="metered", lane="wide", limit=KeyLimit(key="customer", rate=0.5, burst=2)),
    Job(id="both", lane="wide", limit=KeyLimit(key="customer", max=1, rate=1.0, burst=2)),
)
"""for seeds that change lanes"""


def _scheduled(
    job_id: str, plan: list[tuple[str, float]], lane: str | None = "wide", most: int | None = None, **schedule: Any
) -> Job:
    return Job(
        id=job_id,
        lane=lane,
        constraints=Constraints(max_concurrent_runs=most),
        payload={"plan": plan},
        schedule=Schedule(**schedule),
        grace=1.0,
    )


SCHEDULED = (
    _scheduled("ticking", [("succeed", 0.2)], every=3.0),
    _scheduled("crowding", [("succeed", 4.5)], most=2, every=2.0, wait=1.5, catch_up="none"),
    _scheduled("making_up", [("fail", 0.5)], None, every=7.0, catch_up="all", catch_up_window=25.0, catch_up_max=3),
    _scheduled("minutely", [("crash", 0.5), ("succeed", 1.0)], cron="* * * * *", jitter=20.0),
    _scheduled("moving", [("succeed", 6.0)], every=5.0),
    _scheduled("single", [("succeed", 1.0)], None, once=True, wait=4.0),
)
MOVED = _scheduled("moving", [("succeed", 6.0)], every=4.0, wait=1.0)


def jobs_of(start: int, timetable: bool, lanes: bool) -> list[Job]:
    """The definitions that a start of the scheduler finds: some of the jobs are changed every now and then."""
    changed = {
        job.id: job for job in (Job(id="plain", lane="wide"), Job(id="retried", retry=Retry(max_retries=1)), MOVED)
    }
    jobs = [*JOBS, *(OF_LANES if lanes else ()), *(SCHEDULED if timetable else ())]
    return [changed.get(job.id, job) if start % 3 == 2 else job for job in jobs]


NOT_DRAWN = ("doubt_writes", "cut_ways", "fall_behind")  # with the other faults, so that older seeds do what they did


class Faults(msgspec.Struct, kw_only=True):
    """Which faults there are. The seed decides for each whether it occurs, and how often."""

    kill_scheduler: bool = True
    restart_scheduler: bool = True  # in good order: drained, then stopped
    pause_scheduler: bool = True
    replace_scheduler: bool = True  # another takes over while it stands still; then it goes on
    crash_at_commit: bool = True
    fail_store: bool = True
    doubt_writes: bool = True  # the store carries out some without confirming them, at once or up to a second later
    kill_worker: bool = True
    stop_worker: bool = True  # in good order: it leaves, and gives back what it cannot finish
    pause_worker: bool = True
    isolate_worker: bool = True
    break_links: bool = True
    stall_links: bool = True  # now and then a message, and all behind it, takes a hundred times as long
    drop_messages: bool = True
    duplicate_messages: bool = True
    jump_clock: bool = True
    disturb_answers: bool = True  # answers to effects come late, twice, to the next scheduler, or never
    fall_behind: bool = True  # of several schedulers: a replica of the store does, and takes over
    cut_ways: bool = True  # of several schedulers: to and from the store and workers, one way or both

    @property
    def harm_workers(self) -> bool:
        processes = self.kill_worker or self.stop_worker or self.pause_worker or self.isolate_worker
        return processes or self.break_links or self.stall_links or self.drop_messages or self.cut_ways

    @classmethod
    def only(cls, *names: str) -> "Faults":
        return cls(**{name: name in names for name in cls.__struct_fields__})

    def some(self, rng: Random) -> "Faults":
        """A part of these: faults that never rest can hide each other's effects."""
        drawn = [name for name in self.__struct_fields__ if name not in NOT_DRAWN]
        chosen = {name: getattr(self, name) and rng.random() < 0.65 for name in drawn}
        return Faults(**chosen, **{name: getattr(self, name) for name in NOT_DRAWN})


class Sabotage(msgspec.Struct, frozen=True, kw_only=True):
    """Ways to break the system on purpose, to see that the invariants notice. Never all at once."""

    store_loses_commits: bool = False
    store_keeps_late: bool = False
    store_forgets_keys: bool = False
    store_prunes_keys: bool = False  # a key is forgotten when its run is pruned
    store_prunes_occurrences: bool = False  # an occurrence that was submitted is forgotten when its run is pruned
    store_doubles_history: bool = False
    store_ignores_epochs: bool = False
    store_reads_epochs: bool = False  # some time before it writes
    store_keeps_epochs: bool = False  # when a scheduler loads its state again
    store_prunes_unfenced: bool = False
    store_ends_leases_early: bool = False
    store_trusts_warnings: bool = False
    store_forgets_holders: bool = False
    store_loses_cursors: bool = False
    store_forgets_retries: bool = False  # keeps the new runs, and neither the marks of the old nor how far it has come
    store_loses_payloads: bool = False  # one of those that a batch collapses
    store_loses_submitters: bool = False  # of the runs that a new one comes from
    store_keeps_unique_keys: bool = False  # beyond the end of their runs
    store_frees_keys_early: bool = False  # once their runs are running
    engine_ignores_fences: bool = False
    engine_forgets_limits: bool = False
    engine_forgets_times: bool = False  # an occurrence that was missed is passed over
    engine_reuses_attempts: bool = False
    engine_suspects_all: bool = False  # every run that was lost gets a process of its own, also when its worker died
    engine_forgets_bulks: bool = False  # a bulk request that was under way when the scheduler died is not gone on with
    engine_forgets_holds: bool = False  # runs that were held when the scheduler died go on
    engine_applies_answers_twice: bool = False
    engine_asks_once: bool = False  # an effect whose answer is lost is not asked again
    engine_forgets_unsent: bool = False  # runs that were dispatched when the scheduler died are left to themselves
    engine_forgets_turns: bool = False  # runs of sessions that had their turn when the scheduler died wait again
    engine_forgets_rates: bool = False  # when it starts
    engine_opens_early: bool = False  # a limit for a value lets the next run start once one has begun
    engine_ignores_age: bool = False  # of a run that waits in a lane
    engine_keeps_limits: bool = False  # a lane that was made smaller goes on as before
    engine_frees_twice: bool = False  # the end of a run frees the slot of another as well
    engine_forgets_usage: bool = False  # of the windows of sessions, after each pass
    engine_loses_runs: bool = False  # from memory, while they wait for a retry
    engine_loses_timers: bool = False  # after each pass
    engine_ignores_delays: bool = False  # that a failed attempt asked for
    engine_ignores_types: bool = False  # of the exception that an attempt failed with
    engine_counts_wall_time: bool = False  # where elapsed time is meant
    engine_explains_once: bool = False  # repeats the first explanation of a run, whatever happens
    engine_explains_late: bool = False  # says that a run waits longer than it does
    engine_forgets_places: bool = False  # that runs hold among those of their job, when it starts
    engine_kills_hastily: bool = False  # a run that kills older ones starts before they have ended
    engine_renames_requests: bool = False  # a hook that is asked again has another id
    engine_skips_hooks: bool = False  # takes every hook for answered
    store_loses_deliveries: bool = False
    store_loses_audit: bool = False
    judge_keeps_verdicts: bool = False  # of an earlier policy
    judge_reuses_approvals: bool = False  # that were given under an earlier policy
    judge_lets_own_approve: bool = False  # whoever submitted a run may approve it
    judge_fails_open: bool = False  # although it must not
    judge_ignores_expiry: bool = False  # of approvals
    store_shows_held: bool = False  # log lines that nobody may read before they are scanned
    route_ignores_tenants: bool = False  # of a worker
    route_ignores_labels: bool = False
    route_ignores_drain: bool = False  # sends more to workers that a person has drained, or that leave
    route_forgets_parked: bool = False  # a worker that can take a run again wakes nobody
    route_counts_less: bool = False  # a tenant may have one run more than its limit
    route_gives_up_soon: bool = False  # after the first look for a worker
    flow_forgets_record: bool = False  # of the steps that have ended, when it starts
    flow_ends_early: bool = False  # a workflow that closes does not wait for its steps
    flow_leaves_siblings: bool = False  # a parallel step with a branch that failed does not wait for the others
    flow_widens_window: bool = False  # one item more than may run at once
    flow_wakes_early: bool = False  # steps that sleep
    saga_undoes_oldest_first: bool = False
    saga_drops_early_events: bool = False  # those that no step waits for yet
    saga_takes_stale_turns: bool = False  # orders of a turn count for whichever turn is out
    saga_loses_taken_over: bool = False  # the first step of a run that begins again with another
    store_undoes_again: bool = False  # the compensations that have begun are left out when a saga is read
    inspector_is_silent: bool = False  # while it scans
    sender_forgets: bool = False  # says that a request was answered, and has not made it
    worker_begins_twice: bool = False
    worker_begins_late: bool = False  # a dispatch is begun as it arrives, however old it is
    worker_waits_longer: bool = False  # than one lease for a scheduler that is silent
    link_loses_stops: bool = False

    @property
    def of_guards(self) -> bool:
        hooks = self.engine_renames_requests or self.engine_skips_hooks
        return hooks or self.engine_forgets_places or self.engine_kills_hastily

    @property
    def of_policy(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__ if name.startswith("judge_"))

    @property
    def of_routes(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__ if name.startswith("route_"))

    @property
    def of_workflows(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__ if name.startswith(("flow_", "saga_")))

    @property
    def of_lanes(self) -> bool:
        limits = self.engine_opens_early or self.engine_keeps_limits
        return limits or self.engine_forgets_rates or self.engine_ignores_age or self.engine_frees_twice


class Scenario(msgspec.Struct, kw_only=True):
    runs: int
    clients: int
    workers: int
    slots: int
    processes: int
    duration: float  # seconds in which runs are submitted and faults occur
    fault_every: float
    batch_runs: int  # how much one pass takes in; a small number makes the scheduler decide ahead of its commits
    named_workers: bool  # a worker that is started again has the name it had
    own_workers: bool  # workers belong to one start of the scheduler
    faults: Faults
    timetable: bool = False  # there are jobs with schedules
    bulks: int = 0  # requests that cancel many runs at once
    bulk_runs: int = 2000  # how many of them one pass ends
    retries: int = 0  # requests that retry a run, as many that retry by filter, and clients with unique keys
    sessions: bool = False  # some runs have one
    lanes: bool = False  # lanes are changed at run time, and some have rates
    guards: bool = False  # there are jobs with constraints, actions and hooks
    policy: bool = False  # a policy judges runs
    remote_policy: bool = False  # a service does
    policy_fails_open: bool = False
    prunes: bool = False  # hardly any run that has ended is kept
    routes: bool = False  # there are pools, tenants with limits, and workers that are not alike
    families: bool = False  # the code of some attempts makes runs
    workflows: bool = False
    sagas: bool = False  # there are workflows with compensations, with events, and functions
    scans: bool = False  # whatever comes out is scanned before the success of its run
    heartbeat: float = HEARTBEAT
    schedulers: int = 1  # of several, one leads, the others wait for the lease, and one that has lost it ends
    replica: str = ""  # one that falls behind and takes over: "synchronous" or "asynchronous"
    slow_starts: bool = False  # a share of the attempts is `starting` for a while
    drought: bool = False  # for longer than a run waits for a worker, nobody takes the runs of some topics

    @property
    def is_cluster(self) -> bool:
        return self.schedulers > 1

    @property
    def is_synchronous(self) -> bool:
        return self.replica == "synchronous"

    @property
    def is_plain(self) -> bool:
        """Whether it has only runs and schedules: the checker knows what a store may lose of these."""
        special = self.lanes or self.guards or self.policy or self.remote_policy or self.routes or self.families
        return not (special or self.sagas or self.workflows or self.scans or self.slow_starts)

    def fall_behind(self, replica: str) -> None:
        """Have a replica that falls behind, and no other fault of the store."""
        self.replica = replica
        self.sessions = self.prunes = False
        self.retries = self.bulks = 0
        for name in ("crash_at_commit", "fail_store", "doubt_writes", "cut_ways"):
            setattr(self.faults, name, False)


def scenario_of(seed: int, faults: Faults | None = None) -> Scenario:
    rng = Random(f"{seed}/scenario")
    routes, drought = seed % 7 == 4, seed % 70 == 67
    scenario = Scenario(
        runs=rng.randint(20, 50),
        clients=rng.randint(1, 3),
        workers=rng.randint(2, 4),
        slots=rng.randint(1, 5),
        processes=rng.randint(1, 2),
        duration=rng.uniform(20, 60),
        fault_every=rng.uniform(1.0, 8.0),
        batch_runs=rng.choice((4, 8, 2000)),
        named_workers=rng.random() < 0.2,
        own_workers=rng.random() < 0.4,
        faults=(faults or Faults()).some(rng),
        timetable=rng.random() < 0.4,
        bulks=rng.choice((0, 0, 1, 3)),
        bulk_runs=rng.choice((1, 1, 4)),
        prunes=rng.random() < 0.5,
        sessions=seed % 4 == 2 or seed % 12 == 9,
        lanes=seed % 6 == 3,  # not with retries: a bulk request leaves out the runs of a lane that drains
        guards=seed % 5 == 3,
        policy=seed % 7 == 2,
        remote_policy=seed % 14 == 9,
        policy_fails_open=seed % 42 == 23,
        retries=3 if seed % 3 == 1 and not routes else 0,  # not drawn, so that older seeds do what they did
        routes=routes,
        families=seed % 8 == 5 and not routes,
        drought=drought,
        sagas=seed % 9 in (4, 7) and seed % 7 != 2 and not routes and not drought,
        workflows=seed % 9 == 7 and seed % 14 != 9 and not routes and not drought,  # not with a remote policy
        scans=seed % 11 == 8 and seed % 7 not in (2, 4) and not drought,
        slow_starts=seed % 5 == 2 and not drought,
    )
    scenario.faults.doubt_writes = scenario.faults.doubt_writes and Random(f"{seed}/doubt").random() < 0.4
    chance = Random(f"{seed}/standby")
    if chance.random() < 0.2 and not drought:
        scenario.schedulers, scenario.own_workers = chance.choice((2, 3, 3)), False
        scenario.faults.cut_ways = chance.random() < 0.65 and scenario.faults.cut_ways
        scenario.heartbeat = chance.choice((HEARTBEAT, LEASE_TTL))
        if chance.random() < 0.6 and scenario.faults.fall_behind and scenario.is_plain:
            scenario.fall_behind(chance.choice(("synchronous", "asynchronous")))
    if routes:
        scenario.workers = 4  # as many as it takes that every run can end
    if drought:
        scenario.duration, scenario.fault_every, scenario.timetable = 1700.0, 500.0, False
        scenario.heartbeat = 10.0
        # After a restart, and with a new worker, the count begins anew.
        for name in ("crash_at_commit", "fail_store", "doubt_writes", "restart_scheduler", "replace_scheduler"):
            setattr(scenario.faults, name, False)
        scenario.faults.kill_worker = scenario.faults.stop_worker = False
        scenario.faults.kill_scheduler = scenario.faults.kill_scheduler and seed % 3 == 0
    return scenario

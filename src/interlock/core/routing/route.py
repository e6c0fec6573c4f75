"""What a waiting run asks for: the line and the queue in which it waits."""

from collections.abc import Mapping

from interlock.core.lanes.gate import gate_names, session_rate
from interlock.core.lanes.lane import LineKey, Requirements, RouteKey, SlotKind
from interlock.core.routing.roster import ANYWHERE, PREFERRED_POOL, PREFIXES
from interlock.core.sessions.session import Sessions
from interlock.core.state import SchedulerState
from interlock.core.tenants.tenant import Tenants
from interlock.model.job import RANKS, ExecutorKind, Job
from interlock.model.run import Run

MOST_KEYS = 10_000


def route_key(state: SchedulerState, run: Run) -> RouteKey:
    job = state.job_of(run)
    needs = needs_of(job, run.labels)
    gates = gate_names(job, run) if job.rate is not None or run.facets is not None else ()
    if run.session is not None and state.of(Sessions)[run.tenant, run.session].rate is not None:
        gates = (session_rate(run.tenant, run.session), *gates)
    if (tenant := state.of(Tenants).get(run.tenant)) is not None:
        gates = (*gates, *tenant.gate_names)
    worker_of = run.job_id
    if job.work is not None:
        worker_of = job.work.function_of or ANYWHERE
        if not job.work.is_function:
            return worker_of, SlotKind.SHARED, gates, needs
        job = state.jobs.get(worker_of, job)  # its executor may have changed since
    if job.executor is ExecutorKind.PROCESS:
        room = SlotKind.OWN
    else:
        # Only a process that died during its attempt leaves an exit code without an outcome.
        died = run.crashes > 0 and run.exit_code is not None and run.outcome is None
        room = SlotKind.SUSPECT if died else SlotKind.SHARED
    return worker_of, room, gates, needs


def line_key(state: SchedulerState, run: Run) -> LineKey:
    own = None if run.facets is None else run.facets.priority
    return RANKS[own or state.job_of(run).priority], run.tenant


def keys_of(state: SchedulerState, run: Run) -> tuple[LineKey, RouteKey]:
    """Return the line and the queue in which a run waits."""
    if run.facets is not None or run.session is not None or run.crashes:
        return line_key(state, run), route_key(state, run)
    found = state.roster.plain_keys.get((run.job_version, run.tenant))
    if found is None:
        found = line_key(state, run), route_key(state, run)
        if state.job_of(run).function_of is None:  # that of the other job may change
            if len(state.roster.plain_keys) > MOST_KEYS:
                state.roster.plain_keys.clear()
            state.roster.plain_keys[run.job_version, run.tenant] = found
    return found


def needs_of(job: Job, labels: Mapping[str, str]) -> Requirements:
    """Return what a run of a job with these labels demands of its worker."""
    wanted = tuple(sorted((name, value) for name, value in labels.items() if name.startswith(PREFIXES)))
    required = tuple(sorted(require.casefold() for require in job.requires))
    return job.policy_topic, required, wanted, labels.get(PREFERRED_POOL, "")

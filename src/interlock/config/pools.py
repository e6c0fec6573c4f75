"""Checks of declared pools of workers, and of tenants."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from interlock.config.declarations import NamedDocument, check_names
from interlock.config.documents import Faults, Spot
from interlock.error import BadValue, shown
from interlock.fields.field_types import did_you_mean
from interlock.model.job import Job
from interlock.model.pool import PoolSpec, PoolStatus, lower
from interlock.model.tenant import TenantSpec
from interlock.policy.glob import matcher


def every_pool(
    declared: Sequence[NamedDocument[PoolSpec]], jobs: Sequence[tuple[Spot, Job]], faults: Faults
) -> dict[str, PoolSpec]:
    """Return the pools by name. Refuse a name that two have, and warn of pools and jobs that miss each other."""
    check_names(((declaration.name, declaration.spot) for declaration in declared), faults)
    pools = {declaration.name: declaration.value for declaration in declared if declaration.value is not None}
    if faults.incomplete or len(pools) < len(declared):
        return pools
    for declaration in declared:
        for path, warning in _unknown_capabilities(pools[declaration.name], [job for _, job in jobs]):
            faults.warn(declaration.document.spot(path), f"{path}: {warning}")
    for spot, job in jobs:
        if (unserved := _without_pool(job, pools)) is not None:
            faults.warn(spot, f"job {job.id!r}: {unserved}")
    return pools


def _unknown_capabilities(pool: PoolSpec, jobs: Collection[Job]) -> Iterator[tuple[str, str]]:
    """Yield the path of each capability that a pool requires and that neither it nor a job names, with a warning."""
    known = sorted(lower(pool.offers).union(*(lower(job.requires) for job in jobs)))
    for number, requirement in enumerate(pool.requires):
        if requirement.lower() not in known and "*" not in pool.offers:
            hint = did_you_mean(requirement.lower(), known)
            yield (
                f"requires[{number}]",
                f"neither the pool offers nor a declared job requires {shown(requirement)}{hint}",
            )


def _without_pool(job: Job, pools: Mapping[str, PoolSpec]) -> str | None:
    """Return a warning if no active pool takes the runs of a job."""
    active = [pool for pool in pools.values() if pool.status is PoolStatus.ACTIVE]
    if not pools or any(matcher(tuple(run.topics))(job.policy_topic) for run in active):
        return None
    topics = [topic for run in active for topic in run.topics]
    return f"no active pool takes topic {shown(job.policy_topic)}{did_you_mean(job.policy_topic, topics)}"


def every_tenant(
    declared: Sequence[NamedDocument[TenantSpec]], lanes: Collection[str] | None, faults: Faults
) -> dict[str, TenantSpec]:
    """Return the tenants by name. Refuse a name that two have, and a lane that is not among `lanes`."""
    check_names(((declaration.name, declaration.spot) for declaration in declared), faults)
    for declaration in declared:
        for number, lane in enumerate(declaration.value.lanes if declaration.value is not None else ()):
            if lanes is not None and lane not in lanes:
                path, rule = f"lanes[{number}]", f"declared; use one of {', '.join(lanes)}{did_you_mean(lane, lanes)}"
                declaration.document.refuse(path, str(BadValue(path, lane, rule)))
    return {declaration.name: declaration.value for declaration in declared if declaration.value is not None}

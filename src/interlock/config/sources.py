"""Read everything that files and an app declare into what a scheduler keeps."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from interlock.config import job_documents, policy_documents, service_documents
from interlock.config.declarations import Declared, DeclaredJob, check_names, tree_of
from interlock.config.documents import Document, read
from interlock.config.faults import Faults, Spot
from interlock.config.guards import missing_variables, unknown_jobs
from interlock.config.lanes import LANE_FIELDS, DeclaredLane, read_lane
from interlock.config.policy_documents import DeclaredPolicy
from interlock.config.pools import POOL_FIELDS, DeclaredPool, every_pool, read_pool
from interlock.config.tenants import TENANT_FIELDS, DeclaredTenant, every_tenant, read_tenant
from interlock.engine.catalog import bind
from interlock.model.error import BadValue, InterlockError, shown
from interlock.model.field import Field
from interlock.model.field_types import Refused, did_you_mean
from interlock.model.job import JOB_FIELDS, Job, check_lane
from interlock.model.lane import LaneSpec
from interlock.model.pool import PoolSpec
from interlock.model.tenant import TenantSpec
from interlock.model.work import JobWork
from interlock.policy.policy import Policy
from interlock.supervision.spec import Child, Group
from interlock.worker.app_loader import load_app, load_app_again
from interlock.worker.definition import Definition

AnyDeclared = Declared | DeclaredJob | DeclaredLane | DeclaredPolicy | DeclaredPool | DeclaredTenant
KINDS: Mapping[str, tuple[Mapping[str, Field], Callable[[Document], AnyDeclared]]] = {
    "Service": (service_documents.SERVICE_FIELDS, service_documents.read_service),
    "Group": (service_documents.GROUP_FIELDS, service_documents.read_group),
    "Job": (JOB_FIELDS, job_documents.read_document),
    "Lane": (LANE_FIELDS, read_lane),
    "Pool": (POOL_FIELDS, read_pool),
    "Tenant": (TENANT_FIELDS, read_tenant),
    "Policy": (policy_documents.POLICY_FIELDS, policy_documents.read_policy),
}
"""kind of document → its fields, and the function that reads it"""


class FileJob(msgspec.Struct, frozen=True):
    job: Job
    source: str  # place of the declaration: `file.yaml:12`


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Everything declared, in order; the app comes before the files."""

    children: Sequence[Child] = ()  # services and groups
    jobs: Sequence[FileJob] = ()  # jobs of the files
    definitions: Mapping[str, Definition] | None = None  # jobs of the app, if it was imported again
    lanes: Mapping[str, LaneSpec] = {}  # lanes of the files; settings override their limits
    pools: Mapping[str, PoolSpec] = {}
    tenants: Mapping[str, TenantSpec] = {}
    policy: Policy | None = None
    warnings: Sequence[str] = ()

    def counted(self, more_jobs: int = 0) -> str:
        kinds = list(_are_groups(self.children))
        jobs, services, groups = len(self.jobs) + more_jobs, kinds.count(False), kinds.count(True)
        counts = (jobs, "job"), (services, "service"), (groups, "group"), (len(self.lanes), "lane")
        parts = [_count(*one) for one in counts]
        if self.pools:
            parts.append(_count(len(self.pools), "pool"))
        if self.tenants:
            parts.append(_count(len(self.tenants), "tenant"))
        if self.policy is not None:
            parts.append(f"a policy of {_count(len(self.policy.rules), 'rule')}")
        return f"{', '.join(parts[:-1])} and {parts[-1]}"


class FromApp(msgspec.Struct, frozen=True, kw_only=True):
    """The declarations of an app."""

    target: str = ""  # MODULE:VARIABLE
    definitions: Mapping[str, Definition] = {}
    services: Sequence[Declared] = ()
    scanners: Collection[str] = ()  # names of its own scanners


NO_APP = FromApp()


def of_app(target: str, again: bool = False) -> FromApp:
    """Import the app; raise `CannotImport`."""
    app = load_app_again(target) if again else load_app(target)
    return FromApp(target=target, definitions=app.definitions, services=app.services, scanners=app.scanners)


def load(
    paths: Sequence[str], app: FromApp = NO_APP, strict: bool = False, lanes: Collection[str] | None = None
) -> Loaded:
    """Read the files together with the app; raise one `BadConfig` for everything that is wrong."""
    faults = Faults(strict)
    return build(read(paths, faults), faults, app, lanes=lanes)


def build(
    documents: Sequence[Document],
    faults: Faults,
    app: FromApp = NO_APP,
    now: float | None = None,
    lanes: Collection[str] | None = None,
) -> Loaded:
    """Read documents together with the app; raise earlier faults with new ones. With `now`, a job due only before it is
    a fault; with `lanes`, so is a job or tenant with a lane that is neither among them nor declared."""
    services = [service_documents.with_command(one, app.target) for one in app.services]
    named = [(job_id, Spot(one.where)) for job_id, one in app.definitions.items()]
    named += [(one.name, one.spot) for one in services]
    found = [(document, _declared(document)) for document in documents]
    faults.incomplete |= any(one is None for _, one in found)
    in_files = [one for _, one in found if isinstance(one, DeclaredLane)]
    jobs: list[tuple[Document, FileJob]] = []
    for document, one in found:
        if isinstance(one, Declared | DeclaredJob):
            named.append((one.name, one.spot))
        if isinstance(one, Declared):
            services.append(one)
        elif isinstance(one, DeclaredJob) and one.job is not None:
            job_documents.check_time(document, one.job, now)
            jobs.append((document, FileJob(one.job, str(one.spot))))
    check_names(named, faults)
    check_names(((one.name, one.spot) for one in in_files), faults)
    every_lane = [*(lanes or ()), *(one.name for one in in_files)]
    known = None if lanes is None or faults.incomplete else list(dict.fromkeys(every_lane))
    for document, declared in jobs:
        if (fault := _lane_fault(declared.job, known)) is not None:
            document.refuse("lane", fault)
    every_job = {*app.definitions, *(one.job.id for _, one in jobs)}
    for document, declared in jobs if not faults.incomplete else ():
        for path, warning in unknown_jobs(declared.job, every_job):
            faults.warn(document.spot(path), warning)
    pools = [(document, one) for document, one in found if isinstance(one, DeclaredPool)]
    policies = [(document, one) for document, one in found if isinstance(one, DeclaredPolicy)]
    every = [*(one.job for one in app.definitions.values()), *(one.job for _, one in jobs)]
    policy = policy_documents.only_policy(policies, every, faults, app.scanners if app.target else None)
    spots = [*(Spot(one.where) for one in app.definitions.values()), *(document.spot("id") for document, _ in jobs)]
    in_pools = every_pool(pools, list(zip(spots, every, strict=True)), faults)
    tenants = [(document, one) for document, one in found if isinstance(one, DeclaredTenant)]
    in_tenants = every_tenant(tenants, known, faults)
    bound = [_bound(document, one, app.definitions) for document, one in jobs]
    _check_app(app.definitions, faults, now, known, every_job)
    return Loaded(
        children=tree_of(services, faults),
        jobs=bound,
        lanes={one.name: one.spec for one in in_files if one.spec is not None},
        pools=in_pools,
        tenants=in_tenants,
        policy=policy,
        warnings=faults.warnings,
    )


def _declared(document: Document) -> AnyDeclared | None:
    """Return the declaration, without its value if it has a fault; None if its kind or name is unusable."""
    if not isinstance(document.kind, str) or document.kind not in KINDS:
        known = f"use one of {', '.join(KINDS)}{did_you_mean(str(document.kind), KINDS)}"
        what = "missing" if document.kind is None else f"{shown(document.kind)} is unknown"
        document.refuse("kind", f"kind: {what}; {known}")
        return None
    try:
        return KINDS[document.kind][1](document)
    except Refused:
        pass
    except InterlockError as error:
        document.refuse(getattr(error, "field", ""), str(error))
    try:
        name = KINDS[document.kind][0]["id"].kind.check(document.values.get("id"), document.place.at("id"))
    except InterlockError:
        return None
    if document.kind == "Job":
        return DeclaredJob(name=name, job=None, spot=document.spot("id"))
    if document.kind == "Policy":
        return DeclaredPolicy(name=name, policy=None, spot=document.spot("id"))
    if document.kind == "Pool":
        return DeclaredPool(name=name, spec=None, spot=document.spot("id"))
    if document.kind == "Tenant":
        return DeclaredTenant(name=name, spec=None, spot=document.spot("id"))
    if document.kind == "Lane":
        return DeclaredLane(name=name, spec=None, spot=document.spot("id"))
    return service_documents.declared(document, None)


def _bound(document: Document, declared: FileJob, definitions: Mapping[str, Definition]) -> FileJob:
    """Bind a job that runs the function of a job of the app."""
    if not isinstance(declared.job.work, JobWork):
        return declared
    try:
        return msgspec.structs.replace(declared, job=bind(declared.job, definitions))
    except InterlockError as error:
        document.refuse(getattr(error, "field", "payload"), str(error))
        return declared


def _lane_fault(job: Job, lanes: Collection[str] | None) -> str | None:
    try:
        check_lane(job, [job.lane] if lanes is None else lanes)
    except BadValue as error:
        return str(error)
    return None


def _check_app(
    definitions: Mapping[str, Definition],
    faults: Faults,
    now: float | None,
    lanes: Collection[str] | None,
    jobs: Collection[str],
) -> None:
    """Run the checks that the definition of a job leaves out."""
    for definition in definitions.values():
        schedule, spot = definition.job.schedule, Spot(definition.where)
        if (fault := _lane_fault(definition.job, lanes)) is not None:
            faults.add(spot, f"job {definition.job.id!r}: {fault}")
        for _, missing in missing_variables(definition.job):
            faults.add(spot, f"job {definition.job.id!r}: {missing}")
        for _, unknown in unknown_jobs(definition.job, jobs) if not faults.incomplete else ():
            faults.warn(spot, f"job {definition.job.id!r}: {unknown}")
        if schedule is None:
            continue
        for warning in schedule.warnings:
            faults.warn(spot, f"job {definition.job.id!r}: {warning}")
        if now is not None and schedule.at is not None and schedule.at <= now:
            faults.add(spot, f"job {definition.job.id!r}: schedule.at: {schedule} {job_documents.PAST}")


def _are_groups(children: Iterable[Child]) -> Iterator[bool]:
    """Yield for each child, and each one below it, whether it is a group."""
    for child in children:
        yield isinstance(child, Group)
        if isinstance(child, Group):
            yield from _are_groups(child.children)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"

"""Read everything that files and an app declare into what a scheduler keeps."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from interlock.config import job_documents, policy_documents, service_documents, workflow_documents
from interlock.config.declarations import Declared, NamedDocument, check_names, spec_kind, tree_of
from interlock.config.documents import Document, Faults, Spot, read
from interlock.config.job_documents import missing_variables, unknown_jobs
from interlock.config.pools import every_pool, every_tenant
from interlock.core.workflows.faults import faults_of
from interlock.engine.catalog import CatalogEntry, any_object, bind
from interlock.error import BadValue, InterlockError, shown
from interlock.fields.field import Field
from interlock.fields.field_types import NotAccepted, did_you_mean
from interlock.fields.safe_text import counted
from interlock.model.job import JOB_FIELDS, Job, check_lane
from interlock.model.lane import LaneSpec
from interlock.model.pool import PoolSpec
from interlock.model.tenant import EVERYBODY, TenantSpec
from interlock.policy.policy import Policy
from interlock.supervision.spec import Child, Group
from interlock.worker.app_loader import load_app, load_app_again
from interlock.worker.definition import Definition

KINDS: Mapping[str, tuple[Mapping[str, Field], Callable[[Document], Any]]] = {
    "Service": (service_documents.SERVICE_FIELDS, service_documents.read_service),
    "Group": (service_documents.GROUP_FIELDS, service_documents.read_group),
    "Job": (JOB_FIELDS, job_documents.read_document),
    "Workflow": (workflow_documents.WORKFLOW_FIELDS, workflow_documents.read_workflow),
    "Lane": spec_kind("lane", LaneSpec),
    "Pool": spec_kind("pool", PoolSpec),
    "Tenant": spec_kind("tenant", TenantSpec, EVERYBODY),
    "Policy": (policy_documents.POLICY_FIELDS, policy_documents.read_policy),
}
"""kind of document → its fields, and the function that reads it"""
JOB_KINDS = ("Job", "Workflow")


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

    def entries(self) -> list[CatalogEntry]:
        """Return the catalog entries of the jobs of the files."""
        return [CatalogEntry(job.job, any_object(job.job.id), None, job.source) for job in self.jobs]

    def summary(self, more_jobs: int = 0) -> str:
        kinds = list(_are_groups(self.children))
        jobs, services, groups = len(self.jobs) + more_jobs, kinds.count(False), kinds.count(True)
        counts = (jobs, "job"), (services, "service"), (groups, "group"), (len(self.lanes), "lane")
        optional = (len(self.pools), "pool"), (len(self.tenants), "tenant")
        parts = [counted(*count) for count in (*counts, *(count for count in optional if count[0]))]
        if self.policy is not None:
            parts.append(f"a policy of {counted(len(self.policy.rules), 'rule')}")
        return f"{', '.join(parts[:-1])} and {parts[-1]}"


class FromApp(msgspec.Struct, frozen=True, kw_only=True):
    """The declarations of an app."""

    target: str = ""  # MODULE:VARIABLE
    definitions: Mapping[str, Definition] = {}
    services: Sequence[Declared] = ()
    scanners: Collection[str] = ()  # names of its own scanners


NO_APP = FromApp()


def of_app(target: str | None, again: bool = False) -> FromApp:
    """Import the app, if there is one; raise `CannotImport`."""
    if target is None:
        return NO_APP
    return declared_by(load_app_again(target) if again else load_app(target), target)


def declared_by(app: Any, target: str) -> FromApp:
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
    """Read documents together with the app; raise earlier faults with new ones. With `now`, a job whose only time has
    passed is a fault. With `lanes`, a lane of a job or tenant that is neither among them nor declared is a fault."""
    services = [service_documents.with_command(service, app.target) for service in app.services]
    named = [(job_id, Spot(declaration.where)) for job_id, declaration in app.definitions.items()]
    named += [(service.name, service.spot) for service in services]
    found = [_declared(document) for document in documents]
    faults.incomplete |= None in found
    of_kind: dict[str, list[NamedDocument[Any]]] = {kind: [] for kind in KINDS}
    for declaration in found:
        if isinstance(declaration, NamedDocument):
            of_kind[declaration.document.kind].append(declaration)
        elif declaration is not None:
            services.append(declaration)
        if isinstance(declaration, Declared) or (declaration is not None and declaration.document.kind in JOB_KINDS):
            named.append((declaration.name, declaration.spot))
    check_names(named, faults)
    check_names(((declaration.name, declaration.spot) for declaration in of_kind["Lane"]), faults)
    every_lane = [*(lanes or ()), *(declaration.name for declaration in of_kind["Lane"])]
    known = None if lanes is None or faults.incomplete else list(dict.fromkeys(every_lane))
    jobs = [
        (declaration.document, declaration.value)
        for declaration in found
        if isinstance(declaration, NamedDocument)
        and declaration.document.kind in JOB_KINDS
        and declaration.value is not None
    ]
    for document, job in jobs:
        job_documents.check_time(document, job, now)
        if (fault := _lane_fault(job, known)) is not None:
            document.refuse("lane", fault)
    every_job = {*app.definitions, *(job.id for _, job in jobs)}
    for document, job in jobs if not faults.incomplete else ():
        for path, warning in unknown_jobs(job, every_job):
            faults.warn(document.spot(path), warning)
    _check_workflows(
        [declaration for kind in JOB_KINDS for declaration in of_kind[kind]], app.definitions, known, faults
    )
    placed = [(Spot(definition.where), definition.job) for definition in app.definitions.values()]
    placed += [(document.spot("id"), job) for document, job in jobs]
    scanners = app.scanners if app.target else None
    policy = policy_documents.only_policy(of_kind["Policy"], [job for _, job in placed], faults, scanners)
    pools = every_pool(of_kind["Pool"], placed, faults)
    tenants = every_tenant(of_kind["Tenant"], known, faults)
    bound = [_bound(document, job, app.definitions) for document, job in jobs]
    _check_app(app.definitions, faults, now, known, every_job)
    return Loaded(
        children=tree_of(services, faults),
        jobs=bound,
        lanes={declaration.name: declaration.value for declaration in of_kind["Lane"] if declaration.value is not None},
        pools=pools,
        tenants=tenants,
        policy=policy,
        warnings=faults.warnings,
    )


def _declared(document: Document) -> Declared | NamedDocument[Any] | None:
    """Return the declaration, without its value if it has a fault; None if its kind or name is unusable."""
    if not isinstance(document.kind, str) or document.kind not in KINDS:
        known = f"use one of {', '.join(KINDS)}{did_you_mean(str(document.kind), KINDS)}"
        what = "missing" if document.kind is None else f"{shown(document.kind)} is unknown"
        document.refuse("kind", f"kind: {what}; {known}")
        return None
    fields, read_value = KINDS[document.kind]
    value = None
    try:
        value = read_value(document)
    except NotAccepted:
        pass
    except InterlockError as error:
        document.refuse(getattr(error, "field", ""), str(error))
    try:
        name = fields["id"].kind.check(document.values.get("id"), document.place.at("id"))
    except InterlockError:
        return None
    if document.kind in ("Service", "Group"):
        return service_documents.declared(document, value)
    return NamedDocument(document, name, value)


def _bound(document: Document, job: Job, definitions: Mapping[str, Definition]) -> FileJob:
    """Return a job; bind one that runs the function of a job of the app."""
    if job.function_of is not None:
        try:
            job = bind(job, definitions)
        except InterlockError as error:
            document.refuse(getattr(error, "field", "payload"), str(error))
    return FileJob(job, str(document.spot("id")))


def _check_workflows(
    declared: Sequence[NamedDocument[Job]],
    definitions: Mapping[str, Definition],
    lanes: Collection[str] | None,
    faults: Faults,
) -> None:
    """Run the checks of graphs, and of ids and names, that look beyond one field. A fault hides no other."""

    def misfit(job: Job, names: Collection[str]) -> str | None:
        given = {*(job.payload or {}), *names}
        return definitions[job.id].misfit(given) if job.id in definitions else None

    jobs: dict[str, Job | None] = {job_id: definition.job for job_id, definition in definitions.items()}
    jobs |= {declaration.name: declaration.value for declaration in declared}
    for declaration in declared:
        document, job = declaration.document, declaration.value
        if (fault := workflow_documents.reserved(declaration.name)) is not None:
            document.refuse("id", fault)
        if document.kind != "Workflow":
            continue
        sketch = workflow_documents.Sketch(document) if job is None else None
        workflow = job.workflow if job is not None else None if sketch is None else sketch.workflow
        if workflow is None:
            continue
        found = faults_of(workflow)
        if not faults.incomplete:
            unread = () if sketch is None else sketch.unread
            found += workflow_documents.unknown_names(workflow, jobs, lanes, misfit, unread)
        for path, rule in found:
            document.refuse(path, f"{path}: {rule}")
    for definition in definitions.values():
        if (fault := workflow_documents.reserved(definition.job.id)) is not None:
            faults.add(Spot(definition.where), fault)


def _lane_fault(job: Job, lanes: Collection[str] | None) -> str | None:
    try:
        check_lane(job, job.lanes if lanes is None else lanes)
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
        for _, missing in missing_variables(definition.job) if faults.with_env else ():
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

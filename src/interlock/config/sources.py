"""Reading everything that is declared, in files and by an app, into what a scheduler is to have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from interlock.config import job_documents, service_documents
from interlock.config.declarations import Declared, DeclaredJob, check_names, tree_of
from interlock.config.documents import Document, read
from interlock.config.faults import Faults, Spot
from interlock.config.fields import Fields
from interlock.model.job import Job
from interlock.supervision.spec import Child, Group
from interlock.worker.app_loader import load_app
from interlock.worker.definition import Definition


class FileJob(msgspec.Struct, frozen=True):
    job: Job
    source: str
    """where it is declared: `file.yaml:12`"""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared, in the order of its declaration; what an app has comes before the files."""

    children: Sequence[Child] = ()
    """services and groups of them"""
    jobs: Sequence[FileJob] = ()
    """of the files; those of the app are known"""
    warnings: Sequence[str] = ()

    def counted(self, more_jobs: int = 0) -> str:
        """How much there is, in words."""
        kinds = list(_are_groups(self.children))
        jobs, services, groups = len(self.jobs) + more_jobs, kinds.count(False), kinds.count(True)
        return f"{_count(jobs, 'job')}, {_count(services, 'service')} and {_count(groups, 'group')}"


class FromApp(msgspec.Struct, frozen=True, kw_only=True):
    """What an app has declared."""

    target: str = ""
    """where it is found"""
    definitions: Mapping[str, Definition] = {}
    services: Sequence[Declared] = ()


NO_APP = FromApp()


def of_app(target: str) -> FromApp:
    """Import it; raises `CannotImport`."""
    app = load_app(target)
    return FromApp(target=target, definitions=app.definitions, services=app.services)


def load(paths: Sequence[str], app: FromApp = NO_APP, strict: bool = False) -> Loaded:
    """What the files say together with what the app has; raises one `BadConfig` for everything that is wrong."""
    faults = Faults(strict)
    return build(read(paths, faults), faults, app)


def build(documents: Sequence[Document], faults: Faults, app: FromApp = NO_APP, now: float | None = None) -> Loaded:
    """The same of documents that are read; raises the faults that were found before together with its own. With a time
    given, it is a fault of a job to be for an earlier one."""
    declared = service_documents.declared_in(app.services, app.target)
    named = [(job_id, Spot(one.where)) for job_id, one in app.definitions.items()]
    named += [(one.name, one.spot) for one in declared]
    found: list[DeclaredJob] = []
    for document in documents:
        one: Declared | DeclaredJob | None
        if document.kind == "Job":
            one = job_documents.declared_job(Fields(document, faults, job_documents.OPTIONAL), now)
        else:
            one = service_documents.READERS[document.kind](Fields(document, faults, service_documents.OPTIONAL))
        if isinstance(one, DeclaredJob):
            found.append(one)
        elif one is not None:
            declared.append(one)
        if one is not None:
            named.append((one.name, one.spot))
    check_names(named, faults)
    _check_app(app.definitions, faults, now)
    children = tree_of(declared, faults)
    return Loaded(
        children=children,
        jobs=[FileJob(one.job, str(one.spot)) for one in found if one.job is not None],
        warnings=faults.warnings,
    )


def _check_app(definitions: Mapping[str, Definition], faults: Faults, now: float | None) -> None:
    """What its jobs have not been asked when they were defined."""
    for definition in definitions.values():
        schedule, spot = definition.job.schedule, Spot(definition.where)
        if schedule is None:
            continue
        for warning in schedule.warnings:
            faults.warn(spot, f"job {definition.job.id!r}: {warning}")
        if now is not None and schedule.at is not None and schedule.at <= now:
            faults.add(spot, f"job {definition.job.id!r}: schedule.at: {schedule} {job_documents.PAST}")


def _are_groups(children: Iterable[Child]) -> Iterator[bool]:
    """Of each child, and of those below it."""
    for child in children:
        yield isinstance(child, Group)
        if isinstance(child, Group):
            yield from _are_groups(child.children)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"

"""Records for a batch, and those of a store."""

from collections.abc import Iterable

from interlock.model.child_info import Kept, KeptService
from interlock.model.job import Job, StoredJob
from interlock.model.record import Record
from interlock.ports.store import Reader

Changes = dict[tuple[str, str], Record | None]


def changes(*records: Record, gone: Iterable[tuple[type[Record], str]] = ()) -> Changes:
    """What a batch has of these records, and of those that are to be forgotten."""
    found: Changes = {(record.kind, record.id): record for record in records}
    return found | {(kind.kind, id): None for kind, id in gone if (kind.kind, id) not in found}


def put_jobs(*jobs: Job, gone: Iterable[str] = ()) -> Changes:
    return changes(*(StoredJob(job.id, job) for job in jobs), gone=[(StoredJob, job_id) for job_id in gone])


def kept(**services: Kept | None) -> Changes:
    return {(KeptService.kind, name): one if one is None else KeptService(name, one) for name, one in services.items()}


async def kept_services(store: Reader) -> dict[str, Kept]:
    return {service.id: service.kept for service in (await store.records(KeptService)).records}

"""Jobs, each from a document or from the body of a request."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from interlock.config.documents import Document, from_values
from interlock.config.faults import Faults
from interlock.config.guards import missing_variables
from interlock.error import shown
from interlock.fields import payload
from interlock.fields.field import read_fields, settable
from interlock.fields.field_types import NotAccepted
from interlock.interface.job_document import JobFields, document_of
from interlock.interface.run_builder import check_options
from interlock.model.job import JOB_FIELDS, Job
from interlock.model.work import WHERE_ALLOWED, WORK_FIELDS, JobRun
from interlock.wire.request import PutJobs

PAST = "is not in the future; 'interlock up' accepts it if the job has already run"


def read_job(values: Mapping[str, Any], job_id: str) -> Job:
    """Return the job of a request; raise one `BadConfig` for all its faults."""
    faults = Faults()
    document = from_values("Job", job_id, values, faults)
    job: Job | None = None
    with suppress(NotAccepted):
        job = read_document(document)
    faults.check()
    assert job is not None
    return job


def put_request(job_id: str, definition: Mapping[str, Any] | None, fields: JobFields) -> PutJobs:
    """Return the request of a program that defines a job; raise one `BadConfig` for all its faults."""
    check_options(fields, JobFields)
    return PutJobs(0, [read_job(payload.decode(document_of(definition, fields)), job_id)])


def read_document(document: Document) -> Job:
    values = read_fields(JOB_FIELDS, document.values, document.place)
    run: JobRun = values.pop("run")
    options = {name: values.pop(name) for name in WORK_FIELDS if name in values}
    for name in [name for name in options if name not in settable(type(run.work))]:
        document.refuse(name, f"{name}: {WHERE_ALLOWED}")
        del options[name]
    job = Job(**values, work=replace(run.work, **options))
    for path, fault in missing_variables(job) if document.faults.with_env else ():
        document.refuse(path, fault)
    for warning in job.schedule.warnings if job.schedule is not None else ():
        document.faults.warn(document.spot(warning.partition(":")[0]), warning)
    return job


def check_time(document: Document, job: Job, now: float | None) -> None:
    """Refuse an `at` that is not after a given `now`."""
    if now is not None and job.schedule is not None and job.schedule.at is not None and job.schedule.at <= now:
        document.refuse("schedule.at", f"schedule.at: {shown(document.values['schedule']['at'])} {PAST}")

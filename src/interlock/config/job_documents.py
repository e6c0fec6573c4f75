"""Jobs, each from a document or from the body of a request; checks that look at the environment and at other jobs."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from interlock.config.documents import Document, Faults, from_values
from interlock.error import shown
from interlock.fields import payload
from interlock.fields.field import read_fields
from interlock.fields.field_types import NotAccepted, did_you_mean
from interlock.interface.job_document import JobFields, document_of
from interlock.interface.run_builder import check_options
from interlock.model.guard import EVENTS, Action, Check, Hook, is_url
from interlock.model.job import JOB_FIELDS, Job
from interlock.model.work import ALLOWED_FOR, WORK_FIELDS, JobRun
from interlock.wire.request import PutJobs


def _parts(job: Job) -> Iterator[tuple[str, Action | Check | Hook]]:
    """Yield every hook, check and action of a job with its path."""
    for name in ("pre_run_hook", "post_run_hook"):
        hook = getattr(job.constraints, name)
        if hook is not None:
            yield f"constraints.{name}", hook
    for place, check in enumerate(job.constraints.checks):
        assert isinstance(check, Check)
        yield f"constraints.checks[{place}]", check
    for event in EVENTS:
        actions = job.actions(event)
        for place, action in enumerate(actions):
            yield event if len(actions) == 1 else f"{event}[{place}]", action


def missing_variables(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the path of each variable that a hook or webhook names and that is missing, with the fault."""
    for path, part in _parts(job):
        for name in ("url_env", "secret_env", "token_env"):
            variable = getattr(part, name, None)
            if variable is None:
                continue
            value = os.environ.get(variable)
            if not value:
                yield f"{path}.{name}", f"{path}.{name}: environment variable {shown(variable)} is not set"
            elif name == "url_env" and not is_url(value):
                yield (
                    f"{path}.{name}",
                    f"{path}.{name}: environment variable {shown(variable)} does not hold an HTTP URL",
                )


def named_jobs(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the jobs that the checks and actions of a job name, with their paths."""
    for path, part in _parts(job):
        if (named := getattr(part, "job", None)) is not None:
            yield f"{path}.job", named


def unknown_jobs(job: Job, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the path of each job that a check or an action names and that nobody declares, with a warning."""
    for path, named in named_jobs(job):
        if named not in known:
            yield path, f"{path}: {shown(named)} is not declared here{did_you_mean(named, known)}"


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
    for name in [name for name in options if name not in run.work.options]:
        document.refuse(name, f"{name}: only for {ALLOWED_FOR[name]}; a {run.work.kind} has none")
        del options[name]
    if "start_timeout" in values and not run.work.is_slow_to_start:
        document.refuse("start_timeout", "start_timeout: only for container; everything else starts at once")
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

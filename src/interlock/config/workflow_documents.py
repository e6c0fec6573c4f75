"""Workflows, each from a document."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from interlock.config.documents import Document
from interlock.core.workflows.faults import Fault, faults_of
from interlock.error import shown
from interlock.fields.field import Field, read_fields, settable
from interlock.fields.field_types import NotAccepted, did_you_mean
from interlock.model.job import Job
from interlock.model.workflow import BUILT_IN, Workflow

NO_FIELDS = ("retry", "limit", "max_runtime_per_attempt")  # fields of a job that a workflow has none of
WORKFLOW_FIELDS: dict[str, Field] = {
    **{name: field for name, field in settable(Job).items() if name not in NO_FIELDS},
    **settable(Workflow),
}
ArgumentFault = Callable[[str, Collection[str]], str | None]  # job and arguments → why it does not take them


def read_workflow(document: Document) -> Job:
    values = read_fields(WORKFLOW_FIELDS, document.values, document.place)
    parts = {name: values.pop(name) for name in settable(Workflow) if name in values}
    job = Job(**values, workflow=Workflow(**parts))
    assert job.workflow is not None
    faults = list(faults_of(job.workflow))
    for path, rule in faults:
        document.refuse(path, f"{path}: {rule}")
    if faults:
        raise NotAccepted
    return job


def unknown_names(
    workflow: Workflow, jobs: Mapping[str, Job], lanes: Collection[str] | None, misfit: ArgumentFault
) -> Iterator[Fault]:
    """Yield the jobs, workflows and lanes that nobody declares, and arguments that a job does not take."""
    for index, step in enumerate(workflow.steps):
        kind, name = step.kind, step.job or step.workflow
        if name is not None:
            job = jobs.get(name)
            if job is None:
                known = [other.id for other in jobs.values() if (other.workflow is not None) == (kind == "workflow")]
                yield f"steps[{index}].{kind}", f"{shown(name)} is not declared{did_you_mean(name, known)}"
            elif (job.workflow is not None) != (kind == "workflow"):
                right = "job" if kind == "workflow" else "workflow"
                yield f"steps[{index}].{kind}", f"{shown(name)} is a {right}; write {right}: {name}"
            elif fault := misfit(name, {*(job.payload or {}), *(step.with_ or {})}):
                yield f"steps[{index}].{'with' if step.with_ else 'job'}", fault
        if step.compensate is not None:
            undo = step.compensate.job
            given = {*(step.with_ or {}), "result"} if step.compensate.with_ is None else {*step.compensate.with_}
            if undo not in jobs:
                yield f"steps[{index}].compensate.job", f"{shown(undo)} is not declared{did_you_mean(undo, jobs)}"
            elif fault := _undo_fault(jobs, name, undo) or misfit(undo, {*(jobs[undo].payload or {}), *given}):
                yield f"steps[{index}].compensate", fault
        if lanes is not None and step.lane is not None and step.lane not in lanes:
            yield f"steps[{index}].lane", f"{shown(step.lane)} is not declared{did_you_mean(step.lane, lanes)}"


def _undo_fault(jobs: Mapping[str, Job], name: str | None, undo: str) -> str | None:
    """Return why this job cannot undo a step of that one."""
    own = jobs[name].capabilities if name is not None and name in jobs else ()
    added = ", ".join(sorted(set(jobs[undo].capabilities) - set(own)))
    return f"{shown(undo)} has capabilities that its step lacks: {added}" if added else None


def reserved(job_id: Any) -> str | None:
    """Return the fault of an id that only built-in jobs have."""
    if isinstance(job_id, str) and job_id.startswith(BUILT_IN):
        return f"id: {shown(job_id)} begins with {BUILT_IN!r}, as only built-in jobs do; choose another"
    return None

"""Workflows, each from a document."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from msgspec.structs import replace

from interlock.config.documents import Document, Faults
from interlock.core.workflows.faults import Fault, places_of
from interlock.error import BadUse, InterlockError, shown
from interlock.fields.field import Field, read_fields, settable
from interlock.fields.field_types import FieldPath, NotAccepted, did_you_mean
from interlock.model.job import Job
from interlock.model.workflow import BUILT_IN, Workflow, WorkflowStep

NO_FIELDS = ("retry", "limit", "max_runtime_per_attempt")  # fields of a job that a workflow has none of
WORKFLOW_FIELDS: dict[str, Field] = {
    **{name: field for name, field in settable(Job).items() if name not in NO_FIELDS},
    **settable(Workflow),
}
UNREAD = BUILT_IN + "unread"  # job of a step whose kind cannot be read
ArgumentFault = Callable[[Job, Collection[str]], str | None]  # job and names of arguments → why it does not take them


def read_workflow(document: Document) -> Job:
    values = read_fields(WORKFLOW_FIELDS, document.values, document.place)
    parts = {name: values.pop(name) for name in settable(Workflow) if name in values}
    if not parts["steps"]:
        raise BadUse("steps", "is empty; give at least one step")
    return Job(**values, workflow=Workflow(**parts))


class Sketch:
    """The graph of a document with faults, as far as it can be read, so that these faults hide no others."""

    def __init__(self, document: Document) -> None:
        self.unread: set[str] = set()  # paths of fields that cannot be read
        self._numbers = count()
        self._place = replace(document, faults=Faults()).place
        self.workflow: Workflow | None = None
        with suppress(InterlockError):
            steps = self._steps(document.values.get("steps"), self._place.at("steps"))
            result = self._read("result", settable(Workflow)["result"], document.values, self._place)
            self.workflow = Workflow(steps=steps, result=result) if steps else None

    def _steps(self, given: Any, place: FieldPath) -> tuple[WorkflowStep, ...]:
        if isinstance(given, list):
            return tuple(self._step(one, place.at(index)) for index, one in enumerate(given))
        return (self._step(given, place),)

    def _step(self, given: Any, place: FieldPath) -> WorkflowStep:
        values = given if isinstance(given, dict) else {}
        found: dict[str, Any] = {"id": f"unread_{next(self._numbers)}"}
        for name, field in settable(WorkflowStep).items():
            if name != "parallel" and (value := self._read(name.rstrip("_"), field, values, place)) is not None:
                found[name] = value
        if isinstance(inside := values.get("parallel"), list) and inside:
            below = place.at("parallel")
            found["parallel"] = tuple(self._steps(branch, below.at(index)) for index, branch in enumerate(inside))
        if f"{place}.for_each" in self.unread:
            found["for_each"] = []
        kinds = [name for name in WorkflowStep.one_of if name in found]
        found |= {"job": UNREAD} if not kinds else dict.fromkeys(kinds[1:])
        return WorkflowStep(**found)

    def _read(self, name: str, field: Field, values: Mapping[str, Any], place: FieldPath) -> Any:
        try:
            return None if values.get(name) is None else field.kind.check(values[name], place.at(name))
        except (InterlockError, NotAccepted):
            self.unread.add(str(place.at(name)))
            return None


def unknown_names(
    workflow: Workflow,
    jobs: Mapping[str, Job | None],
    lanes: Collection[str] | None,
    misfit: ArgumentFault,
    unread: Collection[str] = (),
) -> Iterator[Fault]:
    """Yield the jobs, workflows and lanes that nobody declares, and arguments that a job does not take. A job that is
    declared with a fault is None."""
    for step, place in places_of(workflow.steps):
        kind, name, arguments = step.kind, step.job or step.workflow, {*(step.with_ or {})}
        job = jobs.get(name or "")
        if name is not None and name not in (UNREAD, *jobs):
            known = [id for id, other in jobs.items() if other and (other.workflow is None) == (kind == "job")]
            yield f"{place}.{kind}", f"{shown(name)} is not declared{did_you_mean(name, known)}"
        elif job is not None and (job.workflow is not None) != (kind == "workflow"):
            right = "job" if kind == "workflow" else "workflow"
            yield f"{place}.{kind}", f"{shown(name)} is a {right}; write {right}: {name}"
        elif job is not None and f"{place}.with" not in unread and (fault := misfit(job, arguments)):
            yield f"{place}.{'with' if step.with_ else 'job'}", fault
        if step.compensate is not None:
            undo, with_ = step.compensate.job, step.compensate.with_
            if undo not in jobs:
                yield f"{place}.compensate.job", f"{shown(undo)} is not declared{did_you_mean(undo, jobs)}"
            elif (undoing := jobs[undo]) is not None and (job is not None or step.run is not None):
                given = arguments | {"result"} if with_ is None else {*with_}
                if fault := _undo_fault(job, undoing) or misfit(undoing, given):
                    yield f"{place}.compensate", fault
        if lanes is not None and step.lane is not None and step.lane not in lanes:
            yield f"{place}.lane", f"{shown(step.lane)} is not declared{did_you_mean(step.lane, lanes)}"


def _undo_fault(job: Job | None, undo: Job) -> str | None:
    """Return why this job cannot undo a step of that one."""
    added = ", ".join(sorted(set(undo.capabilities) - set(() if job is None else job.capabilities)))
    return f"{shown(undo.id)} has capabilities that its step lacks: {added}" if added else None


def reserved(job_id: Any) -> str | None:
    """Return the fault of an id that only built-in jobs have."""
    if isinstance(job_id, str) and job_id.startswith(BUILT_IN):
        return f"id: {shown(job_id)} begins with {BUILT_IN!r}, as only built-in jobs do; choose another"
    return None

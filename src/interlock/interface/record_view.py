"""The record of a workflow that is a function, as it is shown and kept in a file."""

import hashlib
from typing import Annotated, Any

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.state import State
from interlock.model.workflow_record import RecordedStep, WorkflowRecord


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step that the function asked for."""

    name: Annotated[str, doc("Name of the step.")]
    arguments: Annotated[str, doc("SHA-256 of its arguments as JSON with sorted keys, secrets masked.")] = ""
    place: Annotated[
        int | None, doc("Place in the order of completion, from 0; null while the function has not seen its end.")
    ] = None
    state: Annotated[State | None, doc("State in which it ended.")] = None
    at: Annotated[Time | None, doc("Time of its end.")] = None
    result: Annotated[Any, doc("Its result; null if it is withheld.")] = None
    error: Annotated[str, doc("Its error.")] = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a run: what its function is replayed from."""

    workflow: Annotated[str, doc("Id of the workflow.")]
    run_id: Annotated[str, doc("Id of the run.")]
    state: Annotated[State, doc("State of the run.")]
    payload: Annotated[Any, doc("Arguments of the round; secrets are masked.")]
    began_at: Annotated[Time, doc("Time at which the round began.")]
    round: Annotated[int, doc("Number of the round, from 1.")] = 1
    steps: Annotated[list[StepRecord], doc("Steps of the round, in the order in which the function asked for them.")]
    seen: Annotated[int | None, doc("Ended steps that its function has seen; null before its first turn.")]
    ended: Annotated[bool, doc("Whether the end of the run is decided.")]
    begins_with: Annotated[
        str | None, doc("Step with which the run begins; those before it are taken over from another run.")
    ] = None
    seed: Annotated[str, doc("Run from which random numbers and ids come; empty for this one.")] = ""
    changes: Annotated[list[str], doc("Names for which `changed` is true.")]

    @classmethod
    def of(cls, record: WorkflowRecord, state: State, payload: Any, arguments: dict[str, str]) -> "RunRecord":
        """Return a record as it is shown, with its masked payload, and step → digest of its arguments."""
        steps = [
            StepRecord(
                name=step.name,
                arguments=arguments.get(step.name, ""),
                place=step.place,
                state=step.state,
                at=step.at or None,
                result=msgspec.json.decode(step.result),
                error=step.error,
            )
            for step in record.steps
        ]
        return cls(
            workflow=record.workflow,
            run_id=record.run_id,
            state=state,
            payload=payload,
            began_at=record.began_at,
            round=record.round,
            steps=steps,
            seen=record.seen,
            ended=record.ended,
            begins_with=record.begins_with,
            seed=record.seed,
            changes=list(record.changes),
        )

    def to_replay(self) -> WorkflowRecord:
        """Return the record as a function is replayed from it."""
        steps = [
            RecordedStep(step.name, step.place, step.state, step.at or 0.0, _raw(step.result), step.error)
            for step in self.steps
        ]
        given = self.workflow, self.run_id, _raw(self.payload), self.began_at, self.round
        return WorkflowRecord(*given, steps, self.seen, self.ended, self.begins_with, self.seed, tuple(self.changes))


def digest_of(arguments: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))

"""The record of a workflow that is a function: what it was called with, the steps that it asked for, and their ends.

The function is called again with it at every turn. A record is also a file, which tests and `workflow diff` replay.
"""

from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.model.state import State

MOST_STEPS_A_ROUND = 2000
MOST_RESULTS = 16 * 1024 * 1024  # bytes of results a turn
NULL = msgspec.Raw(b"null")


class RecordedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that the function asked for."""

    name: Annotated[str, doc("Name of the step.")]
    place: Annotated[int | None, doc("Place in the order of completion; null while it has not ended.")] = None
    state: Annotated[State | None, doc("State in which it ended.")] = None
    at: Annotated[float, doc("Time of its end.")] = 0.0
    result: Annotated[msgspec.Raw, doc("Its result.")] = NULL
    error: Annotated[str, doc("Its error.")] = ""


class WorkflowRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A round of a workflow, as its function sees it."""

    workflow: Annotated[str, doc("Id of the workflow.")]
    run_id: Annotated[str, doc("Id of the run.")]
    payload: Annotated[msgspec.Raw, doc("Arguments of the round.")]
    began_at: Annotated[float, doc("Time at which the round began.")]
    round: Annotated[int, doc("Number of the round, from 1.")] = 1
    steps: Annotated[list[RecordedStep], doc("Steps in the order in which the function asked for them.")] = []
    seen: Annotated[int | None, doc("Ended steps that an earlier turn got; null before the first turn.")] = None
    ended: Annotated[bool, doc("Whether the function has ended.")] = False
    begins_with: Annotated[
        str | None, doc("Step with which the run begins; those before it are taken over from another run.")
    ] = None
    seed: Annotated[str, doc("Run from which random numbers and ids come; empty for this one.")] = ""
    changes: Annotated[tuple[str, ...], doc("Names for which `changed` is true.")] = ()

    @property
    def ends(self) -> list[RecordedStep]:
        """The ended steps, in the order of their completion."""
        return sorted((step for step in self.steps if step.place is not None), key=lambda step: step.place or 0)

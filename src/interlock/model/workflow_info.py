"""A workflow run under way as it is shown."""

from enum import StrEnum
from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.fields.json_form import Time
from interlock.model.job_info import Cursor


class WorkflowStatus(StrEnum):
    WAITING = "waiting"
    CLOSING = "closing"
    ROLLING_BACK = "rolling_back"
    HALTED = "halted"


class WorkflowAction(StrEnum):
    """What is done with a halted run."""

    RESUME = "resume"
    ABANDON = "abandon"


class WorkflowInfo(msgspec.Struct, frozen=True, kw_only=True):
    run_id: Annotated[str, doc("Id of the run.")]
    job_id: Annotated[str, doc("Id of the workflow.")]
    tenant: Annotated[str, doc("Tenant.")]
    status: Annotated[
        WorkflowStatus,
        doc(
            "`waiting` for steps, `closing`: its end is decided and its steps stop, `rolling_back`: compensations run, "
            "or `halted`: its code does not fit its record."
        ),
    ]
    is_function: Annotated[bool, doc("Whether a function decides its steps, and no graph.")]
    started_at: Annotated[Time | None, doc("Time of its start.")]
    ended: Annotated[int, doc("Steps that have ended.")]
    live: Annotated[int, doc("Steps that have not ended.")]
    waits_for: Annotated[str, doc("What it waits for, as a sentence.")]


class WorkflowPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of workflow runs."""

    workflows: Annotated[list[WorkflowInfo], doc("Workflow runs under way, newest first.")]
    next: Cursor

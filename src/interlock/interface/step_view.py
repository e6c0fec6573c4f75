"""The steps of a workflow run as they are shown."""

from typing import Annotated

import msgspec

from interlock.fields.field import doc
from interlock.interface.run_view import RunInfo
from interlock.model.job_info import Cursor
from interlock.model.workflow import Workflow


class StepGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The graph with which a workflow run began."""

    needs: Annotated[dict[str, list[str]], doc("Step → the steps that must be done before it.")]
    on_error: Annotated[
        dict[str, list[str]], doc("Step that runs only after an error → the steps whose error that is.")
    ]

    @classmethod
    def of(cls, workflow: Workflow) -> "StepGraph":
        needs = {name: list(steps) for name, steps in workflow.needs.items()}
        return cls(needs=needs, on_error=workflow.handlers)


class StepPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the steps of a run."""

    steps: Annotated[list[RunInfo], doc("Steps, in the order in which they began.")]
    graph: Annotated[StepGraph | None, doc("Graph of the workflow; null for a function, and for any other run.")]
    next: Cursor

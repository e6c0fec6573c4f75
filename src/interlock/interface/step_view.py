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
    inside: Annotated[dict[str, list[str]], doc("Parallel step → the steps inside it, which begin after it.")]

    @classmethod
    def of(cls, workflow: Workflow) -> "StepGraph":
        graphs = workflow, *workflow.parts.values()
        needs = {name: list(steps) for graph in graphs for name, steps in graph.needs.items()}
        inside = {name: list(part.needs) for name, part in workflow.parts.items()}
        return cls(needs=needs, on_error=workflow.handlers, inside=inside)

    @property
    def around(self) -> dict[str, str]:
        """Step inside a parallel step → that one."""
        found = {step: name for name, steps in self.inside.items() for step in steps}
        return found | {step: found[failing[0]] for step, failing in self.on_error.items() if failing[0] in found}

    @property
    def follows(self) -> dict[str, list[str]]:
        """Step → the steps that it is drawn behind: the last ones inside a parallel step, or that step itself."""
        around = self.around

        def ends_of(name: str) -> list[str]:
            steps = self.inside.get(name, ())
            needed = {need for step in steps for need in self.needs[step]}
            return [end for step in steps if step not in needed for end in ends_of(step)] or [name]

        found = {name: [end for need in needs for end in ends_of(need)] for name, needs in self.needs.items()}
        return {name: ends or [around[name]] if name in around else ends for name, ends in found.items()}


class StepPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the steps of a run."""

    steps: Annotated[list[RunInfo], doc("Steps, in the order in which they began.")]
    graph: Annotated[StepGraph | None, doc("Graph of the workflow; null for a function, and for any other run.")]
    next: Cursor

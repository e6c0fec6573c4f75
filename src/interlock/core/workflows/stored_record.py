"""The record of a workflow that is a function, made from its stored runs: as its next turn would get it."""

from collections.abc import Iterable, Mapping

from interlock.core.workflows.code import deliverable, know_step, record_of, sort_steps
from interlock.core.workflows.flow import LONGEST_ERROR, UNDO, EndedStep, Flow, StepEnd
from interlock.fields.payload import EMPTY
from interlock.model.run import Run
from interlock.model.workflow_record import WorkflowRecord


def stored_record(run: Run, steps: Iterable[Run]) -> tuple[WorkflowRecord, Mapping[str, str]]:
    """Return the record, and step → id of its run. All runs have their payloads and results."""
    flow, ended, payload = Flow(run, 0, is_code=True), [], run.payload
    for step in steps:
        name = flow.name_of(step.id)
        if name == flow.round_mark:
            payload = step.result
        if name.startswith(UNDO) or not know_step(flow, name, step.step_facet) or step.ended_at is None:
            continue
        end = EndedStep.of(step)
        ended.append(end)
        flow.ended[name] = StepEnd(step.state, error=end.error[:LONGEST_ERROR], at=end.at)
        if (result := step.shown_result) is not None:
            flow.read[name] = result
    sort_steps(flow, ended)
    is_over = run.ended_at is not None or run.closing is not None
    given = deliverable(flow)
    # What has ended after the end of the workflow was decided, its function has not seen.
    given = given[: run.workflow_facet.seen or 0] if is_over else given
    record = record_of(flow, given, payload or EMPTY, is_over)
    return record, {name.removeprefix(flow.round_prefix): flow.id_of_step(name) for name in flow.asked}

"""Answers from the scheduler's state to questions about workflow runs."""

from heapq import nlargest

from interlock.core.state import SchedulerState
from interlock.core.workflows.flow import Flow, Flows
from interlock.core.workflows.part import explain
from interlock.fields.field import copy_fields
from interlock.model.run import Now
from interlock.model.workflow_info import WorkflowInfo, WorkflowPage, WorkflowStatus
from interlock.wire.request import ValueAnswer
from interlock.wire.workflow_request import AskWorkflows


def page(question: AskWorkflows, state: SchedulerState, now: Now) -> ValueAnswer:
    """Return workflow runs under way, the newest first."""
    before, tenants = question.before, {question.tenant, question.only_tenant} - {None}
    wanted = (
        flow.run.id
        for flow in state.of(Flows).values()
        if flow.step is None
        and tenants <= {flow.run.tenant}
        and question.job in (None, flow.run.job_id)
        and (before is None or flow.run.id < before)
        and question.status in (None, status := status_of(flow))
        and (question.steps or not flow.run.is_step or status is WorkflowStatus.HALTED)
    )
    found = nlargest(question.limit + 1, wanted)
    shown = [_info(state, state.of(Flows)[run_id], now) for run_id in found[: question.limit]]
    following = f"w{shown[-1].run_id}" if len(found) > question.limit else None
    return ValueAnswer(question.request, WorkflowPage(workflows=shown, next=following))


def status_of(flow: Flow) -> WorkflowStatus:
    if flow.run.closing is None:
        return WorkflowStatus.WAITING
    return WorkflowStatus.CLOSING if flow.saga is None else WorkflowStatus.ROLLING_BACK


def _info(state: SchedulerState, flow: Flow, now: Now) -> WorkflowInfo:
    reasons = [reason.text for reason in explain(state, flow.run, now)]
    return copy_fields(
        WorkflowInfo,
        flow.run,
        run_id=flow.run.id,
        status=status_of(flow),
        ended=len(flow.ended),
        live=len(flow.live),
        waits_for="; ".join(reasons),
    )

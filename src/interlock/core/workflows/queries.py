"""Answers from the scheduler's state to questions about workflow runs, and what they wait for."""

from collections.abc import Collection, Iterator
from heapq import nlargest
from itertools import islice

from interlock.core.state import SchedulerState
from interlock.core.workflows.flow import Flow, Flows, graph_of
from interlock.core.workflows.turn_table import Turns, explain_turn
from interlock.fields.duration import span
from interlock.fields.field import copy_fields
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.model.workflow import EVENT, PARALLEL
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
    limit = question.limit or 0
    found = nlargest(limit + 1, wanted)
    shown = [_info(state, state.of(Flows)[run_id], now) for run_id in found[:limit]]
    following = f"w{shown[-1].run_id}" if len(found) > limit else None
    return ValueAnswer(question.request, WorkflowPage(workflows=shown, next=following))


def status_of(flow: Flow) -> WorkflowStatus:
    if flow.run.closing is None:
        return WorkflowStatus.WAITING if flow.run.workflow_facet.halt is None else WorkflowStatus.HALTED
    return WorkflowStatus.CLOSING if flow.saga is None else WorkflowStatus.ROLLING_BACK


def _info(state: SchedulerState, flow: Flow, now: Now) -> WorkflowInfo:
    reasons = [reason.text for reason in explain(state, flow.run, now)]
    return copy_fields(
        WorkflowInfo,
        flow.run,
        run_id=flow.run.id,
        status=status_of(flow),
        is_function=flow.is_code,
        ended=len(flow.ended),
        live=len(flow.live),
        waits_for="; ".join(reasons),
    )


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain what a run under way waits for: a time, or steps."""
    if run.state is not State.UNDER_WAY:
        return
    flow = state.of(Flows).get(run.id)
    if flow is None:
        yield from _explain_wait(state, run, now)
        return
    if flow.is_code and run.closing is None:
        yield from explain_turn(state, run)
        if not flow.live and flow.is_known and state.of(Turns).waits(run.id):
            return
    holders, named = _named(state, flow, flow.live)
    if run.closing is not None and flow.saga is not None:
        end = f"is to end as {run.closing.state} ({run.closing.reason})"
        text = f"{end}, and undoes its steps: {named or 'nothing'} now, {len(flow.saga):,} left"
    elif run.closing is not None:
        text = f"is to end as {run.closing.state} ({run.closing.reason}), and waits until {named or 'nothing'} stops"
    elif flow.live:
        text = f"waits for {'item' if flow.step is not None else 'step'} {named}"
    else:
        text = "waits until its record or its results are read from the store"
    yield Reason(kind=ReasonKind.STEPS, text=text, holders=holders, since=run.started_at)


def _explain_wait(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain what a step without a worker waits for."""
    if run.due_at is not None:
        at = run.due_at + (state.jump(now) if state.machine.waits_for_span(run) else 0.0)
        text = f"sleeps, until {span(at - now.wall)} from now" if at > now.wall else "has slept, and goes on now"
        yield Reason(kind=ReasonKind.SCHEDULED_TIME, text=text, at=at)
    elif run.job_id == PARALLEL:
        yield from _explain_part(state, run)
    elif run.job_id == EVENT:
        name = run.id.rpartition("@event.")[2].rpartition(".")[0]
        text = f"waits for the event {name!r}; send it with: interlock event {run.parent} {name}"
        yield Reason(kind=ReasonKind.STEPS, text=text, since=run.started_at, at=run.deadline_at)


def _explain_part(state: SchedulerState, run: Run) -> Iterator[Reason]:
    above, closing = state.of(Flows)[run.parent or ""], run.closing
    holders, named = _named(state, above, above.live_in(graph_of(state, above).parts[above.name_of(run.id)]))
    text = f"waits for step {named or 'nothing'}"
    if closing is not None:
        text = f"is to end as {closing.state} ({closing.reason}), and waits until {named or 'nothing'} stops"
    yield Reason(kind=ReasonKind.STEPS, text=text, holders=holders, since=run.started_at)


def _named(state: SchedulerState, flow: Flow, live: Collection[str]) -> tuple[list[str], str]:
    """Return the ids of the first of these steps, and a text that names them."""
    holders = [flow.id_of(name) for name in islice(live, MOST_NAMED)]
    named = ", ".join(f"{name} ({_state(state, flow.id_of(name))})" for name in islice(live, MOST_NAMED))
    return holders, named + (f" and {len(live) - MOST_NAMED:,} more" if len(live) > MOST_NAMED else "")


def _state(state: SchedulerState, run_id: str) -> str:
    return str(state.runs[run_id].state) if run_id in state.runs else "waits for its scan"

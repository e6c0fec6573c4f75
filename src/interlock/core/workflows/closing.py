"""The end of a workflow, and of a parallel step of one.

First the end is decided: the run is *closing*. Then its live steps are cancelled, and have really stopped. Then its
state changes. Nothing starts after closing but compensations and steps that follow errors.
"""

from msgspec.structs import replace

from interlock.core import output
from interlock.core.attempts.settle import cancel_run
from interlock.core.transition import Pass
from interlock.core.workflows import saga
from interlock.core.workflows.flow import Flow, Flows, graph_of
from interlock.core.workflows.graph import after_errors
from interlock.core.workflows.start import skip_rest, start_all
from interlock.core.workflows.turn_table import Turns, detach
from interlock.core.workflows.values import Scope
from interlock.model.facets import Closing
from interlock.model.failure import Outcome
from interlock.model.run import Run
from interlock.model.state import State
from interlock.model.workflow import PARALLEL, Workflow

TOO_MANY = "too many steps"
_OUTCOMES = {State.CANCELLED: Outcome.CANCELLED, State.TIMEOUT: Outcome.TIMEOUT}
_ROLLS_BACK = (State.FAILED, State.TIMEOUT, State.DENIED)


def succeed(p: Pass, flow: Flow, result: bytes) -> None:
    run = flow.run
    run.result, run.outcome = result, Outcome.SUCCEEDED
    if not output.withhold(p, run, None):
        p.move(run, State.SUCCEEDED, "done")


def stop(p: Pass, run: Run, state: State, reason: str, actor: str) -> bool:
    """Cancel or time out a run under way: a workflow or a parallel step closes, and a step that waits for a time
    ends."""
    flows = p.state.of(Flows)
    if (flow := flows.get(run.id)) is not None:
        return close(p, flow, state, reason, actor)
    if run.job_id == PARALLEL:
        return close(p, flows[run.parent or ""], state, reason, actor, part=run)
    run.outcome = _OUTCOMES[state]
    p.move(run, state, reason, actor)
    return True


def close(
    p: Pass,
    flow: Flow,
    state: State,
    reason: str,
    actor: str = "scheduler",
    error: str | None = None,
    keeps: tuple[str, ...] = (),
    compensate: bool = False,
    part: Run | None = None,
) -> bool:
    """Decide the end of a workflow, or of a part of it, and cancel its live steps but those that follow errors. If the
    end is decided already, cancel those too; a rollback goes on."""
    run, flows = part or flow.run, p.state.of(Flows)
    flows.touched.update({flow.run.id: None, **flow.wakes})
    because = f"{'its workflow' if part is None else f'step {flow.name_of(run.id)!r}'} ends: {reason}"
    if (closing := run.closing) is not None:
        kept = [step for name in closing.keeps if (step := p.state.runs.get(flow.id_of(name))) is not None]
        if closing.keeps or (compensate and not closing.compensate):
            closing = replace(closing, keeps=(), compensate=compensate or closing.compensate)
            p.set_facet(run, workflow=replace(run.workflow_facet, closing=closing))
        stopped = [cancel_run(p, step, because, actor) for step in kept]
        return any(stopped)
    compensate = compensate or state in _ROLLS_BACK
    detach(p, run)
    p.state.of(Turns).stop_waiting(run.id)  # or it would hold up those that wait behind it
    closing = Closing(state, reason, actor, keeps, compensate, p.now)
    p.set_facet(run, workflow=replace(run.workflow_facet, closing=closing))
    run.error = error
    names = flow.live if part is None else flow.live_in(graph_of(p.state, flow).parts[flow.name_of(run.id)])
    for name, step in [(name, p.state.runs.get(flow.id_of(name))) for name in names if name not in keeps]:
        if step is not None:
            cancel(p, step, because, actor, compensate)
        elif part is None:  # its result is not scanned yet, and nobody needs it
            flows.unscanned.pop(flow.id_of(name), None)
            flow.live.pop(name, None)
    return True


def cancel(p: Pass, run: Run, reason: str, actor: str, compensate: bool) -> bool:
    """Cancel a run; with `compensate`, let a workflow undo its steps."""
    flow = p.state.of(Flows).get(run.id)
    if flow is None or not compensate or run.state is not State.UNDER_WAY:
        return cancel_run(p, run, reason, actor)
    return close(p, flow, State.CANCELLED, reason, actor, compensate=True)


def _follow_errors(p: Pass, flow: Flow, run: Run, closing: Closing, graph: Workflow) -> bool:
    """Start the steps that follow errors of those that run to their ends; return whether there are none."""
    live, ends = flow.known_steps()
    names = after_errors(graph, closing.keeps, live, ends)
    if not names:
        return True
    closing = replace(closing, keeps=tuple(dict.fromkeys([*closing.keeps, *names])))
    p.set_facet(run, workflow=replace(run.workflow_facet, closing=closing))
    start_all(p, flow, names, graph, Scope(flow, ends))
    return False


def end_if_stopped(p: Pass, flow: Flow, closing: Closing) -> None:
    run = flow.run
    if closing.keeps and not _follow_errors(p, flow, run, closing, graph_of(p.state, flow)):
        return
    is_over = not any(flow.id_of(name) in p.state.runs for name in flow.live)
    if is_over and closing.state is State.SUCCEEDED:
        succeed(p, flow, run.result or b"null")
    elif is_over and (not closing.compensate or saga.roll_back(p, flow)):
        _end(p, run, closing)


def end_part_if_stopped(p: Pass, flow: Flow, part: Run, closing: Closing, graph: Workflow) -> None:
    if closing.keeps and not _follow_errors(p, flow, part, closing, graph):
        return
    if not flow.live_in(graph):
        if flow.run.closing is None:
            skip_rest(p, flow, graph)
        _end(p, part, closing)


def _end(p: Pass, run: Run, closing: Closing) -> None:
    run.outcome = _OUTCOMES.get(closing.state, Outcome.FAILED)
    p.move(run, closing.state, closing.reason, closing.actor)

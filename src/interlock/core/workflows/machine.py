"""The machine of workflows: carry out what the graph orders.

The branches of a parallel step are steps of the same workflow; the run of the parallel step itself only begins before
them, ends after them, and closes if one of them fails.
"""

import msgspec

from interlock.core import output
from interlock.core.attempts.settle import runtimes
from interlock.core.part import for_special_runs
from interlock.core.state import LATE, SchedulerState
from interlock.core.transition import Pass
from interlock.core.workflows import saga
from interlock.core.workflows.closing import TOO_MANY, close, end_if_stopped, end_part_if_stopped, succeed
from interlock.core.workflows.code import belongs, group_step, is_code, know_step, note_completion, sort_steps
from interlock.core.workflows.flow import (
    LONGEST_ERROR,
    SCAN_LOOK,
    SMALL_RESULT,
    UNDO,
    EndedStep,
    Flow,
    Flows,
    NoRoom,
    StepEnd,
    graph_of,
    result_of,
)
from interlock.core.workflows.graph import orders
from interlock.core.workflows.start import ask_once, ask_results, job_for, skip_rest, start_all
from interlock.core.workflows.steps import StepOptions, StepsMade, run_job
from interlock.core.workflows.turn_table import Turns
from interlock.core.workflows.values import INPUT, NoValue, Scope, UnreadValue, references
from interlock.error import InterlockError
from interlock.fields import payload
from interlock.fields.duration import checked
from interlock.fields.safe_text import last_line
from interlock.fields.template import expressions
from interlock.model.facets import StepFacet
from interlock.model.failure import Outcome
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.model.workflow import GROUP, MOST_LEVELS, OnError, Then, Workflow
from interlock.wire.effect import ReadRecord

MOST_STEPS_A_PASS = 2000  # steps after which other workflows wait for the next pass
_GOES_ON = OnError(then=Then.CONTINUE)


def _begin(p: Pass, run: Run, order: int) -> None:
    """Start a workflow: its lane and session let it."""
    run.started_at = p.now
    job = p.state.job_of(run)
    for kind, longest in runtimes(job, run):
        p.state.set_span(p.elapsed + longest, run, kind)
    if (expected := job.constraints.max_expected_run_time) is not None:
        p.state.set_span(p.elapsed + checked(expected), run, LATE)
    flows = p.state.of(Flows)
    # A run that begins with a step has the steps before it in the store, and events may have come before it began.
    is_known = run.begins_with is None and not run.workflow_facet.has_events
    flow = flows.get(run.id) or Flow(run, order, is_known=is_known, is_code=is_code(job), placed=p.elapsed)
    flow.order, flow.may_undo = order, run.begins_with is not None
    flows[run.id] = flow
    flows.touched[run.id] = None
    if run.id.count("@") >= MOST_LEVELS:
        close(p, flow, State.FAILED, f"workflows are nested more than {MOST_LEVELS} levels deep")


@for_special_runs
def note_step(p: Pass, run: Run) -> None:
    """Tell the workflow of a step that the step has ended."""
    flows, step = p.state.of(Flows), run.step_facet
    if step is not None:
        flows.count(run.id, -1)
        flows.moved.append(run)
        if step.undo is not None or run.state is not State.SUCCEEDED:
            saga.record(p, run, step)
        note_completion(p, run)
    flows.drop(run.id)


def note_end(p: Pass, run: Run) -> None:
    """Forget a workflow that is under way no longer."""
    p.state.of(Turns).forget(run.id)
    p.state.of(Flows).drop(run.id)


def settle(p: Pass, leaving: list[Run]) -> None:
    """Let workflows go on whose steps have ended, or which have got what they waited for."""
    flows = p.state.of(Flows)
    while flows.starting:
        _begin(p, *flows.starting.pop(0))
    if flows.unscanned:
        _note_scans(p, flows)
    if flows.moved:
        moved, flows.moved = flows.moved, []
        for run in moved:
            flow = flows.get(run.parent or "")
            if flow is not None:
                _note_end(p, flows, flow, run)
    _go_on(p, flows)


def _go_on(p: Pass, flows: Flows) -> None:
    """Let workflows go on until nothing follows, or until the pass has made its steps: the rest wait for the next."""
    made = p.of(StepsMade)
    while flows.touched and made.count < MOST_STEPS_A_PASS:
        touched, flows.touched = flows.touched, {}
        for run_id in touched:
            if made.count >= MOST_STEPS_A_PASS:
                flows.touched[run_id] = None
            elif (flow := flows.get(run_id)) is not None and flow.run.state is State.UNDER_WAY:
                try:
                    _proceed(p, flow)
                except NoRoom as error:
                    close(p, flow, State.FAILED, TOO_MANY, error=str(error))
                if flow.read and run_id not in flows.turning:
                    flow.read.clear()


def _note_scans(p: Pass, flows: Flows) -> None:
    if not p.state.of(output.Scans).are_made:
        unscanned, flows.unscanned = flows.unscanned, {}
        for flow in (flows[run_id] for run_id in dict.fromkeys(unscanned.values()) if run_id in flows):
            flow.is_known = False
            flows.touched[flow.run.id] = None
        return
    for run_id in list(flows.unscanned):
        run = p.marked.get(run_id) or p.changed.get(run_id)
        if run is not None and not run.is_unscanned:
            del flows.unscanned[run_id]
            flows.moved.append(run)


def _note_end(p: Pass, flows: Flows, flow: Flow, run: Run) -> None:
    flows.touched[flow.run.id] = None
    name = flow.name_of(run.id)
    if flow.is_code and not name.startswith(UNDO) and not belongs(flow, name):
        flow.live.pop(name, None)  # of an earlier round
        return
    if run.state is State.SUCCEEDED and run.is_unscanned and p.state.of(output.Scans).are_made:
        flows.unscanned[run.id] = flow.run.id
        return
    result = result_of(run)
    if result is not None and len(result) > SMALL_RESULT:
        flow.read[name] = result
    error = "" if run.state is State.SUCCEEDED else last_line(run.error) or run.reason
    _add(flow, name, run.state, result, error, run.ended_at or p.now)


def _add(
    flow: Flow, name: str, state: State, result: bytes | None, error: str, at: float, is_stored: bool = False
) -> None:
    if result is not None and len(result) > SMALL_RESULT:
        result, is_stored = None, True
    flow.live.pop(name, None)
    end = flow.ended[name] = StepEnd(state, result, is_stored, error[:LONGEST_ERROR], at)
    if flow.step is not None and not end.is_done and flow.failed_item is None:
        flow.failed_item = name


def _proceed(p: Pass, flow: Flow) -> None:
    closing = flow.run.workflow_facet.closing
    if not flow.is_known and (closing is None or closing.keeps):
        ask_once(p, ReadRecord(flow.run.id, flow.run.seq, flow.placed))
        return
    graph = None if flow.step is not None or flow.is_code else graph_of(p.state, flow)
    for name, inside in graph.parts.items() if graph is not None else ():
        if name in flow.live and (part := p.state.runs.get(flow.id_of(name))) is not None:
            _follow_part(p, flow, part, name, inside)
    if closing is not None:
        end_if_stopped(p, flow, closing)
    elif flow.is_code:
        p.state.of(Flows).turning[flow.run.id] = None
    elif graph is not None:
        _follow_graph(p, flow, graph)
    else:
        _follow_group(p, flow)


def _follow_graph(p: Pass, flow: Flow, graph: Workflow) -> None:
    live, ends = flow.known_steps()
    found, scope = orders(graph, live, ends), Scope(flow, ends)
    if not start_all(p, flow, found.start, graph, scope):
        return
    if found.failed is not None:
        _fail(p, flow, found.failed, ends[found.failed], found.keeps)
    elif found.is_done:
        try:
            succeed(p, flow, payload.encode_result(scope.fill(graph.result, "result")))
        except UnreadValue:
            ask_results(p, flow, references(text for _, text in expressions(graph.result)))
        except (NoValue, InterlockError) as error:
            close(p, flow, State.FAILED, "has no result", error=str(error))


def _follow_part(p: Pass, flow: Flow, part: Run, name: str, inside: Workflow) -> None:
    """Let the branches of a parallel step go on, and end it when they are over."""
    if part.closing is not None:
        end_part_if_stopped(p, flow, part, part.closing, inside)
        return
    goes_on = graph_of(p.state, flow).by_id[name].on_error == _GOES_ON
    live, ends = flow.known_steps()
    found = orders(inside, [step for step in inside.by_id if step in live], ends, goes_on)
    if not start_all(p, flow, found.start, inside, Scope(flow, ends)):
        return
    if found.failed is not None:
        _fail(p, flow, found.failed, ends[found.failed], found.keeps, part)
    elif found.is_done:
        skip_rest(p, flow, inside)
        part.outcome = Outcome.SUCCEEDED
        p.move(part, State.SUCCEEDED, "done")


def _fail(p: Pass, flow: Flow, name: str, end: StepEnd, keeps: tuple[str, ...] = (), part: Run | None = None) -> None:
    """Close what fails with the end of a step, or with that of an item."""
    state = State.DENIED if end.state is State.DENIED else State.FAILED
    how = "timed out" if end.state is State.TIMEOUT else end.state
    was = "was " * (end.state in (State.DENIED, State.CANCELLED))
    reason = f"{f'item {name}' if flow.step is not None else f'step {name!r}'} {was}{how}"
    close(p, flow, state, reason, error=f"{reason}: {end.error}", keeps=keeps, part=part)


def _follow_group(p: Pass, flow: Flow) -> None:
    flows, step, facet = p.state.of(Flows), flow.step, flow.run.facets and flow.run.facets.step
    assert step is not None
    assert isinstance(facet, StepFacet)
    count = facet.items or 0
    if flow.failed_item is not None and step.on_error != _GOES_ON:
        _fail(p, flow, flow.failed_item, flow.ended[flow.failed_item])
        return
    made = len(flow.live) + len(flow.ended)
    if made < count and flow.items is None:
        content = flow.read.get(INPUT) or flow.run.payload
        if content is None:
            ask_results(p, flow, [INPUT])
            return
        flow.items = [bytes(item) for item in msgspec.json.decode(content, type=list[msgspec.Raw])]
    while made < count and len(flow.live) < step.max_parallel:
        assert flow.items is not None
        flows.check_room(flow.run)
        try:
            arguments = msgspec.json.decode(flow.items[made])
            run_job(p, flow, str(made), job_for(p, flow, step), arguments, StepOptions(undo=step.undo))
        except InterlockError as error:
            close(p, flow, State.FAILED, f"item {made} could not start", error=str(error))
            return
        made += 1
    if made == count and not flow.live:
        _end_group(p, flow, count)


def _end_group(p: Pass, flow: Flow, count: int) -> None:
    """Join the results of all items; that of an item without one is null."""
    ends = [(str(index), flow.ended[str(index)]) for index in range(count)]
    unread = [name for name, end in ends if end.is_stored and name not in flow.read]
    if unread:
        ask_results(p, flow, (name for name, end in ends if end.is_stored))
        return
    result = b"[%s]" % b",".join(flow.read.get(name) or end.result or b"null" for name, end in ends)
    if len(result) > payload.LIMIT:
        text = f"result: the items give {len(result):,} bytes; at most {payload.LIMIT:,} are allowed"
        close(p, flow, State.FAILED, "has no result", error=text)
    else:
        succeed(p, flow, result)


def wake(p: Pass, run: Run) -> None:
    """End a sleep."""
    run.outcome = Outcome.SUCCEEDED
    p.move(run, State.SUCCEEDED, "time passed")


def look(p: Pass, run: Run) -> None:
    """Let a run under way go on if it can, after a restart too."""
    flows = p.state.of(Flows)
    flow = flows.get(run.id)
    if flow is None:
        if run.due_at is not None and run.due_at <= p.now and not p.state.machine.waits_for_span(run):
            wake(p, run)
        return
    if any(flow.id_of(name) in flows.unscanned for name in flow.live):
        flow.is_known = False
    flows.touched[run.id] = None


def look_again(p: Pass, run: Run) -> None:
    """Read the record of a workflow again, because nothing moves it."""
    flow = p.state.of(Flows).get(run.id)
    if flow is not None:
        flow.is_known = False
        look(p, run)


def record_read(p: Pass, run: Run, answer: list[EndedStep]) -> None:
    flows = p.state.of(Flows)
    flow = flows[run.id]
    flow.is_known = True
    for end in answer:
        name = flow.name_of(end.run_id)
        if not end.run_id.startswith(flow.id_of("")) or "@" in name or name in flow.ended:
            continue
        if flow.is_code and not name.startswith(UNDO) and not know_step(flow, name, end.facet):
            continue
        if end.state is State.SUCCEEDED and end.is_unscanned and p.state.of(output.Scans).are_made:
            flow.live[name] = None
            flows.unscanned[end.run_id] = run.id
            p.state.set_timer(p.now + SCAN_LOOK, run)  # the scan may have been reported meanwhile
            continue
        flows.unscanned.pop(end.run_id, None)
        _add(flow, name, end.state, end.result, end.error, end.at, end.has_result and end.result is None)
    if flow.is_code:
        sort_steps(flow, answer)
    flows.touched.update({run.id: None, **flow.wakes})
    flow.wakes.clear()


def results_read(p: Pass, run: Run, answer: dict[str, bytes]) -> None:
    flows = p.state.of(Flows)
    flow = flows[run.id]
    flow.read.update({flow.name_of(run_id): value for run_id, value in answer.items()})
    flows.touched[run.id] = None


def place(state: SchedulerState, run: Run, now: Now) -> None:
    """Know a stored run again: as a workflow whose record is to be read, and as a step of one."""
    if run.state is not State.UNDER_WAY and not run.is_step:
        return
    flows = state.of(Flows)
    above = flows.get(run.parent or "") if run.is_step else None
    if run.is_step:
        flows.count(run.id, 1)
    if above is not None:
        above.live[above.name_of(run.id)] = None
        if above.is_code:
            know_step(above, above.name_of(run.id), run.step_facet)
    if run.state is not State.UNDER_WAY:
        return
    order = state.arrival() if above is None else above.order
    if above is not None and (each := group_step(run)) is not None:
        flows[run.id] = Flow(run, order, each, is_known=False, placed=now.elapsed)
    elif run.job_id == GROUP and above is not None:
        step = graph_of(state, above).by_id[above.name_of(run.id)]
        flows[run.id] = Flow(run, order, step, is_known=False, placed=now.elapsed)
    elif (workflow := (job := state.job_of(run)).workflow) is not None:
        run.worker_id = None  # a turn of the time before does not count
        undoes = is_code(job) or any(step.compensate is not None for step in workflow.by_id.values())
        flows[run.id] = Flow(run, order, is_known=False, is_code=is_code(job), placed=now.elapsed, may_undo=undoes)

"""Carry out the orders of a turn. Each may be repeated: a step that exists is not started again."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from interlock.core.attempts.settle import cancel_run
from interlock.core.transition import Pass
from interlock.core.workflows.closing import TOO_MANY, close, succeed
from interlock.core.workflows.code import is_of_round, step_of
from interlock.core.workflows.events import NotKnown, flow_of, send_event, wait_for_event
from interlock.core.workflows.flow import BUILT_IN, EVENT_RUN, Flow, Flows, NoRoom
from interlock.core.workflows.steps import (
    StepOptions,
    ask_person,
    checked_undo,
    keep_value,
    make_ended,
    run_group,
    run_job,
    sleep,
    sleep_until,
)
from interlock.error import BadUse, InterlockError
from interlock.fields.payload import fault_of
from interlock.fields.safe_text import last_line
from interlock.fields.secret import from_json
from interlock.model.facets import GroupJob, StepFacet
from interlock.model.job import Job
from interlock.model.state import State
from interlock.model.workflow import APPROVAL, EVENT, ROUND, SEND, SLEEP, UNDO_LATER, Undo
from interlock.model.workflow_record import MOST_STEPS_A_ROUND
from interlock.wire import turn as t

MOST_CHANGES = 100  # names of `changed`
MOST_PUBLISHED = 16 * 1024  # bytes of the published values
LONGEST_REASON = 200
_ARGUMENTS = msgspec.json.Decoder(dict[str, Any] | None)  # made once: making one takes longer than decoding


def carry_out(p: Pass, flow: Flow, order: t.Order) -> None:
    """Carry out one order. A step that cannot start is a failed run."""
    _ACTS[type(order)](p, flow, order)


def _start(p: Pass, flow: Flow, order: Any) -> None:
    name = f"{flow.round_prefix}{order.name}"
    if name in flow.asked:
        return
    if len(flow.asked) >= MOST_STEPS_A_ROUND:
        text = f"steps: more than {MOST_STEPS_A_ROUND:,} in one round; use continue_as_new"
        close(p, flow, State.FAILED, TOO_MANY, error=text)
        return
    try:
        p.state.of(Flows).check_room(flow.run)
        _STARTS[type(order)](p, flow, name, order)
    except NoRoom as error:
        close(p, flow, State.FAILED, TOO_MANY, error=str(error))
    except (InterlockError, msgspec.MsgspecError) as error:
        built_in = _BUILT_IN.get(type(order))
        job = BUILT_IN[built_in] if built_in else p.state.jobs.get(order.job) or Job(id=order.job)
        make_ended(p, flow, name, job, State.FAILED, "could not start", str(error))


def _run(p: Pass, flow: Flow, name: str, order: t.StartStep) -> None:
    undo = None if order.undo is None else Undo(order.undo.job, order.undo.arguments)
    run_job(p, flow, name, p.state.job(order.job), _arguments(order.payload), StepOptions(order.timeout, undo))


def _group(p: Pass, flow: Flow, name: str, order: t.StartGroup) -> None:
    p.state.job(order.job)
    undo = None if order.undo is None else Undo(order.undo.job, order.undo.arguments)
    of_each = GroupJob(order.job, order.max_parallel, undo)
    each = step_of(of_each)
    run = run_group(p, flow, name, each, map(_arguments, order.items), StepOptions())
    facet = StepFacet(flow.asked[name], len(order.items), of_each=of_each)
    p.set_facet(run, step=facet)


def _arguments(data: msgspec.Raw) -> dict[str, Any]:
    found = _ARGUMENTS.decode(data)
    return {} if found is None else from_json(found)


def _sleep(p: Pass, flow: Flow, name: str, order: t.Sleep) -> None:
    if order.until is not None:
        sleep_until(p, flow, name, order.until)
    else:
        sleep(p, flow, name, order.seconds or 0.0)


def _ask(p: Pass, flow: Flow, name: str, order: t.AskPerson) -> None:
    ask_person(p, flow, name, order.question, from_json(msgspec.json.decode(order.data)), order.timeout)


def _wait(p: Pass, flow: Flow, name: str, order: t.WaitForEvent) -> None:
    wait_for_event(p, flow, name, order.event, StepOptions(order.timeout))


def _send(p: Pass, flow: Flow, name: str, order: t.SendTo) -> None:
    value = bytes(order.value)
    if (fault := fault_of(value, "value")) is not None:
        raise BadUse("value", fault.removeprefix("value: "))
    send_event(p, flow, name, order.to, order.event, value)


def can_carry_out(p: Pass, flow: Flow, orders: list[Any]) -> bool:
    """Return whether the records of all workflows are known to which these orders send events. If not, the workflow is
    touched when they are."""
    for to in (order.to for order in orders if isinstance(order, t.SendTo)):
        target = p.state.runs.get(to)
        if target is None or target.closing is not None or p.state.job_of(target).workflow is None:
            continue
        try:
            flow_of(p, target)
        except NotKnown:
            p.state.of(Flows)[to].wakes[flow.run.id] = None
            return False
    return True


def _compensate(p: Pass, flow: Flow, order: t.Compensate) -> None:
    """Put a compensation on the saga that belongs to no step. It has the capabilities of the workflow at most."""
    name = f"undo.{flow.run.workflow_facet.round}.{order.number}"
    try:
        undo = checked_undo(p, flow, p.state.job_of(flow.run), Undo(order.undo.job, order.undo.arguments))
    except InterlockError as error:
        close(p, flow, State.FAILED, "cannot be undone", error=str(error))
        return
    keep_value(p, flow, name, BUILT_IN[UNDO_LATER], b"null", f"undone by {order.undo.job}", StepOptions(undo=undo))


def _cancel(p: Pass, flow: Flow, order: t.CancelSteps) -> None:
    for name in order.names:
        if (run := p.state.runs.get(flow.id_of_step(f"{flow.round_prefix}{name}"))) is not None:
            cancel_run(p, run, "its workflow does not need it any more", "scheduler")


def _publish(p: Pass, flow: Flow, order: t.Publish) -> None:
    facet = flow.run.workflow_facet
    published = {**(facet.published or {}), order.name: msgspec.json.decode(order.value)}
    if (size := len(msgspec.json.encode(published))) > MOST_PUBLISHED:
        text = f"publish: {size:,} bytes of published values; at most {MOST_PUBLISHED:,} are allowed"
        close(p, flow, State.FAILED, "too much is published", error=text)
    else:
        p.set_facet(flow.run, workflow=replace(facet, published=published))


def _note_change(p: Pass, flow: Flow, order: t.NoteChange) -> None:
    facet = flow.run.workflow_facet
    if order.name in facet.changes:
        return
    if len(facet.changes) >= MOST_CHANGES:
        text = f"changed: more than {MOST_CHANGES:,} names in one round; use continue_as_new"
        close(p, flow, State.FAILED, "too many changes", error=text)
    else:
        p.set_facet(flow.run, workflow=replace(facet, changes=(*facet.changes, order.name)))


def _finish(p: Pass, flow: Flow, order: t.Finish) -> None:
    result = bytes(order.result)
    if (fault := fault_of(result, "result")) is not None:
        close(p, flow, State.FAILED, "has no result", error=fault)
    elif flow.live:
        flow.run.result = result
        close(p, flow, State.SUCCEEDED, "done")
    else:
        succeed(p, flow, result)


def _fail(p: Pass, flow: Flow, order: t.Fail) -> None:
    p.set_facet(flow.run, failure=order.failure)
    state = State.DENIED if order.state is State.DENIED else State.FAILED
    reason = last_line(order.error) or "failed"
    close(p, flow, state, reason[:LONGEST_REASON], error=order.error)


def _next_round(p: Pass, flow: Flow, order: t.NextRound) -> None:
    """Begin a round with a record of its own. Steps of the round before that still run are cancelled."""
    run, facet = flow.run, flow.run.workflow_facet
    for name in list(flow.live):
        if (step := p.state.runs.get(flow.id_of(name))) is not None:
            cancel_run(p, step, "its workflow begins another round", "scheduler")
    number, read_before = facet.round + 1, dict(facet.read_before)
    for name in facet.waits.values():
        event, _, last = name.removeprefix(EVENT_RUN).rpartition(".")
        read_before[event] = max(read_before.get(event, 0), int(last))
    following = replace(facet, round=number, began_at=p.now, seen=None, changes=(), waits={}, places={})
    p.set_facet(run, workflow=replace(following, read_before=read_before))
    unread = (name for name in flow.ended if name.startswith(EVENT_RUN) and is_of_round(flow, name))
    flow.asked, flow.ended, flow.completed = {}, {name: flow.ended[name] for name in unread}, {}
    keep_value(p, flow, f"r{number}", BUILT_IN[ROUND], bytes(order.payload), f"round {number}")


_STARTS: dict[type, Callable[[Pass, Flow, str, Any], None]] = {
    t.StartStep: _run,
    t.StartGroup: _group,
    t.Sleep: _sleep,
    t.AskPerson: _ask,
    t.WaitForEvent: _wait,
    t.SendTo: _send,
}
_BUILT_IN: dict[type, str] = {t.Sleep: SLEEP, t.AskPerson: APPROVAL, t.WaitForEvent: EVENT, t.SendTo: SEND}
_ACTS: dict[type, Callable[[Pass, Flow, Any], None]] = {
    **dict.fromkeys(_STARTS, _start),
    t.CancelSteps: _cancel,
    t.Compensate: _compensate,
    t.Publish: _publish,
    t.NoteChange: _note_change,
    t.Finish: _finish,
    t.Fail: _fail,
    t.NextRound: _next_round,
    t.Halt: lambda p, flow, order: None,
}

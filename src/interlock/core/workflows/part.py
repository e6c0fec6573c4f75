"""Workflows, as a part of the machine."""

from collections.abc import Iterator
from itertools import islice

from interlock.core.part import Part, Wait, ends, leaves
from interlock.core.state import SchedulerState
from interlock.core.workflows import machine, saga
from interlock.core.workflows.flow import Flows
from interlock.fields.duration import span
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.run import Now, Run
from interlock.model.state import State
from interlock.wire.effect import ReadRecord, ReadResults, ReadSaga


def explain(state: SchedulerState, run: Run, now: Now) -> Iterator[Reason]:
    """Explain what a run under way waits for: a time, or steps."""
    if run.state is not State.UNDER_WAY:
        return
    flow = state.of(Flows).get(run.id)
    if flow is None:
        if run.due_at is not None:
            at = run.due_at + (state.jump(now) if state.machine.waits_for_span(run) else 0.0)
            text = f"sleeps, until {span(at - now.wall)} from now" if at > now.wall else "has slept, and goes on now"
            yield Reason(kind=ReasonKind.SCHEDULED_TIME, text=text, at=at)
        return
    holders = [flow.id_of(name) for name in islice(flow.live, MOST_NAMED)]
    named = ", ".join(f"{name} ({_state(state, flow.id_of(name))})" for name in islice(flow.live, MOST_NAMED))
    more = f" and {len(flow.live) - MOST_NAMED:,} more" if len(flow.live) > MOST_NAMED else ""
    if run.closing is not None and flow.saga is not None:
        end = f"is to end as {run.closing.state} ({run.closing.reason})"
        text = f"{end}, and undoes its steps: {named or 'nothing'} now, {len(flow.saga):,} left"
    elif run.closing is not None:
        text = (
            f"is to end as {run.closing.state} ({run.closing.reason}), and waits until {named or 'nothing'}{more} stops"
        )
    elif flow.live:
        text = f"waits for {'item' if flow.step is not None else 'step'} {named}{more}"
    else:
        text = "waits until its record is read from the store"
    yield Reason(kind=ReasonKind.STEPS, text=text, holders=holders, since=run.started_at)


def _state(state: SchedulerState, run_id: str) -> str:
    return str(state.runs[run_id].state) if run_id in state.runs else "waits for its scan"


WORKFLOWS = Part(
    name="workflows",
    slices=(Flows,),
    appliers={ReadRecord: machine.record_read, ReadResults: machine.results_read, ReadSaga: saga.saga_read},
    on=((ends, machine.note_step), (leaves(State.UNDER_WAY), machine.note_end)),
    settles=(machine.settle,),
    stops={State.UNDER_WAY: machine.stop},
    waits={
        State.UNDER_WAY: Wait(machine.wake, machine.sleeps_for_span, lambda run, job: run.delay or 0.0),
    },
    looks={State.UNDER_WAY: machine.look},
    places=(machine.place,),
    explains=(explain,),
)

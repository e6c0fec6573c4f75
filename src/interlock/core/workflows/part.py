"""Workflows, as a part of the machine."""

from interlock.core.facts import needs_run
from interlock.core.part import Part, Wait, ends, leaves
from interlock.core.workflows import closing, events, machine, queries, saga, turns
from interlock.core.workflows.flow import Flows
from interlock.core.workflows.turn_table import TURN, Turns
from interlock.model.state import State
from interlock.wire.effect import ReadRecord, ReadResults, ReadSaga
from interlock.wire.event_request import SendEvent
from interlock.wire.workflow_request import ActOnWorkflow, AskWorkflows

WORKFLOWS = Part(
    name="workflows",
    slices=(Flows, Turns),
    answers={AskWorkflows: queries.page},
    handlers={SendEvent: events.send, ActOnWorkflow: turns.act},
    needs={SendEvent: events.send_needs, ActOnWorkflow: needs_run},
    asks=(events.ask_for_inbox,),
    hears=(events.read_inbox,),
    appliers={ReadRecord: machine.record_read, ReadResults: machine.results_read, ReadSaga: saga.saga_read},
    on=((ends, machine.note_step), (leaves(State.UNDER_WAY), machine.note_end)),
    settles=(turns.settle,),
    fires=(turns.hand_out,),
    alarms={TURN: turns.too_long},
    stops={State.UNDER_WAY: closing.stop},
    waits={
        State.UNDER_WAY: Wait(machine.wake, lambda run: run.delay is not None, lambda run, job: run.delay or 0.0),
    },
    looks={State.UNDER_WAY: machine.look},
    places=((frozenset(State), machine.place),),
    has_more=(lambda state: bool(state.of(Flows).touched),),
    explains=(queries.explain,),
)

"""Lanes and gates, as a part of the machine."""

from interlock.core.jobs.queries import lanes
from interlock.core.lanes import changes, fill, gates
from interlock.core.lanes.gate import GATE
from interlock.core.part import Part, frees_slot, leaves, takes_slot
from interlock.model.state import HOLDS_SLOT, TERMINAL, State
from interlock.wire.lane_request import ActOnLane, AskLanes, CreateLane, SetLane

LANES = Part(
    name="lanes",
    handlers={CreateLane: changes.create, SetLane: changes.set_values, ActOnLane: changes.act},
    answers={AskLanes: lanes},
    begins=(gates.note_value,),
    on=(
        (takes_slot, fill.take),
        (frees_slot, fill.free),
        (leaves(State.SCHEDULED, to=TERMINAL | {State.PENDING}), fill.leave_queue),
    ),
    settles=(fill.forget,),
    alarms={GATE: gates.ring},
    jumps=(gates.follow_wall_clock,),
    loads=(changes.load, gates.load),
    places=((HOLDS_SLOT, fill.place),),
    explains=(fill.explain, fill.explain_turn),
    closes=(fill.fill,),
)

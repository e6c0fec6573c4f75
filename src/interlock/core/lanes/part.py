"""Lanes and gates, as a part of the machine."""

from interlock.core.lanes import changes, fill, gates, slots
from interlock.core.lanes.gate import GATE
from interlock.core.part import Part, frees_slot, leaves, takes_slot
from interlock.model.state import TERMINAL, State
from interlock.wire.lane_request import ActOnLane, CreateLane, SetLane

LANES = Part(
    name="lanes",
    handlers={CreateLane: changes.create, SetLane: changes.set_values, ActOnLane: changes.act},
    begins=(gates.note_value,),
    on=(
        (takes_slot, slots.take),
        (frees_slot, slots.free),
        (leaves(State.SCHEDULED, to=TERMINAL | {State.PENDING}), slots.leave_queue),
    ),
    settles=(slots.forget,),
    alarms={GATE: gates.ring},
    jumps=(gates.follow_wall_clock,),
    loads=(changes.load, gates.load),
    places=(slots.place,),
    explains=(fill.explain,),
    closes=(fill.fill,),
)

"""Constraints, as a part of the machine."""

from interlock.core.guards import constraints, job_guard
from interlock.core.guards.job_guard import Guards
from interlock.core.part import Part, Wait, always, leaves
from interlock.core.state import LATE
from interlock.model.state import State
from interlock.wire.effect import CallHook, ReadPrevious

GUARDS = Part(
    name="guards",
    slices=(Guards,),
    appliers={ReadPrevious: constraints.previous_read, CallHook: constraints.hook_answered},
    stages=(constraints.constrain,),
    on=((leaves(State.SCHEDULED, to=frozenset({State.PENDING})), constraints.give_up_place),),
    settles=(constraints.settle,),
    waits={State.ACTION_RUNNING: Wait(constraints.check_again, always, job_guard.longest_wait)},
    looks={State.CONDITION_RUNNING: constraints.ask},
    spans={LATE: constraints.late},
    loads=(job_guard.load,),
    adopts=(job_guard.adopt,),
    explains=(constraints.explain,),
    closes=(job_guard.forget_unused,),
)

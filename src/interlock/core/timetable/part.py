"""The timetable, as a part of the machine."""

from interlock.core.facts import Snapshot
from interlock.core.part import Part
from interlock.core.recovery import rebuild
from interlock.core.state import SchedulerState
from interlock.core.timetable import occurrences, series
from interlock.model.run import Now
from interlock.model.state import State


def _load(state: SchedulerState, snapshot: Snapshot, now: Now) -> None:
    state.timetable.rows = {row[0]: row for row in snapshot.schedules}


TIMETABLE = Part(
    name="timetable",
    asks=(occurrences.needs_unsure,),
    loads=(_load, rebuild.load),
    places=((frozenset(State), series.place),),
    explains=(series.explain,),
    fires=(occurrences.fire,),
    closes=(occurrences.fire_ahead,),
    next_looks=(occurrences.next_look,),
)
# Behind the guards, whose actions may start a job that is removed after its only run.
SERIES = Part(name="series", settles=(series.settle,))

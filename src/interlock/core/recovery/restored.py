"""A store that went back in time by a restore: no run of the lost time is taken for a new one.

A worker may still execute a run of the lost time, and report it. Occurrences have the same id again, so each run gets
fences that the lost time cannot have used: they begin at the milliseconds of the restore. Fire times before the
restore are recorded as missed, because their runs may have been executed.
"""

from typing import TYPE_CHECKING

from interlock.core.snapshot import Snapshot
from interlock.model.run import Now

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState

AT = "restored:at"  # name of the memo with the time of the last restore
POSITION = "restored:position"  # likewise with the highest position that the lost time can have used


def first_fence(at: float) -> int:
    return int(at * 1000)


def load(state: "SchedulerState", snapshot: Snapshot, now: Now) -> None:
    if AT in snapshot.memos:
        state.timetable.restored_at = float(snapshot.memos[AT])
        state.numbers.first_fence = first_fence(state.timetable.restored_at)

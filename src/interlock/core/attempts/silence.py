"""Silence: when to look for workers and attempts that give no sign of life."""

from typing import TYPE_CHECKING

import msgspec

from interlock.core.routing.roster import Worker

if TYPE_CHECKING:
    from interlock.core.state import SchedulerState


class Silence(msgspec.Struct):
    due: float | None = None  # elapsed time of the next check
    stale_messages: int = 0


def end_silence(state: "SchedulerState", worker: Worker) -> None:
    worker.silent = False
    state.roster.changed(worker)
    watch_silence(state, worker.heard)


def watch_silence(state: "SchedulerState", since: float) -> None:
    silence, due = state.of(Silence), since + state.limits.silence
    if silence.due is None or due < silence.due:
        silence.due = due

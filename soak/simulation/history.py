"""Histories of runs, replayed to prove that they join."""

from collections.abc import Sequence
from typing import Protocol

from interlock.model.state import State


class Step(Protocol):
    """An entry of a history, as a `Transition` or as shown to people."""

    @property
    def seq(self) -> int: ...
    @property
    def before(self) -> State | None: ...
    @property
    def after(self) -> State: ...


def replay(history: Sequence[Step]) -> State | None:
    """Return the state that a history ends in; raise where two entries do not join."""
    state: State | None = None
    for place, entry in enumerate(history, start=1):
        if entry.before is not state or entry.seq != place:
            raise ValueError(f"entry {entry.seq} starts at {entry.before}, the history is at {state}")
        state = entry.after
    return state

"""A page of events, in any store."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from interlock.ports.store import MOST_EVENT_BYTES, MOST_LOOKED_AT, EventFilter

E = TypeVar("E")


def last_position(wanted: EventFilter, after: int, newest: int) -> int:
    """Return the last position that one call looks at."""
    return newest if wanted.of_one else min(newest, after + MOST_LOOKED_AT)


def take(
    events: Iterable[E], limit: int, until: int, size_of: Callable[[E], int], position_of: Callable[[E], int]
) -> tuple[list[E], int]:
    """Return as many events as one answer may have, and the position up to which they are complete."""
    taken: list[E] = []
    size = 0
    for event in events:
        taken.append(event)
        size += size_of(event)
        if len(taken) == limit or size >= MOST_EVENT_BYTES:
            return taken, min(until, position_of(event))
    return taken, until

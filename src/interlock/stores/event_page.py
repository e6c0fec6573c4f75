"""A page of events, in any store."""

from collections.abc import Callable
from typing import Generic, TypeVar

from interlock.ports.store import MOST_EVENT_BYTES, MOST_LOOKED_AT, EventFilter

E = TypeVar("E")


def last_position(wanted: EventFilter, after: int, newest: int) -> int:
    """Return the last position that one call looks at."""
    return newest if wanted.of_one else min(newest, after + MOST_LOOKED_AT)


class EventPage(Generic[E]):
    """As many events as one answer may have, and the position up to which they are complete."""

    def __init__(self, limit: int, until: int, size_of: Callable[[E], int], position_of: Callable[[E], int]) -> None:
        self.events: list[E] = []
        self.until = until
        self._limit = limit
        self._size_of, self._position_of = size_of, position_of
        self._size = 0

    def add(self, event: E) -> bool:
        """Add the next event; return whether the page is full."""
        self.events.append(event)
        self._size += self._size_of(event)
        is_full = len(self.events) == self._limit or self._size >= MOST_EVENT_BYTES
        if is_full:
            self.until = min(self.until, self._position_of(event))
        return is_full

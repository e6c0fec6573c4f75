"""The rows of one service that wait to be stored, in order, with a mark where some were dropped."""

from collections import deque

import msgspec

from interlock.model.command import ServiceRow

MOST_CHANGES = 100  # changes that may wait; lines may until all services together exceed their share of memory
ROW_BYTES = 300  # memory of a row besides its text


class Waiting(msgspec.Struct, frozen=True):
    order: int  # order of arrival among the rows of all services
    row: ServiceRow
    size: int


class Backlog:
    def __init__(self, service: str) -> None:
        self._service = service
        self._lines: deque[Waiting] = deque()
        self._changes: deque[Waiting] = deque()  # apart, so that a flood of lines does not push them out
        self._last_number = 0
        self._dropped = 0  # since the last mark
        self._newest_dropped: Waiting | None = None
        self.size = 0  # bytes of the lines

    def __len__(self) -> int:
        return len(self._lines) + len(self._changes) + (self._newest_dropped is not None)

    def add_line(self, order: int, at: float, stream: str, text: str) -> None:
        line = self._waiting(order, at, stream, text, None)
        self._lines.append(line)
        self.size += line.size

    def add_change(self, order: int, at: float, text: str, change: bytes) -> int:
        """Return how many older changes were dropped for it."""
        self._changes.append(self._waiting(order, at, "status", text, change))
        too_many = len(self._changes) - MOST_CHANGES
        for _ in range(too_many):
            self._drop(self._changes.popleft())
        return max(0, too_many)

    def _waiting(self, order: int, at: float, stream: str, text: str, change: bytes | None) -> Waiting:
        # Grows over a restart too, unless the clock was set back.
        number = self._last_number = max(self._last_number + 1, int(at * 1e6))
        size = ROW_BYTES + len(text.encode()) + len(change or b"")
        return Waiting(order, (self._service, number, at, stream, text, change), size)

    def shed(self) -> int:
        """Drop the older half of the lines, and return how many."""
        count = (len(self._lines) + 1) // 2
        for _ in range(count):
            self.size -= self._lines[0].size
            self._drop(self._lines.popleft())
        return count

    def _drop(self, one: Waiting) -> None:
        if self._newest_dropped is None or self._newest_dropped.order < one.order:
            self._newest_dropped = one
        self._dropped += 1

    def take(self, most: int, most_bytes: int) -> list[Waiting]:
        """Remove and return the oldest rows in order, at least one if there is any."""
        taken: list[Waiting] = []
        size = 0
        while self and (not taken or (len(taken) < most and size < most_bytes)):
            taken.append(self._next())
            size += taken[-1].size
        return taken

    def _next(self) -> Waiting:
        ways = [(some[0].order, some) for some in (self._lines, self._changes) if some]
        gap = self._newest_dropped
        if gap is not None and all(gap.order < order for order, _ in ways):
            return self._mark(gap)
        _, some = min(ways, key=lambda way: way[0])
        if some is self._lines:
            self.size -= some[0].size
        return some.popleft()

    def _mark(self, gap: Waiting) -> Waiting:
        """Return a row that replaces the dropped ones, in the place of the last."""
        _, number, at, _, _, _ = gap.row
        dropped = "1 line was" if self._dropped == 1 else f"{self._dropped} lines were"
        text = f"{dropped} left out: more came than could be stored"
        self._dropped, self._newest_dropped = 0, None
        return Waiting(gap.order, (self._service, number, at, "status", text, None), ROW_BYTES)

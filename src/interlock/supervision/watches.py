"""Watches: every change in a tree, as an asynchronous iterator that never blocks the tree."""

from collections import deque

from interlock.error import BadValue
from interlock.model.child_info import Change
from interlock.supervision.goal import Bell

SIZE = 1000  # changes kept for a slow watcher


class Watch:
    """All changes since the call of `Supervisor.watch()`. A slow watcher loses the oldest."""

    def __init__(self, size: int, all_watches: "list[Watch]") -> None:
        """`all_watches` contains this watch until it is closed."""
        if not isinstance(size, int) or size < 1:
            raise BadValue("size", size, "a whole number of one or more")
        self._changes: deque[Change] = deque(maxlen=size)
        self._all = all_watches
        self._all.append(self)
        self._bell = Bell()
        self._over = False
        self.lost = 0  # number of lost changes

    def put(self, change: Change) -> None:
        self.lost += len(self._changes) == self._changes.maxlen
        self._changes.append(change)
        self._bell.ring()

    def end(self) -> None:
        """End the iteration after the waiting changes."""
        self._over = True
        self._bell.ring()

    def close(self) -> None:
        """End the iteration at once."""
        self._changes.clear()
        if self in self._all:
            self._all.remove(self)
        self.end()

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._over:
                raise StopAsyncIteration
            await self._bell.wait()
        return self._changes.popleft()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Looking on: every change in a tree, as an asynchronous iterator that never holds the tree up."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from interlock.model.child_info import Change
from interlock.model.error import BadValue

logger = logging.getLogger("interlock.supervision")

SIZE = 1000
"""changes kept for a watcher that does not take them"""


class Watch:
    """Made by `Supervisor.watch()`; changes count from then on. Whoever is too slow loses the oldest."""

    def __init__(self, size: int, forget: Callable[["Watch"], None]) -> None:
        self._changes: deque[Change] = deque(maxlen=size)
        self._forget = forget
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self.lost = 0
        """how many changes were too many"""

    def put(self, change: Change) -> None:
        self.lost += len(self._changes) == self._changes.maxlen
        self._changes.append(change)
        self._wake()

    def end(self) -> None:
        """No more will come; what is there can still be taken."""
        self._over = True
        self._wake()

    def close(self) -> None:
        """No more is wanted."""
        self._changes.clear()
        self._forget(self)
        self.end()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.set_result(None)

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._over:
                raise StopAsyncIteration
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            # Several may wait, and each may be cancelled without the others.
            await asyncio.wait([self._waiter])
        return self._changes.popleft()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Watches:
    """Everybody who looks on at one supervisor."""

    def __init__(self, on_change: Callable[[Change], None] | None) -> None:
        self._watches: list[Watch] = []
        self._on_change = on_change

    def add(self, size: int) -> Watch:
        if not isinstance(size, int) or size < 1:
            raise BadValue("size", size, "a whole number of one or more")
        watch = Watch(size, self._forget)
        self._watches.append(watch)
        return watch

    def _forget(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def put(self, change: Change) -> None:
        for watch in self._watches:
            watch.put(change)
        if self._on_change is not None:
            try:
                self._on_change(change)
            except Exception:
                logger.exception("%s: whoever is told of changes raised", change.path)

    def end(self) -> None:
        for watch in self._watches:
            watch.end()
        self._watches.clear()

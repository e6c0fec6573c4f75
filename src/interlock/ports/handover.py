"""Port: what outlasts a child, and the supervisor's host."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator

from interlock.model.child_info import Kept


class Handover(ABC):
    """Kept by the path of a child. Calls come from one event loop; `keep` and `forget` take effect in the order in
    which they are called, awaited or not, and the latest of a path counts. Neither raises when it cannot be stored
    now: it is stored as soon as that is possible."""

    @abstractmethod
    async def recall(self, path: str) -> Kept | None:
        """What was kept last; None if nothing was, or it was forgotten."""

    @abstractmethod
    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        """Begins at once; durable when it has been awaited, unless the store cannot be written for a while."""

    @abstractmethod
    def forget(self, path: str) -> Awaitable[None]:
        """The child was removed: one of the same name is another one."""


class MemoryHandover(Handover):
    """For a supervisor that stands alone: what is kept lasts as long as the process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    async def recall(self, path: str) -> Kept | None:
        return self._kept.get(path)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        self._kept[path] = kept
        return _done()

    def forget(self, path: str) -> Awaitable[None]:
        self._kept.pop(path, None)
        return _done()


class _Done:
    """Something awaitable that is there already, and may be left unawaited."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


def _done() -> Awaitable[None]:
    return _Done()

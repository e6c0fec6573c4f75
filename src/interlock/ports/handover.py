"""Port: records that outlast a child and its supervisor."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator

from interlock.model.child_info import Kept


class Handover(ABC):
    """Records by the path of a child. Calls come from one event loop and take effect in order, awaited or not; the
    latest of a path wins. `keep` and `forget` do not raise: what cannot be stored now is stored as soon as possible."""

    @abstractmethod
    async def recall(self, path: str) -> Kept | None:
        """Return the latest record, unless it was forgotten."""

    @abstractmethod
    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        """Store a record; durable once awaited, unless the store cannot be written for a while."""

    @abstractmethod
    def forget(self, path: str) -> Awaitable[None]:
        """Delete the record of a removed child; another child of the same name starts without one."""


class MemoryHandover(Handover):
    """For a supervisor that stands alone: records last as long as the process."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    async def recall(self, path: str) -> Kept | None:
        return self._kept.get(path)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        self._kept[path] = kept
        return _Done()

    def forget(self, path: str) -> Awaitable[None]:
        self._kept.pop(path, None)
        return _Done()


class _Done:
    """An awaitable that is complete, and may be left unawaited."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()

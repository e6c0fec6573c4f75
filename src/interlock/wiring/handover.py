"""The handover between the lives of a child: for services in the store, for other children in memory."""

from collections.abc import Awaitable

from interlock.model.child_info import Kept
from interlock.ports.handover import Handover, MemoryHandover
from interlock.wiring.service_tree import SERVICES


class TreeHandover(Handover):
    def __init__(self, stored: Handover) -> None:
        self._stored = stored
        self._rest = MemoryHandover()
        self.moving: set[str] = set()  # services that move to another place in the tree and keep their resume id

    async def recall(self, path: str) -> Kept | None:
        keeper, name = self._for(path)
        return await keeper.recall(name)

    def keep(self, path: str, kept: Kept) -> Awaitable[None]:
        keeper, name = self._for(path)
        return keeper.keep(name, kept)

    def forget(self, path: str) -> Awaitable[None]:
        keeper, name = self._for(path)
        if keeper is self._stored and name in self.moving:
            keeper = self._rest  # which does not know it
        return keeper.forget(name)

    def _for(self, path: str) -> tuple[Handover, str]:
        service = service_of(path)
        return (self._rest, path) if service is None else (self._stored, service)


def service_of(path: str) -> str | None:
    """Return the name of the service at this path, which is unique in the tree; None for any other child."""
    first, _, rest = path.partition("/")
    return rest.rpartition("/")[2] if first == SERVICES and rest else None

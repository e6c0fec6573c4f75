"""Port: operations on the tree of children that the scheduler is part of."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.exposition import Family
from interlock.model.reload_report import Reloaded
from interlock.wire.message import Unready


class TreeOperations(ABC):
    @abstractmethod
    def tree(self, joined: Collection[str], faults: Mapping[str, Unready]) -> ChildInfo:
        """Return all children, from the top. `joined` are the workers that have a link, and `faults` say why others
        have none."""

    @abstractmethod
    async def act(self, name: str, action: ServiceAction, actor: str) -> ChildInfo:
        """Act on a service or group, and return its status. Raises `UnknownChild`, or `WrongStatus` if not possible."""

    @abstractmethod
    async def reload(self, actor: str) -> Reloaded:
        """Read the files again. Raises `BadConfig` and changes nothing if there is any fault in them."""

    @abstractmethod
    def have_workers(self) -> None:
        """Start workers if none run; a job arrived that needs no app."""

    @abstractmethod
    def families(self) -> list[Family]:
        """Return the metrics of the tree."""

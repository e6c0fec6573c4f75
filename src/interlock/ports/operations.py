"""Port: what the scheduler is asked to do to the tree that it is a part of."""

from abc import ABC, abstractmethod

from interlock.model.child_info import ChildInfo, ServiceAction
from interlock.model.exposition import Family
from interlock.model.reload_report import Reloaded


class Operations(ABC):
    @abstractmethod
    def tree(self) -> ChildInfo:
        """Everything that is kept up, from the top."""

    @abstractmethod
    async def act(self, name: str, action: ServiceAction, actor: str) -> ChildInfo:
        """Do this to the service or group of services of that name, and say how it stands then. Raises `UnknownChild`,
        and `WrongStatus` where that is not possible as things stand."""

    @abstractmethod
    async def reload(self, actor: str) -> Reloaded:
        """Read the files again. Raises `BadConfig` and leaves everything as it is if there is any fault in them."""

    @abstractmethod
    def have_workers(self) -> None:
        """See to it that there are workers: something to do has come in that needs no app."""

    @abstractmethod
    def families(self) -> list[Family]:
        """What there is to measure of it."""

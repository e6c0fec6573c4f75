"""Port: how a worker executes attempts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from interlock.wire.message import Dispatch, Message

Key = tuple[str, int]  # run id and fence of an attempt
Report = Callable[[Message], None]
"""takes `Starting` (again when its reason changes), `Started`, `Finished`, `Lost`, `Returned`, `Expired`, `Progress`,
`Usage`, `LogLine`, `Checkpoint`"""


class Executor(ABC):
    """Executes attempts and reports on them. Calls do not block. Every `start` leads to exactly one of `Finished`,
    `Lost`, `Returned` and `Expired`, the last report of it. `Expired` means that the attempt was not begun by
    `begin_by`, in the machine's elapsed time; `start` may follow again."""

    @abstractmethod
    async def open(self, report: Report) -> None:
        """Make ready; `report` is called on the event loop."""

    def adopt(self) -> Sequence[Dispatch]:
        """Return the attempts that an earlier worker of the same id has left running. Reports on them follow. An
        executor whose attempts end with their worker has none."""
        return ()

    @abstractmethod
    def start(self, attempt: Dispatch) -> None:
        """Start an attempt; raise `OSError` if that is not possible now, and report nothing."""

    @abstractmethod
    def stop(self, attempt: Dispatch, reason: str) -> bool:
        """Ask the attempt to stop in order; when called again, press harder. Return whether another call would press
        harder still; if not, `kill` is next. Unknown attempts are ignored, here and below."""

    @abstractmethod
    def kill(self, attempt: Dispatch) -> None:
        """End the attempt at once."""

    @abstractmethod
    async def close(self) -> None:
        """End everything at once, and leave no process."""

"""Port: how a worker executes attempts."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.wire.message import Dispatch, Message

Key = tuple[str, int]  # run id and fence of an attempt
Report = Callable[[Message], None]
"""takes `Started`, `Finished`, `Lost`, `Returned`, `Expired`, `Progress`, `Usage`, `LogLine`, `Checkpoint`"""


class Executor(ABC):
    """Executes attempts and reports on them. Calls do not block. Every `begin` leads to exactly one of `Finished`,
    `Lost`, `Returned` and `Expired`, the last report of it. `Expired` means that the attempt was not begun by
    `begin_by`, in the machine's elapsed time; `begin` may follow again."""

    @abstractmethod
    async def start(self, report: Report) -> None:
        """Make ready; `report` is called on the event loop."""

    @abstractmethod
    def begin(self, attempt: Dispatch) -> None: ...

    @abstractmethod
    def flush(self) -> None:
        """Start the attempts begun since the last flush."""

    @abstractmethod
    def ask(self, run_id: str, fence: int, reason: str) -> None:
        """Ask the attempt to stop in order. Unknown attempts are ignored, here and below."""

    @abstractmethod
    def terminate(self, run_id: str, fence: int) -> None:
        """Send TERM to its process."""

    @abstractmethod
    def kill(self, run_id: str, fence: int) -> None:
        """Send KILL to its process."""

    @abstractmethod
    async def close(self) -> None:
        """End everything at once, and leave no process."""

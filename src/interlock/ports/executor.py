"""Port: what a worker runs attempts with."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from interlock.model.message import Dispatch, Message

Report = Callable[[Message], None]
"""takes `Started`, `Finished`, `Lost`, `Returned`, `Expired`, `Progress`, `LogLine`, `Checkpoint` of an attempt"""


class Executor(ABC):
    """Runs attempts and reports on them. For every `begin`, exactly one of `Finished`, `Lost`, `Returned`, `Expired` is
    reported, whatever the attempt does; nothing is reported after it. `Expired` is for one that was not begun by its
    `begin_by`, in the machine's elapsed time; `begin` may follow again. Calls do not block."""

    @abstractmethod
    async def start(self, report: Report) -> None:
        """Make ready; reports are called on the event loop."""

    @abstractmethod
    def begin(self, attempt: Dispatch) -> None: ...

    @abstractmethod
    def flush(self) -> None:
        """What was begun together is complete: let it begin now."""

    @abstractmethod
    def ask(self, run_id: str, fence: int, reason: str) -> None:
        """Ask the attempt to stop, so that it can end well. Unknown ones are ignored, here and below."""

    @abstractmethod
    def terminate(self, run_id: str, fence: int) -> None:
        """Send TERM to what executes it."""

    @abstractmethod
    def kill(self, run_id: str, fence: int) -> None:
        """Send KILL to what executes it."""

    @abstractmethod
    async def close(self) -> None:
        """End everything at once; leave no process."""

"""What a handle needs of whoever knows the runs: the link to a scheduler in this machine, or a server over HTTP."""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from interlock.model.error import RunEnded
from interlock.model.run import RunStats
from interlock.model.run_action import RunAction
from interlock.model.run_view import HistoryEntry, LogLine, RunInfo
from interlock.model.state import State


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, and what came of it."""

    run_id: str
    state: State
    reason: str
    error: str | None
    result: Any

    def unpack(self) -> Any:
        """The result; `RunEnded` with the last line of the error, or the reason, if there is none."""
        if self.state is not State.SUCCEEDED:
            why = self.error.strip().splitlines()[-1] if self.error and self.error.strip() else self.reason
            raise RunEnded(self.run_id, self.state, why)
        return self.result


class RunAccess(ABC):
    """Questions about one run, by its id. All may be asked again; `UnknownRun` if there is none of that id."""

    @abstractmethod
    async def wait(self, run_id: str, limit: float | None) -> Ending:
        """Return when the run has ended; `WaitTimeout` if that takes longer than `limit` seconds."""

    @abstractmethod
    async def act(self, action: RunAction, run_id: str, reason: str) -> State:
        """Do this to it; the state it then has. One that has ended is left as it is."""

    @abstractmethod
    async def info(self, run_id: str) -> RunInfo: ...

    @abstractmethod
    async def history(self, run_id: str) -> list[HistoryEntry]:
        """Every transition, in order."""

    @abstractmethod
    async def logs(self, run_id: str) -> list[LogLine]:
        """Every line that was kept, in order."""

    @abstractmethod
    async def stats(self, run_id: str) -> RunStats: ...

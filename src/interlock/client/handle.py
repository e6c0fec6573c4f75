"""A handle on a run: wait for it, stop it, look at it."""

import asyncio
import time
from typing import Any

import msgspec

from interlock.client.connection import Connection
from interlock.model import message as m
from interlock.model import payload
from interlock.model.duration import Duration, seconds
from interlock.model.error import RunEnded, WaitTimeout
from interlock.model.run import Run, RunStats, Transition, stats_of, update_id
from interlock.model.state import State


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands: its fields, and the latest progress it reported."""

    id: str
    job_id: str
    tenant: str
    session: str | None
    idempotency_key: str | None
    created_at: float
    scheduled_at: float
    deadline_at: float | None
    job_version: str
    lane: str
    state: State
    previous: State | None
    reason: str
    actor: str
    changed_at: float
    seq: int
    attempt: int
    fence: int
    failures: int
    crashes: int
    worker_id: str | None
    due_at: float | None
    started_at: float | None
    attempt_started_at: float | None
    stop: str | None
    stop_reason: str | None
    stop_actor: str | None
    ended_at: float | None
    outcome: str | None
    exit_code: int | None
    heartbeats: int
    has_checkpoint: bool
    error: str | None
    progress: tuple[float, str] | None = None


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One transition. Its id is the same wherever and however often it is read: what was seen once is known again."""

    id: str
    seq: int
    before: State | None
    after: State
    at: float
    attempt: int
    reason: str
    actor: str


class LogLine(msgspec.Struct, frozen=True):
    at: float
    attempt: int
    level: str
    text: str


class RunHandle:
    """Returned by `submit`. It holds only the id: everything else is asked for."""

    __slots__ = ("_connection", "id")

    def __init__(self, run_id: str, connection: Connection) -> None:
        self.id = run_id
        self._connection = connection

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the end and return what the handler returned.

        Raises `RunEnded` if the run did not succeed, `WaitTimeout` if it has not ended in time; the run goes on then.
        """
        report = await self._wait(timeout)
        if report.state is not State.SUCCEEDED:
            why = report.error.strip().splitlines()[-1] if report.error and report.error.strip() else report.reason
            raise RunEnded(self.id, report.state, why)
        return None if report.result is None else payload.decode(report.result)

    async def wait(self, timeout: Duration | None = None) -> State:
        """Wait for the end, whichever it is."""
        return (await self._wait(timeout)).state

    async def _wait(self, timeout: Duration | None) -> m.RunReport:
        limit = None if timeout is None else seconds(timeout, "timeout")
        asking = self._connection.ask(
            lambda number: m.Ask(number, self.id, True), m.RunReport, what="result", repeatable=True
        )
        if limit is None:
            return await asking
        try:
            return await asyncio.wait_for(asking, limit)
        except TimeoutError as error:
            raise WaitTimeout(self.id, limit) from error

    async def cancel(self, reason: str = "cancelled") -> State:
        """Ask for the run to be stopped; returns the state it then has. What executes ends later: `wait` for it."""
        report = await self._connection.ask(
            lambda number: m.Cancel(number, self.id, reason), m.RunReport, what="cancel", repeatable=True
        )
        return report.state

    async def info(self) -> RunInfo:
        report = await self._connection.ask(
            lambda number: m.Ask(number, self.id, False), m.RunReport, what="info", repeatable=True
        )
        return msgspec.convert(report.fields, RunInfo)

    async def state(self) -> State:
        return (await self.info()).state

    async def history(self) -> list[HistoryEntry]:
        """Every transition, in order."""
        return [
            HistoryEntry(
                id=update_id(self.id, one.attempt, one.seq),
                seq=one.seq,
                before=one.before,
                after=one.after,
                at=one.at,
                attempt=one.attempt,
                reason=one.reason,
                actor=one.actor,
            )
            for one in await self._transitions()
        ]

    async def _transitions(self) -> list[Transition]:
        report = await self._connection.ask(
            lambda number: m.AskHistory(number, self.id), m.HistoryReport, what="history", repeatable=True
        )
        return report.entries

    async def logs(self) -> list[LogLine]:
        report = await self._connection.ask(
            lambda number: m.AskLogs(number, self.id), m.LogReport, what="logs", repeatable=True
        )
        return [LogLine(*line) for line in report.lines]

    async def stats(self) -> RunStats:
        """The figures of the run: time in each state, attempts, heartbeats, latency."""
        info = await self.info()
        fields: dict[str, Any] = {name: getattr(info, name, None) for name in Run.__struct_fields__}
        return stats_of(Run(**fields), await self._transitions(), time.time())

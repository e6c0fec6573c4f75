"""The executors of a worker without a worker: attempts in, and what they report."""

import asyncio
import itertools
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from interlock.model.work import ContainerWork, ProcessWork, Work
from interlock.wire import message as m
from interlock.worker.pool import ExecutorOptions, ProcessPool
from interlock.worker.router import Router, executors
from tests.helpers.containers import ContainerEngine
from tests.helpers.places import until
from tests.helpers.processes import children_of, descriptors, zombies

End = m.Finished | m.Lost | m.Returned
SCHEDULED_AT = 1_700_000_000.0


def program(*command: str, **fields: Any) -> ProcessWork:
    return ProcessWork(command=command, **fields)


def container(engine: ContainerEngine, script: str, **fields: Any) -> ContainerWork:
    given = {"image": engine.image, "network": "none", "command": ("/bin/sh", "-c", script)} | fields
    return ContainerWork(**given)


def dispatch(run_id: str, work: Work, given: object = None, grace: float = 0.2, isolated: bool = False) -> m.Dispatch:
    payload = given if isinstance(given, bytes) else json.dumps(given or {}).encode()
    return m.Dispatch(run_id, 1, "job", 2, payload, None, isolated, grace, None, work, SCHEDULED_AT)


class Stage:
    def __init__(self) -> None:
        self.executors = Router(ProcessPool(ExecutorOptions(), 1), executors(ExecutorOptions()))
        self._attempts: dict[str, m.Dispatch] = {}
        self.heard: list[m.Message] = []
        self._numbers = itertools.count(1)

    def begin(self, work: Work, given: object = None, isolated: bool = False) -> str:
        """Begin an attempt; returns the id of its run."""
        run_id = f"run-{next(self._numbers)}"
        self._attempts[run_id] = dispatch(run_id, work, given, isolated=isolated)
        self.executors.start(self._attempts[run_id])
        return run_id

    def of(self, run_id: str) -> list[m.Message]:
        return [one for one in self.heard if getattr(one, "run_id", None) == run_id]

    def lines(self, run_id: str, logger: str | None = None) -> list[str]:
        lines = [one for one in self.of(run_id) if isinstance(one, m.LogMessage)]
        assert [one.number for one in lines] == list(range(1, len(lines) + 1))
        return [one.text for one in lines if logger in (None, one.logger)]

    def starts(self, run_id: str) -> list[str]:
        """What its start waited for."""
        return [one.reason for one in self.of(run_id) if isinstance(one, m.Starting)]

    async def started(self, run_id: str) -> None:
        await until(lambda: any(isinstance(one, m.Started) for one in self.of(run_id)), f"{run_id} has started")

    async def printed(self, run_id: str) -> list[str]:
        await until(lambda: self.lines(run_id), f"{run_id} has printed something")
        return self.lines(run_id)

    async def end(self, run_id: str) -> End:
        await until(lambda: any(isinstance(one, End) for one in self.of(run_id)), f"{run_id} has ended")
        *before, last = self.of(run_id)
        assert isinstance(last, End)
        if isinstance(last, m.Finished):
            last = replace(last, ago=0.0)
        before = [one for one in before if not isinstance(one, m.Starting)]
        assert not any(isinstance(one, End) for one in before)
        assert sum(isinstance(one, m.Started) for one in before) == bool(before), (
            "it is said to run before all else, once"
        )
        return last

    async def run(self, work: Work, given: object = None, isolated: bool = False) -> tuple[m.Finished, list[str]]:
        """How it ended, and its log."""
        run_id = self.begin(work, given, isolated)
        end = await self.end(run_id)
        assert isinstance(end, m.Finished), end
        return end, self.lines(run_id)

    async def failure(self, work: Work, given: object = None) -> str:
        end, _ = await self.run(work, given)
        assert end.outcome == "failed"
        return str(end.error)

    def _attempt(self, run_id: str) -> m.Dispatch:
        return self._attempts.get(run_id) or dispatch(run_id, program("true"))  # one that nobody has begun

    def ask(self, run_id: str) -> bool:
        return self.executors.stop(self._attempt(run_id), "cancel")

    def kill(self, run_id: str) -> None:
        self.executors.kill(self._attempt(run_id))


@asynccontextmanager
async def executing() -> AsyncIterator[Stage]:
    """Executors; at the end there is nothing left of them, and nothing open that was not before."""
    await _warm_up()
    before, others = descriptors(), children_of(os.getpid())
    stage = Stage()
    try:
        await stage.executors.open(stage.heard.append)
        yield stage
    finally:
        await stage.executors.close()
    try:
        await until(lambda: descriptors() <= before, "what was opened is closed")
    except AssertionError:
        raise AssertionError(f"left open: {descriptors() - before}") from None
    assert children_of(os.getpid()) == others
    assert zombies() == []


async def _warm_up() -> None:
    """Whatever a loop opens when it first has a link is not of interest."""
    here, there = socket.socketpair()
    _, writer = await asyncio.open_unix_connection(sock=here)
    there.close()
    writer.close()
    await writer.wait_closed()

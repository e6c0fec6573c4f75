"""A real worker, for a scheduler that the test plays."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from interlock.buses.socket import SocketBus
from interlock.wire import message as m
from tests.helpers.places import until
from tests.helpers.script import Script
from tests.helpers.server import JOBS, Command

OF_JOBS = ("-A", JOBS)


class Played:
    """The scheduler, and the next one after it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "s"
        self._bus: SocketBus | None = None

    async def begin(self, script: Script | None = None) -> Script:
        script, self._bus = script or Script(), SocketBus(self._path)
        await self._bus.listen(script)
        return script

    async def end(self) -> None:
        if self._bus is not None:
            await self._bus.close()
            self._bus = None


@asynccontextmanager
async def worker_of(
    folder: Path, *options: str, script: Script | None = None
) -> AsyncIterator[tuple[Script, Command, Played]]:
    """It has said hello, if the script lets it."""
    scheduler = Played(folder)
    heard = await scheduler.begin(script)
    worker = Command(folder, "interlock.cli", "worker", "--socket", str(folder / "s"), *options, name="worker")
    worker.begin()
    try:
        if script is None:
            await until(lambda: heard.heard, "the worker says hello")
        yield heard, worker, scheduler
    finally:
        worker.kill()
        await scheduler.end()


def dispatch(run_id: str, job_id: str, folder: Path) -> m.Dispatch:
    payload = f'{{"folder": "{folder}", "name": "{run_id}"}}'.encode()
    return m.Dispatch(run_id, 1, job_id, 1, payload, None, False, 0.2)


async def told(script: Script, what: str, *names: str) -> None:
    await until(lambda: all(what in script.of(name) for name in names), f"{what} is told of {', '.join(names)}")


def ends(script: Script, run_id: str) -> list[m.Finished]:
    return [one for one in script.heard if isinstance(one, m.Finished) and one.run_id == run_id]


def untimed(end: m.Finished) -> m.Finished:
    return replace(end, ago=0.0, took=0.0)


def lines(script: Script, run_id: str) -> list[m.LogMessage]:
    return [one for one in script.heard if isinstance(one, m.LogMessage) and one.run_id == run_id]


def without_beats(script: Script) -> Sequence[m.Message]:
    return [one for one in script.heard if not isinstance(one, m.Heartbeat)]

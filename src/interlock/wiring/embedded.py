"""A scheduler inside another program."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from interlock import runtime
from interlock.config import Settings
from interlock.config.sources import declared_by, load
from interlock.error import BadUse
from interlock.wiring.scheduler import Scheduler


class _Thread:
    """A scheduler in a thread of this process, with a loop of its own that the program cannot block."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._outside = asyncio.get_running_loop()
        self._inside: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interlock", daemon=True)
        self.started: asyncio.Future[None] = self._outside.create_future()
        self.stopped: asyncio.Future[None] = self._outside.create_future()
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            runtime.run(self._live())
        except BaseException as raised:  # noqa: BLE001 - handed to the program that waits
            error = raised
        for future in (self.started, self.stopped):
            self._outside.call_soon_threadsafe(_settle, future, error)

    async def _live(self) -> None:
        self._inside = asyncio.get_running_loop()
        if self._asked.is_set():
            return
        await self._scheduler.start()
        try:
            await self._scheduler.ready(self._ending)
            self._outside.call_soon_threadsafe(_settle, self.started, None)
            if not self._asked.is_set():
                ending = asyncio.ensure_future(self._ending.wait())
                broken = asyncio.ensure_future(self._scheduler.wait())
                await asyncio.wait([ending, broken], return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
        finally:
            await self._scheduler.stop()

    async def end(self) -> None:
        """Stop it, even during its start; return when nothing of it is left."""
        self._asked.set()
        if self._inside is not None and not self.stopped.done():
            with suppress(RuntimeError):  # its loop has just ended
                self._inside.call_soon_threadsafe(self._ending.set)
        await asyncio.wait([self.stopped])
        self._thread.join()


@asynccontextmanager
async def embedded(app: Any, target: str, database: str, **options: Any) -> AsyncIterator[Path]:
    """Run a scheduler beside the program, until the block ends."""
    try:
        # HTTP is off unless the program sets it.
        settings = Settings(database=database, **({"http": "off"} | options))
    except TypeError as error:
        raise BadUse("running()", f"{', '.join(sorted(options))}: not all are settings ({error})") from error
    read = partial(load, settings.files, declared_by(app, target), settings.strict, settings.every_lane())
    thread = _Thread(Scheduler(app.definitions, target, settings, load=read))
    try:
        await asyncio.shield(thread.started)
        yield settings.socket_path()
    finally:
        await thread.end()
        thread.started.exception()
        thread.stopped.result()


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

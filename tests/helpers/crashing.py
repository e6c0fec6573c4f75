"""A scheduler that kills itself at a chosen commit. Run as: crashing DATABASE before|after NUMBER [TARGET [FILE …]].

With a target ("" for no app) it has the worker and the gateway of `interlock up` too.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from typing import TypeVar

import uvloop

from interlock.config import Settings
from interlock.config.sources import load, of_app
from interlock.stores.sqlite import SqliteStore
from interlock.wiring.scheduler import Scheduler
from tests.helpers.server import JOBS

T = TypeVar("T")


class CrashingStore(SqliteStore):
    """Dies in its Nth transaction: with everything written and nothing committed, or committed and nobody told."""

    def __init__(self, path: str, moment: str, number: int) -> None:
        super().__init__(path)
        self._moment = moment
        self._left = number

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._left -= 1
        if self._left > 0:
            return super()._transact(work)

        def work_and_die(connection: sqlite3.Connection) -> T:
            result = work(connection)
            if self._moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        super()._transact(work_and_die)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


async def main(database: str, moment: str, number: str, target: str | None = None, *files: str) -> None:
    if target is None:
        target, settings = JOBS, Settings(database=database, workers=0, http="off")
    else:
        settings = Settings(database=database, workers=1, http="local")
    app = of_app(target or None)
    store = CrashingStore(database, moment, int(number))
    scheduler = Scheduler(app.definitions, target or None, settings, store, load=lambda: load(files, app))
    await scheduler.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))

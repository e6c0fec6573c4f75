"""A folder for a test, and the proof that nothing of the test outlives it."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from interlock.client.handle import RunHandle
from interlock.model.state import State
from tests.helpers.processes import processes_of, wait_until, zombies

T = TypeVar("T")

LIMIT = 60.0
NOBODY = 65534
"""a user who owns nothing"""


@contextmanager
def clean_folder() -> Iterator[Path]:
    """A short path, because a socket's is limited; at the end no process, socket or zombie may be left of it."""
    folder = Path(tempfile.mkdtemp(prefix="il-")).resolve()
    try:
        yield folder
        try:
            wait_until(lambda: not processes_of(folder), "every process has ended", 20.0)
        except AssertionError:
            left = "\n".join(str(one) for one in processes_of(folder))
            raise AssertionError(f"processes are left:\n{left}") from None
        assert [path for path in folder.rglob("*") if path.is_socket()] == []
        wait_until(lambda: not zombies(), "no zombie is left", 10.0)
    except BaseException:
        for process in processes_of(folder):
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    with clean_folder() as place:
        yield place


def run_async(main: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Run the body of a test on an event loop, for so long at the most."""
    return uvloop.run(asyncio.wait_for(main, limit))


async def until(condition: Callable[[], object], what: str, limit: float = 30.0) -> None:
    """Wait for something the test can see, without blocking the loop."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not condition():
        if loop.time() > end:
            raise AssertionError(f"not within {limit:g}s: {what}")
        await asyncio.sleep(0.01)


async def until_true(ask: Callable[[], Awaitable[object]], what: str, limit: float = 30.0) -> None:
    """The same for a question that must be awaited."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not await ask():
        if loop.time() > end:
            raise AssertionError(f"not within {limit:g}s: {what}")
        await asyncio.sleep(0.02)


async def until_running(run: RunHandle[Any]) -> None:
    """Until the scheduler knows that it runs, which is a moment later than the work itself does."""

    async def running() -> bool:
        return await run.state() is State.RUNNING

    await until_true(running, "the run is known to run")


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def tell_to_go(folder: Path, name: str) -> None:
    (folder / f"{name}.go").touch()


@contextmanager
def unprivileged() -> Iterator[None]:
    """Within this folder, be somebody to whom something can be forbidden: root is another user for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.chmod(".", 0o755)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)

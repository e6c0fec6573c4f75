"""Children of the scheduler that read its store: each runs in a process of its own, so that it does not slow down the
scheduler. With a store in memory, which no other process can read, it runs in the scheduler's process."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from interlock.ports.store import Reader
from interlock.stores.open import open_reader
from interlock.supervision import Backoff, Child, Function, Process

BACKOFF = Backoff(initial=0.1, max=5.0, reset_after=10.0)
PATIENCE = 5.0  # seconds that its process has to end


class ReaderOptions(msgspec.Struct, frozen=True, kw_only=True):
    database: str
    log_level: str
    log_format: str


class ChildOptions(ReaderOptions, frozen=True, kw_only=True):
    socket: str  # of the scheduler


O = TypeVar("O", bound=ReaderOptions)  # noqa: E741 - the options of one kind of child
ChildWork = Callable[[Reader, O], Coroutine[Any, Any, None]]


def child_of(name: str, work: ChildWork[O], options: O, reader: Reader) -> Child:
    """Return a child that does the work until it is cancelled."""
    if reader.is_private:
        return Function(name=name, run=lambda _: work(reader, options), backoff=BACKOFF)
    return Process(name=name, command=command_of(work, options), backoff=BACKOFF, stop_timeout=PATIENCE, capture=False)


def command_of(run: Callable[..., object] | str, options: msgspec.Struct | str) -> list[str]:
    """Return the command of a child process; `options` may be the number of an open file that holds them."""
    target = run if isinstance(run, str) else f"{run.__module__}:{run.__name__}"
    given = options if isinstance(options, str) else msgspec.json.encode(options).decode()
    return [sys.executable, "-m", "interlock.process", "interlock.wiring.child_process", target, given]


def hidden_options(options: msgspec.Struct) -> int:
    """Return the descriptor of a file without a name that holds the options: unlike arguments, other users cannot read
    it."""
    descriptor = os.memfd_create("options")
    os.write(descriptor, msgspec.json.encode(options))
    return descriptor


def stop_signals(again: Callable[[], None]) -> "asyncio.Future[None]":
    """Return a future that is done at the first TERM or Ctrl-C; call `again` at each further one."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if asked.done():
            again()
        else:
            asked.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    return asked


async def until_stopped(work: ChildWork[O], options: O) -> None:
    """Do the work until TERM or Ctrl-C; its guard ends the process with the scheduler's."""
    reader = open_reader(options.database)
    await reader.open()
    try:
        task = asyncio.ensure_future(work(reader, options))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    finally:
        await reader.close()

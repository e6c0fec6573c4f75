"""An event loop on virtual time, and the processes that live on it.

Nothing waits: when no callback is ready, the clock jumps to the next timer. A `Process` is what SIGSTOP and SIGKILL act
on: every callback, task and timer remembers the process in whose context it was made, those of a paused one are kept
back, and those of a dead one never run, not even to clean up.
"""

import asyncio
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVarTuple, cast

Arguments = TypeVarTuple("Arguments")

MOST_AT_ONE_INSTANT = 200_000  # callbacks without any time passing after which something is taken to run in a circle


class Deadlock(Exception):
    """Nothing is ready and no timer is set: whoever still waits would wait for ever."""


class Livelock(Exception):
    """Callbacks follow each other without end while no time passes."""


class Crashed(Exception):
    """What was spawned raised what nobody expected."""


class Process:
    def __init__(self, loop: "VirtualLoop", name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.paused = False
        self.kept_back: list[asyncio.Handle] = []
        self.at_end: list[Callable[[], None]] = []
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self.loop.create_task(work, context=self.context)
        task.add_done_callback(self._has_ended)
        return task

    def _has_ended(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.loop.halt(Crashed(f"{self.name} raised {error!r}"))

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        self.loop.call_soon(call, *arguments, context=self.context)

    def call_at(self, when: float, call: Callable[..., object], *arguments: Any) -> None:
        self.loop.call_at(when, call, *arguments, context=self.context)

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self.kept_back.clear()
            for call in self.at_end:
                call()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.loop.take_back(self, self.kept_back)
        self.kept_back = []


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)

_Entry = tuple[Process | None, asyncio.Handle]


class VirtualLoop(asyncio.BaseEventLoop):
    most_at_one_instant = MOST_AT_ONE_INSTANT

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._entries: deque[_Entry] = deque()
        self._timers: list[tuple[float, int, Process | None, asyncio.TimerHandle]] = []
        self._order = count()
        self._at_this_instant = 0
        self.errors: list[str] = []  # what callbacks and tasks raised that nobody caught
        self._halt: Exception | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(_make_task)

    def halt(self, error: Exception) -> None:
        """Let nothing more happen: whoever runs the loop gets this error."""
        self._halt = self._halt or error

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override] # for no type
        raise AssertionError("a thread does not keep to virtual time")

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_closed():
            self._entries.append((_owner(context), handle))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_closed():
            heappush(self._timers, (when, next(self._order), _owner(context), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap until its time comes, and is passed over then."""

    def take_back(self, process: Process, handles: list[asyncio.Handle]) -> None:
        self._entries.extend((process, handle) for handle in handles)

    def _run_once(self) -> None:
        if not self._entries:
            self._advance()
        for _ in range(len(self._entries)):
            owner, handle = self._entries.popleft()
            if handle.cancelled() or (owner is not None and not owner.alive):
                continue
            if owner is not None and owner.paused:
                owner.kept_back.append(handle)
                continue
            self._at_this_instant += 1
            handle._run()
            if self._halt is not None:
                raise self._halt
        if self._at_this_instant > self.most_at_one_instant:
            raise Livelock(f"{self._at_this_instant} callbacks at {self._now:.3f}s")

    def _advance(self) -> None:
        """Go to the next instant at which anything is to happen."""
        timers = self._timers
        while timers and (timers[0][3].cancelled() or _is_dead(timers[0][2])):
            heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is left to happen after {self._now:.3f}s")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._at_this_instant = 0
        while timers and timers[0][0] <= self._now:
            _, _, owner, handle = heappop(timers)
            self._entries.append((owner, handle))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        message = str(context.get("message"))
        if not message.startswith("Task was destroyed"):
            self.errors.append(f"{message}: {context.get('exception')!r}")

    def keep(self, task: "asyncio.Task[Any]") -> None:
        """Hold on to a task, ended or not: the collector must not run the clean-up of a process that was killed."""
        self._tasks.append(task)

    def close(self) -> None:
        """End what is left, in order, now that nothing it does has any effect."""
        super().close()
        with warnings.catch_warnings():
            # A process that was killed had tasks which never began, and these had coroutines of their own.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            for task in self._tasks:
                if not task.done():
                    with suppress(RuntimeError):
                        cast(Coroutine[Any, Any, Any], task.get_coro()).close()
            self._tasks.clear()

    def _write_to_self(self) -> None:
        """There is no selector to wake."""


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    cast(VirtualLoop, loop).keep(task)
    return task


def _owner(context: Context | None) -> Process | None:
    return _PROCESS.get() if context is None else context.get(_PROCESS)


def _is_dead(process: Process | None) -> bool:
    return process is not None and not process.alive

"""The lifespan of an app in an executor process: entered before the first attempt, left at an orderly end.

One task lives through it, because some context managers must be left by the task that entered them.
"""

import asyncio
import inspect
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from interlock.error import BadHandler, InterlockError, LifespanFailed
from interlock.fields.duration import brief
from interlock.wire.message import Problem
from interlock.worker.context import clean

LONGEST_TRACEBACK = 16_384
AFTERWARDS = 1.0  # seconds for a lifespan that is out of time to end, so that its traceback shows where it was

Opening = Callable[[Any], AbstractAsyncContextManager[Any]]  # takes the app


def read_lifespan(function: Callable[..., Any]) -> Opening:
    """Return the call that makes the context manager; raise `BadHandler` for a function that cannot."""
    where = f"lifespan: {getattr(function, '__qualname__', repr(function))}"
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or not callable(function):
        raise BadHandler(f"{where} is not an async generator function; write 'async def' with one 'yield'")
    parameters = inspect.signature(function).parameters.values()
    by_place = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if len(needed) > 1 or any(parameter not in by_place for parameter in needed):
        raise BadHandler(f"{where} needs {len(needed)} arguments; it may take one, the app")
    make = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function

    def open_one(app: Any) -> AbstractAsyncContextManager[Any]:
        made = make(app) if by_place else make()
        if not isinstance(made, AbstractAsyncContextManager):
            raise BadHandler(f"{where} returned a {type(made).__name__}, not an async context manager")
        return made

    return open_one


class Lifespan:
    """One lifespan of an app, on the loop of its process."""

    def __init__(self, opening: Opening, app: Any, limit: float, give_up: Callable[[LifespanFailed], None]) -> None:
        """`give_up` is called in a thread if the start blocks the loop for longer than `limit`."""
        self._opening = opening
        self._app = app
        self._limit = limit
        self._give_up = give_up
        self._entered = asyncio.Event()
        self._leaving = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self.state: Any = None

    async def enter(self, on_end: Callable[[LifespanFailed], None]) -> None:
        """Raise `LifespanFailed` with the traceback as its note. `on_end` is called if it ends before it is left."""
        thread = threading.get_ident()
        watch = threading.Timer(self._limit + 2 * AFTERWARDS, self._blocked, [thread])
        watch.daemon = True
        watch.start()
        self._task = asyncio.get_running_loop().create_task(self._live())
        entered = asyncio.get_running_loop().create_task(self._entered.wait())
        done, _ = await asyncio.wait([self._task, entered], timeout=self._limit, return_when=asyncio.FIRST_COMPLETED)
        entered.cancel()
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=AFTERWARDS)
        watch.cancel()
        if not done or self._task.done():
            raise self._failure("" if done else self._too_long())
        self._task.add_done_callback(lambda _: None if self._leaving.is_set() else on_end(self._failure()))

    async def leave(self) -> LifespanFailed | None:
        """Leave it, without a time limit; return the error that it raised."""
        assert self._task is not None
        self._leaving.set()
        await asyncio.wait([self._task])
        return None if self._error is None else self._failure()

    async def _live(self) -> None:
        try:
            async with self._opening(self._app) as self.state:
                self._entered.set()
                await self._leaving.wait()
        except BaseException as error:  # noqa: BLE001 - whatever it raises is reported
            self._error = error

    def _too_long(self) -> str:
        return f"it took longer than {brief(self._limit)} to start (lifespan_timeout)"

    def _failure(self, what: str = "") -> LifespanFailed:
        error = self._error
        if error is None:
            return LifespanFailed(what or "it ended by itself")
        last = "".join(traceback.format_exception_only(error)).strip().splitlines()
        return _failed(what or (last[-1] if last else type(error).__name__), traceback.format_exception(error))

    def _blocked(self, thread: int) -> None:
        frame = sys._current_frames().get(thread)
        self._give_up(_failed(f"{self._too_long()}, and blocks its loop", traceback.format_stack(frame)))


def lifespan_of(app: Any, limit: float, give_up: Callable[[LifespanFailed], None]) -> Lifespan | None:
    opening = getattr(app, "opening", None)
    return None if opening is None else Lifespan(opening, app, limit, give_up)


def problem_of(error: InterlockError) -> Problem:
    """Return why the process cannot start, for its host: the message on one line, then the traceback."""
    notes = list(getattr(error, "__notes__", ()))
    if error.__cause__ is not None:
        notes += traceback.format_exception(error.__cause__)
    return Problem(0, error.code, clean("\n".join([" ".join(str(error).splitlines()), *notes])))


def _failed(what: str, lines: list[str]) -> LifespanFailed:
    failure = LifespanFailed(what)
    failure.add_note("".join(lines).rstrip()[-LONGEST_TRACEBACK:])
    return failure

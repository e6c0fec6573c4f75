"""A child that is a coroutine function, on the supervisor's own event loop."""

import asyncio
import inspect
import logging
from collections.abc import Callable

from interlock.error import BadValue, CannotStart, InterlockError
from interlock.fields.duration import checked
from interlock.fields.field import copy_fields
from interlock.model.child_info import Exit
from interlock.supervision.goal import unless, words
from interlock.supervision.instance import Birth, NativeInstance, Surroundings
from interlock.supervision.spec import Function

logger = logging.getLogger("interlock.supervision")

LAST_MOMENT = 0.5  # seconds that a function has to end at a kill: a task cannot be killed, only left alone


class ChildContext(Birth, frozen=True, kw_only=True):
    """The argument of a function child."""

    ready: Callable[[], None]  # to call once it is ready, in a child that `announces`


class FunctionInstance(NativeInstance):
    def __init__(self, spec: Function, birth: Birth, around: Surroundings) -> None:
        super().__init__(birth, around)
        self._spec = spec
        self.can_suspend = spec.suspend is not None
        self._ready = asyncio.Event()
        self._task: asyncio.Task[Exit] | None = None

    async def start(self) -> None:
        path = self._birth.path
        last = self._around.abandoned.pop(path, None)
        if last is not None and not last.done():
            self._around.abandoned[path] = last
            raise CannotStart(path, "its last life goes on, although it was cancelled")
        self._task = asyncio.get_running_loop().create_task(self._run(), name=path)
        self._task.add_done_callback(self._has_ended)
        if not self._spec.announces:
            return
        timeout = checked(self._spec.start_timeout)
        try:
            async with asyncio.timeout(timeout):
                await unless(self._ready.wait(), self.ended)
            if self.ended.done():
                raise CannotStart(path, self.ended.result().error or "ended before it was ready")
        except BaseException as error:
            await self.stop(checked(self._spec.stop_timeout))
            if isinstance(error, TimeoutError):
                raise CannotStart(path, f"not ready within {timeout:g}s") from None
            raise

    async def _run(self) -> Exit:
        """Return how it ended; a cancellation is left to the callback of the task."""
        try:
            takes = inspect.signature(self._spec.run).parameters
            context = copy_fields(ChildContext, self._birth, ready=self._ready.set)
            work = self._spec.run(context) if takes else self._spec.run()  # type: ignore[call-arg] # it takes what it declares
            if not inspect.isawaitable(work):
                raise BadValue("run", self._spec.run, "an async function")
            await work
        except SystemExit as raised:
            # It means the function, not the process that the function shares with others.
            if raised.code is None or isinstance(raised.code, int):
                return self._exit(raised.code or 0)
            return self._exit(1, error=" ".join(str(raised.code).split())[:500])
        except InterlockError as raised:
            error = f"{raised} ({raised.code})"
            logger.warning("%s: %s", self._birth.path, error)
            return self._exit(error=error)
        except Exception as raised:
            logger.exception("%s raised", self._birth.path)
            return self._exit(error=words(raised))
        return self._exit(0)

    def _has_ended(self, task: "asyncio.Task[Exit]") -> None:
        if task.cancelled():
            self.settle(self._exit(0) if self._is_asked else self._exit(error="cancelled by itself"))
        elif (raised := task.exception()) is not None:
            self.settle(self._exit(error=words(raised)))
        else:
            self.settle(task.result())

    async def stop(self, timeout: float) -> None:
        if self._task is None:
            self.settle(self._exit(0))
            return
        self._ask()
        await asyncio.wait([self.ended], timeout=timeout)
        self._abandon()

    def _ask(self) -> None:
        if self._task is not None and not self._is_asked:
            # Once is enough: a second cancellation would break off its clean-up.
            self._is_asked = True
            self._task.cancel()

    def kill(self) -> None:
        self._ask()
        if self._task is not None and not self.ended.done():
            asyncio.get_running_loop().call_later(LAST_MOMENT, self._abandon)

    def _abandon(self) -> None:
        if not self.ended.done():
            assert self._task is not None
            self._task.cancel()
            self.forced = True
            self._around.abandoned[self._birth.path] = self._task
            logger.warning("%s does not end although it was cancelled; it is left alone", self._birth.path)
            self.settle(self._exit(error="did not end in time when it was cancelled"))

    async def suspend(self) -> None:
        assert self._spec.suspend is not None
        await self._spec.suspend()

    async def resume(self) -> None:
        assert self._spec.resume is not None
        await self._spec.resume()

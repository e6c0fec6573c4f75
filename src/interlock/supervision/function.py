"""A child that is a coroutine function, on the supervisor's own event loop."""

import asyncio
import inspect
import logging
from collections.abc import Callable

from interlock.model.child_info import Exit
from interlock.model.duration import seconds
from interlock.model.error import BadValue, CannotStart, InterlockError
from interlock.supervision.goal import words
from interlock.supervision.instance import Birth, Instance
from interlock.supervision.spec import Function

logger = logging.getLogger("interlock.supervision")

LAST_MOMENT = 0.5
"""seconds a function has to end when it is to end now: a task cannot be killed, only left alone"""


class ChildContext:
    """What a function child is given."""

    def __init__(self, birth: Birth, ready: Callable[[], None]) -> None:
        self.path = birth.path
        self.name = birth.name
        self.resume_id = birth.resume_id
        self.previous = birth.previous
        self.restarts = birth.restarts
        self.ready = ready
        """to be called once it is ready, by a child that `announces`"""

    @property
    def previous_exit(self) -> int:
        """The exit code of the last life, -1 if there is none."""
        return -1 if self.previous is None else self.previous.status


class FunctionInstance(Instance):
    def __init__(
        self,
        spec: Function,
        birth: Birth,
        now: Callable[[], float],
        left_alone: "dict[str, asyncio.Task[Exit]]",
    ) -> None:
        """`left_alone` has the tasks of the tree that did not end when they were cancelled, by the child's path."""
        super().__init__()
        self._left_alone = left_alone
        self._spec = spec
        self._birth = birth
        self._now = now
        self._ready = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[Exit] | None = None
        self._asked = False

    async def start(self) -> None:
        last = self._left_alone.get(self._birth.path)
        if last is not None and not last.done():
            raise CannotStart(self._birth.path, "its last life goes on, though it was cancelled")
        self._left_alone.pop(self._birth.path, None)
        context = ChildContext(self._birth, self._is_ready)
        self._task = asyncio.get_running_loop().create_task(self._run(context), name=self._birth.path)
        self._task.add_done_callback(self._has_ended)
        if not self._spec.announces:
            return
        try:
            timeout = seconds(self._spec.start_timeout, "start_timeout")
            await asyncio.wait([self._ready, self.ended], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                raise CannotStart(self._birth.path, self.ended.result().error or "ended before it was ready")
            if not self._ready.done():
                raise CannotStart(self._birth.path, f"not ready within {timeout:g}s")
        except BaseException:
            await self.stop(seconds(self._spec.stop_timeout, "stop_timeout"))
            raise

    def _is_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _run(self, context: ChildContext) -> Exit:
        """How it ended; a cancellation it was asked for is left to whoever looks at the task."""
        code: int | None = 0
        error = ""
        try:
            takes = inspect.signature(self._spec.run).parameters
            work = self._spec.run(context) if takes else self._spec.run()  # type: ignore[call-arg]
            if not inspect.isawaitable(work):
                raise BadValue("run", self._spec.run, "an async function")
            await work
        except SystemExit as raised:
            # It means itself, not the process that it shares with the others.
            code, error = _exit_code(raised)
        except InterlockError as raised:
            code, error = None, f"{raised} ({raised.code})"
            logger.warning("%s: %s", self._birth.path, error)
        except Exception as raised:
            logger.exception("%s raised", self._birth.path)
            code, error = None, words(raised)
        return Exit(at=self._now(), code=code, error=error)

    def _has_ended(self, task: "asyncio.Task[Exit]") -> None:
        if task.cancelled():
            error = "" if self._asked else "cancelled by itself"
            self.settle(Exit(at=self._now(), code=None if error else 0, error=error))
        elif (raised := task.exception()) is not None:
            self.settle(Exit(at=self._now(), error=words(raised)))
        else:
            self.settle(task.result())

    async def stop(self, timeout: float) -> None:
        self._ask()
        if self._task is None:
            self.settle(Exit(at=self._now(), code=0))
            return
        await asyncio.wait([self.ended], timeout=timeout)
        self._abandon()

    def _ask(self) -> None:
        if self._task is not None and not self._asked:
            # Once is enough: a second time would break off what it does to end well.
            self._asked = True
            self._task.cancel()

    def kill(self) -> None:
        self._ask()
        if self._task is not None and not self.ended.done():
            asyncio.get_running_loop().call_later(LAST_MOMENT, self._abandon)

    def _abandon(self) -> None:
        if not self.ended.done():
            assert self._task is not None
            self._task.cancel()
            self._forced = True
            self._left_alone[self._birth.path] = self._task
            logger.warning("%s does not end though it was cancelled; it is left alone", self._birth.path)
            self.settle(Exit(at=self._now(), error="did not end in time when it was cancelled"))

    @property
    def can_suspend(self) -> bool:
        return self._spec.suspend is not None

    async def suspend(self) -> None:
        assert self._spec.suspend is not None
        await self._spec.suspend()

    async def resume(self) -> None:
        assert self._spec.resume is not None
        await self._spec.resume()


def _exit_code(raised: SystemExit) -> tuple[int, str]:
    """As the interpreter takes it: a number, nothing, or something to be printed."""
    if raised.code is None or isinstance(raised.code, int):
        return raised.code or 0, ""
    return 1, " ".join(str(raised.code).split())[:500]

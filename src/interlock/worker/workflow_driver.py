"""The driver of a function that is a workflow: replays it from its record, and collects the orders that it gives.

It takes the place of an event loop. It sends into the coroutine, and accepts only the parts that `WorkflowContext`
makes. Ends of steps are delivered one at a time, in the stored order, and after each one every branch runs until it
waits: so the state of the function after n ends depends on these n alone.
"""

import inspect
import linecache
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import CodeType
from typing import Any, Generic, TypeVar

import msgspec

from interlock.error import BadHandler
from interlock.model.workflow_record import RecordedStep, WorkflowRecord
from interlock.wire import turn as t

T = TypeVar("T")
NO_LOOP = "no running event loop"


class ForeignAwait(BadHandler):
    """A workflow awaited something that is not a part of it."""


class Mismatch(BaseException):
    """The function does not ask for the steps of its record."""

    def __init__(self, text: str, step: str) -> None:
        super().__init__(text)
        self.order = t.Halt(text=text, step=step)


class Part(Generic[T]):
    """Something that a workflow awaits: it has no value, has one, or has failed."""

    def __init__(self, driver: "Driver") -> None:
        self.driver = driver
        self.is_done = False
        self.error: BaseException | None = None
        self.value: Any = None
        self._listeners: list[Callable[[], None]] = []

    def __await__(self) -> Generator["Part[Any]", None, T]:
        if not self.is_done:
            yield self
        if self.error is not None:
            raise self.error
        value: T = self.value
        return value

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this once it is done."""
        if self.is_done:
            self.driver.ready.append(listener)
        else:
            self._listeners.append(listener)

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        if not self.is_done:
            self.is_done, self.value, self.error = True, value, error
            self.driver.ready.extend(self._listeners)

    def cancel(self) -> None:
        """Take it back: nobody waits for it any more."""


class Step(Part[T]):
    """A step, asked for by its name."""

    def __init__(self, driver: "Driver", name: str, read: Callable[[RecordedStep], Any]) -> None:
        super().__init__(driver)
        self.name = name
        self._read = read

    def take(self, end: RecordedStep) -> None:
        try:
            self.settle(self._read(end))
        except Exception as error:  # noqa: BLE001 - the function gets it
            self.settle(error=error)

    def cancel(self) -> None:
        if not self.is_done:
            self.driver.order(t.CancelSteps(names=[self.name]))


class Branch(Part[T]):
    """A coroutine of the workflow: the function itself, or one that `gather` or `first` got."""

    def __init__(self, driver: "Driver", coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__(driver)
        self._coroutine = coroutine
        self._waits_for: Part[Any] | None = None
        driver.branches.append(self)
        driver.ready.append(self._go_on)

    def _go_on(self) -> None:
        if self.is_done:
            return
        try:
            found: Any = self._coroutine.send(None)
            while not isinstance(found, Part):
                found = self._coroutine.throw(ForeignAwait(_foreign(self._coroutine)))
        except StopIteration as end:
            self.settle(end.value)
        except BaseException as error:  # noqa: BLE001 - whatever a function raises is its outcome
            self.settle(error=_without_loop(error) if str(error) == NO_LOOP else error)
        else:
            self._waits_for = found
            found.listen(self._go_on)
        if self.driver.mismatch is not None:
            raise self.driver.mismatch

    def cancel(self) -> None:
        if not self.is_done:
            self.is_done = True
            self.close()
            if self._waits_for is not None:
                self._waits_for.cancel()

    def close(self) -> None:
        """Let the coroutine go. It may not give orders any more, whatever it does."""
        self.driver.is_over, before = True, self.driver.is_over
        try:
            self._coroutine.close()
        except BaseException:  # noqa: BLE001 - its end is decided
            pass
        finally:
            self.driver.is_over = before


def _foreign(coroutine: Coroutine[Any, Any, Any]) -> str:
    """Say where a coroutine awaits something that is not a part of the workflow."""
    inner: Any = coroutine
    while inspect.iscoroutine(inner.cr_await) and not _is_library(inner.cr_await.cr_code):
        inner = inner.cr_await
    return _at_line(inner.cr_frame.f_code, inner.cr_frame.f_lineno)


def _without_loop(error: BaseException) -> BaseException:
    """Return the error of a function that asked for an event loop, with the line that did."""
    own, trace = None, error.__traceback__
    while trace is not None:
        own = own if _is_library(trace.tb_frame.f_code) else trace
        trace = trace.tb_next
    return error if own is None else ForeignAwait(_at_line(own.tb_frame.f_code, own.tb_lineno))


def _at_line(code: CodeType, number: int) -> str:
    line = linecache.getline(code.co_filename, number).strip()
    return (
        f"line {number} of {code.co_filename}{f' ({line})' * bool(line)} awaits something that is not a step; "
        "await only what ctx gives, such as ctx.run and ctx.sleep, and do everything else in a job"
    )


def _is_library(code: CodeType) -> bool:
    return "/asyncio/" in code.co_filename


class Driver:
    """One replay of a function from a record."""

    def __init__(self, record: WorkflowRecord, on_live: Callable[[bool], None] = lambda is_live: None) -> None:
        """`on_live` is called with whether the function does something that no earlier turn has done."""
        self.record = record
        self.ready: deque[Callable[[], None]] = deque()
        self.branches: list[Branch[Any]] = []
        self.is_over = False  # whether further orders do not count
        self.last: t.Order | None = None  # the order that ends the round
        self.mismatch: Mismatch | None = None
        self.now = record.began_at
        self._on_live = on_live
        self._delivered = 0
        self._steps: dict[str, Step[Any]] = {}
        self._orders: list[t.Order] = []

    @property
    def is_live(self) -> bool:
        """Whether no earlier turn has come this far."""
        seen, begins_with = self.record.seen, self.record.begins_with
        if seen is None:
            return begins_with is None or begins_with in self._steps
        return self._delivered > seen

    @property
    def asked(self) -> int:
        return len(self._steps)

    def knows(self, name: str) -> bool:
        return name in self._steps

    def order(self, order: t.Order) -> None:
        if not self.is_over and self.is_live:
            self._orders.append(order)

    def end_round(self, order: t.Order) -> None:
        """Give the last order of the round."""
        if not self.is_over:
            self.last, self.is_over = order, True

    def _differ(self, text: str, step: str) -> Mismatch:
        self.mismatch = Mismatch(text, step)
        return self.mismatch

    def ask(self, order: Any, read: Callable[[RecordedStep], Any]) -> Step[Any]:
        """Ask for a step. It must be the next one of the record, or a new one."""
        number, recorded = len(self._steps), self.record.steps
        if number < len(recorded) and recorded[number].name != order.name:
            expected = recorded[number].name
            text = f"the function asks for step {order.name!r} where its record has {expected!r}"
            raise self._differ(text, expected)
        step = self._steps[order.name] = Step(self, order.name, read)
        if order.name == self.record.begins_with:
            self._on_live(self.is_live)
        if number >= len(recorded):
            if not self.is_live:
                text = f"the function asks for step {order.name!r}, which its record does not have"
                raise self._differ(text, order.name)
            if not self.is_over:
                self._orders.append(order)
        return step

    def run(self, coroutine: Coroutine[Any, Any, Any], finish: Callable[[Branch[Any]], t.Order]) -> list[t.Order]:
        """Replay the function, and return its orders. `finish` makes the last one once the function has ended."""
        root = Branch(self, coroutine)
        try:
            self._on_live(self.is_live)
            self._advance(root)
            for end in self.record.ends:
                if root.is_done or self.is_over:
                    break
                self._deliver(end)
                self._advance(root)
            return self._end(root, finish)
        except Mismatch as mismatch:
            return [mismatch.order]
        finally:
            for branch in self.branches:
                branch.close()

    def _deliver(self, end: RecordedStep) -> None:
        step = self._steps.get(end.name)
        if step is None:
            raise self._differ(f"the function does not ask for step {end.name!r} of its record", end.name)
        self._delivered += 1
        self.now = max(self.now, end.at)
        self._on_live(self.is_live)
        step.take(end)

    def _advance(self, root: Branch[Any]) -> None:
        while self.ready and not root.is_done and not self.is_over:
            self.ready.popleft()()

    def _end(self, root: Branch[Any], finish: Callable[[Branch[Any]], t.Order]) -> list[t.Order]:
        if len(self._steps) < len(self.record.steps):
            missing = self.record.steps[len(self._steps)].name
            does = "ends" if root.is_done or self.last is not None else "waits"
            raise self._differ(f"the function {does} where its record has step {missing!r}", missing)
        if root.is_done or self.last is not None:
            if not self.is_live and not self.record.ended:
                last = self.record.steps[-1].name if self.record.steps else ""
                raise self._differ("the function ends where it went on before", last)
            kept = [order for order in self._orders if not isinstance(order, _STARTS)]
            return [*kept, self.last or finish(root)]
        return self._orders


_STARTS = (t.StartStep, t.StartGroup, t.Sleep, t.AskPerson, t.WaitForEvent)


def as_part(driver: Driver, awaitable: Awaitable[Any], what: str) -> Part[Any]:
    """Return a part of `gather` or `first`: a part as it is, a coroutine as a branch."""
    if isinstance(awaitable, Part):
        return awaitable
    if inspect.iscoroutine(awaitable):
        return Branch(driver, awaitable)
    raise BadHandler(f"{what}: a {type(awaitable).__name__} is not a part of a workflow; give what ctx returns")


def encode(orders: list[t.Order]) -> bytes:
    return msgspec.json.encode({"orders": orders})

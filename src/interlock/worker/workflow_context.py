"""The context of a workflow that is a function: everything that it may await."""

import random
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Never, Protocol, TypeVar, overload

import msgspec

from interlock.error import ENDS, BadResult, BadUse, BadValue, InterlockError, Rejected, TooMany
from interlock.fields import payload
from interlock.fields.duration import Duration, seconds
from interlock.fields.field_types import FieldPath
from interlock.fields.value import ResultType
from interlock.model.approval import Approved
from interlock.model.schedule.schedule import instant
from interlock.model.state import State
from interlock.model.workflow import MOST_ITEMS, QUESTION, STEP_NAME, STEP_WORD
from interlock.model.workflow_record import MOST_STEPS_A_ROUND, RecordedStep
from interlock.wire import turn as t
from interlock.worker.context import Context
from interlock.worker.workflow_driver import Driver, Step, as_part
from interlock.worker.workflow_parts import First, Gather, NextRound

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
_NAME = re.compile(STEP_NAME)
_OF_ROUND = re.compile("r[0-9]+")
_APPROVED: ResultType[Approved] = ResultType(Approved)
_DONE = (State.SUCCEEDED, State.SKIPPED)


class StepCall(Protocol[T]):
    """A call of a job, as `report.call(...)` makes it."""

    @property
    def job_id(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def options(self) -> Any: ...
    @property
    def result_type(self) -> ResultType[T] | None: ...


class StepJob(Protocol[T]):
    """A job, whose calls are made one for each item."""

    @property
    def job_id(self) -> str: ...
    @property
    def argument_names(self) -> list[str] | None: ...
    def item_maker(self) -> Callable[[int, Any], StepCall[T]]: ...


class WorkflowContext:
    """A run of a workflow, as its function sees it. The function is replayed from the record of its steps, so it must
    do nothing else than ask for steps: no input, no output, no time and no chance but those of this context."""

    def __init__(self, driver: Driver, context: Context) -> None:
        self._driver = driver
        self._context = context
        self._used: dict[str, int] = {}
        self._changes: dict[str, bool] = {}
        self._compensations = 0

    @property
    def run_id(self) -> str:
        return self._driver.record.run_id

    @property
    def round(self) -> int:
        """1, and one more after each `continue_as_new`."""
        return self._driver.record.round

    def run(
        self,
        call: StepCall[T],
        *,
        name: str | None = None,
        undo: StepCall[Any] | StepJob[Any] | None = None,
        timeout: Duration | None = None,
    ) -> Awaitable[T]:
        """Run a job or another workflow as a step, from now on; await its result. A step that does not succeed raises
        what `result()` raises, such as `RunFailed`. `name` is by default that of the job.

        `undo` runs if the step has succeeded and the workflow does not: a call, or a job, which gets those arguments
        of the step that it takes, and `result`."""
        _check_call("call", call)
        limit = None if timeout is None else seconds(timeout, "timeout")
        order = t.StartStep(
            name=self._name(call.job_id, name),
            job=call.job_id,
            payload=_raw(call.payload),
            timeout=limit,
            undo=_undo(undo, [call]),
        )
        return self._ask(order, call.result_type)

    def map(
        self,
        job: StepJob[T],
        items: Iterable[Any],
        *,
        max_parallel: int = 100,
        name: str | None = None,
        undo: StepCall[Any] | StepJob[Any] | None = None,
    ) -> Awaitable[list[T]]:
        """Run a job once for each item, at most `max_parallel` at once; await the list of results. An item is the
        argument of its run, or a mapping of arguments, or a `Call`. If one fails, the others are cancelled."""
        if not hasattr(job, "item_maker"):
            raise BadValue("job", job, "a job of an app, as @app.job returns it")
        if isinstance(max_parallel, bool) or not isinstance(max_parallel, int) or not 1 <= max_parallel <= MOST_ITEMS:
            raise BadValue("max_parallel", max_parallel, f"a whole number from 1 to {MOST_ITEMS:,}")
        call_of = job.item_maker()
        calls = [call_of(index, item) for index, item in enumerate(items)]
        if len(calls) > MOST_ITEMS:
            raise TooMany("items", len(calls), MOST_ITEMS)
        given = [_raw(call.payload) for call in calls]
        if (size := sum(map(len, given))) > payload.LIMIT:
            raise BadValue("items", size, f"at most {payload.LIMIT:,} bytes of arguments; hand on a path or a key")
        order = t.StartGroup(
            name=self._name(job.job_id, name),
            job=job.job_id,
            items=given,
            max_parallel=max_parallel,
            undo=_undo(undo, calls),
        )
        each = calls[0].result_type if calls else None
        return self._driver.ask(order, lambda end: [_typed(each, item) for item in _value(self, end)])

    @overload
    def gather(self, a: Awaitable[A], b: Awaitable[B], /) -> Awaitable[tuple[A, B]]: ...
    @overload
    def gather(self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> Awaitable[tuple[A, B, C]]: ...
    @overload
    def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
    ) -> Awaitable[tuple[A, B, C, D]]: ...
    @overload
    def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], /
    ) -> Awaitable[tuple[A, B, C, D, E]]: ...
    @overload
    def gather(self, *parts: Awaitable[T]) -> Awaitable[tuple[T, ...]]: ...
    def gather(self, *parts: Awaitable[Any]) -> Awaitable[tuple[Any, ...]]:
        """Await all of these together. If one fails, the others are cancelled. A part may be a coroutine that awaits
        steps of its own."""
        return Gather(self._driver, [as_part(self._driver, part, "gather") for part in parts])

    def first(self, *parts: Awaitable[T]) -> Awaitable[tuple[int, T]]:
        """Await the part that ends first: its place among the parts, and its value. The others are cancelled."""
        if not parts:
            raise BadUse("first", "give at least one part")
        return First(self._driver, [as_part(self._driver, part, "first") for part in parts])

    def sleep(self, duration: Duration) -> Awaitable[None]:
        """Wait for this long; the wait survives restarts."""
        return self._ask(t.Sleep(name=self._name("sleep"), seconds=seconds(duration, "duration")), None)

    def sleep_until(self, at: datetime | float | str) -> Awaitable[None]:
        """Wait for an instant; one that has passed ends the wait at once."""
        if isinstance(at, datetime) and at.tzinfo is None:
            raise BadValue("at", at, "a time with a time zone")
        return self._ask(t.Sleep(name=self._name("sleep"), until=instant(at, "at")), None)

    def approval(
        self, question: str, data: Mapping[str, Any] = {}, *, timeout: Duration = "24h"
    ) -> Awaitable[Approved]:
        """Ask a person, as `interlock approvals` shows it; await who approved it. Raise `Rejected`, or `RunTimeout` if
        nobody answers in time."""
        order = t.AskPerson(
            name=self._name("approval"),
            question=QUESTION.check(question, FieldPath("question")),
            data=msgspec.Raw(payload.encode(data, "data")),
            timeout=_limit(timeout),
        )

        def read(end: RecordedStep) -> Approved:
            if end.state is State.DENIED:
                raise Rejected(f"{self.run_id}@{end.name}", str(end.state), end.error)
            found: Approved = _typed(_APPROVED, _value(self, end))
            return found

        return self._driver.ask(order, read)

    def event(self, name: str, kind: type[T], *, timeout: Duration | None = None) -> Awaitable[T]:
        """Wait for the next event of this name; await its value. Raise `RunTimeout` if it does not come in time, and
        `BadResult` if the value is not of this kind."""
        STEP_WORD.check(name, FieldPath("name"))
        try:
            result_type: ResultType[T] = ResultType(kind)
        except (ValueError, TypeError) as error:
            raise BadValue("kind", kind, f"a type that JSON can carry: {error}") from None
        limit = None if timeout is None else _limit(timeout)
        return self._ask(t.WaitForEvent(name=self._name(name), event=name, timeout=limit), result_type)

    def send(self, to: str, name: str, value: Any = None) -> Awaitable[None]:
        """Send an event to another workflow run of the tenant, from now on; await it to know that it was taken."""
        if not isinstance(to, str) or not to:
            raise BadValue("to", to, "the id of a workflow run")
        STEP_WORD.check(name, FieldPath("name"))
        data = msgspec.Raw(payload.encode(value, "value"))
        return self._ask(t.SendTo(name=self._name("send"), to=to, event=name, value=data), None)

    def compensate(self, call: StepCall[Any]) -> None:
        """Run this call if the workflow does not succeed, in turn with the `undo` of its steps."""
        _check_call("call", call)
        undo = t.UndoStep(call.job_id, _literal(msgspec.json.decode(call.payload or b"{}")))
        self._compensations += 1
        self._driver.order(t.Compensate(number=self._compensations, undo=undo))

    def publish(self, name: str, value: Any) -> None:
        """Show a value with the run while it is under way, under this name."""
        _check_text("name", name)
        self._driver.order(t.Publish(name=name, value=msgspec.Raw(payload.encode(value, "value"))))

    def changed(self, name: str) -> bool:
        """Return whether this run comes here for the first time with code that asks for this change. A run that has
        passed here before, with the old code, gets False for good."""
        _check_text("name", name)
        driver = self._driver
        if name not in self._changes:
            self._changes[name] = name in driver.record.changes or driver.is_live
            if self._changes[name] and name not in driver.record.changes:
                driver.order(t.NoteChange(name=name))
        return self._changes[name]

    def continue_as_new(self, call: StepCall[Any]) -> Awaitable[Never]:
        """Begin another round of this run with these arguments and an empty record; await it to end this one."""
        _check_call("call", call)
        if call.job_id != self._driver.record.workflow:
            raise BadUse("call", f"calls {call.job_id!r}; a round continues {self._driver.record.workflow!r} itself")
        return NextRound(self._driver, t.NextRound(payload=_raw(call.payload)))

    @cached_property
    def _random(self) -> random.Random:
        record = self._driver.record
        return random.Random(f"{record.seed or record.run_id}/{record.round}")

    def now(self) -> datetime:
        """Return the time at which the latest step ended that the function has seen, or else its own start."""
        return datetime.fromtimestamp(self._driver.now, UTC)

    def random(self) -> float:
        """Return a number from 0 to 1: the same one in every replay."""
        return self._random.random()

    def uuid(self) -> uuid.UUID:
        """Return an id: the same one in every replay."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def log(self, text: object) -> None:
        """Add a line to the log of the run, once."""
        self._context.log(text)

    def _name(self, job_id: str, given: str | None = None) -> str:
        """Return the name of the next step: as it is given, or that of its job with a number."""
        if self._driver.asked >= MOST_STEPS_A_ROUND:
            raise TooManySteps(MOST_STEPS_A_ROUND)
        if given is not None:
            if not isinstance(given, str) or not _NAME.fullmatch(given) or _OF_ROUND.fullmatch(given):
                raise BadValue("name", given, f"{STEP_WORD.expected}, and not r with a number")
            if self._driver.knows(given):
                raise BadUse("name", f"{given!r} is the name of an earlier step; give each its own")
            return given
        base = re.sub("[^A-Za-z0-9_]", "_", job_id.rpartition(".")[2])[:56]
        if not _NAME.fullmatch(base) or _OF_ROUND.fullmatch(base) or base == "comp":  # `comp-2` would undo step 2
            base = f"_{base}"
        while True:
            number = self._used[base] = self._used.get(base, 0) + 1
            name = base if number == 1 else f"{base}-{number}"
            if not self._driver.knows(name):
                return name

    def _ask(self, order: Any, result_type: ResultType[T] | None) -> Step[T]:
        return self._driver.ask(order, lambda end: _typed(result_type, _value(self, end), f"{self.run_id}@{end.name}"))


class TooManySteps(InterlockError, code="too_many_steps"):
    """A round of a workflow has as many steps as it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"steps: a round has at most {most:,}; use continue_as_new")


def _undo(undo: Any, calls: Sequence[StepCall[Any]]) -> t.UndoStep | None:
    """Return the compensation of steps that make these calls."""
    if undo is None:
        return None
    if isinstance(getattr(undo, "payload", None), bytes):
        _check_call("undo", undo)
        return t.UndoStep(undo.job_id, _literal(msgspec.json.decode(undo.payload or b"{}")))
    if not hasattr(undo, "argument_names"):
        raise BadValue("undo", undo, "a job of an app, or a call of one")
    names = undo.argument_names
    if names is None or not calls:
        return t.UndoStep(undo.job_id)
    given = set.intersection(*(set(msgspec.json.decode(call.payload or b"{}")) for call in calls))
    arguments = {name: f"${{input.{name}}}" for name in names if name in given}
    return t.UndoStep(undo.job_id, arguments | ({"result": "${result}"} if "result" in names else {}))


def _literal(value: Any) -> Any:
    """Return a template that stands for just this value."""
    if type(value) is dict:
        return {name: _literal(item) for name, item in value.items()}
    if type(value) is list:
        return [_literal(item) for item in value]
    return value.replace("${", "$${") if type(value) is str else value


def _limit(timeout: Duration) -> float:
    if (found := seconds(timeout, "timeout")) <= 0:
        raise BadValue("timeout", timeout, "a duration above zero")
    return found


def _raw(data: bytes) -> msgspec.Raw:
    return msgspec.Raw(data or b"null")


def _value(context: WorkflowContext, end: RecordedStep) -> Any:
    """Return the result of a step as JSON; raise the error of one that did not succeed."""
    if end.state in _DONE:
        return msgspec.json.decode(end.result)
    raise ENDS[str(end.state)](f"{context.run_id}@{end.name}", str(end.state), end.error)


def _typed(result_type: ResultType[Any] | None, value: Any, where: str = "") -> Any:
    if result_type is None:
        return value
    try:
        return result_type.read(value)
    except Exception as error:
        raise BadResult(where, value, error) from error


def _check_call(field: str, call: object) -> None:
    if not isinstance(getattr(call, "payload", None), bytes):
        raise BadValue(field, call, "a call of a job, as report.call(...) makes it")
    if options := getattr(call, "options", None):
        raise BadUse(f"{field}.{min(options)}", "a step has no options of a submit; use those of its job")


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 64:
        raise BadValue(field, value, "a text of 1 to 64 characters")

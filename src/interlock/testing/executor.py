"""Attempts in the process of the test, on its virtual loop, and the output of their functions."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from interlock.fields import payload
from interlock.fields.secret import from_json
from interlock.model.failure import Outcome
from interlock.model.work import FunctionWork, Work
from interlock.ports.clock import Clock
from interlock.ports.executor import Executor, Key, Report
from interlock.testing.patient_loop import PatientLoop
from interlock.wire import message as m
from interlock.worker.app_loader import Functions
from interlock.worker.attempt_end import AttemptEnd, Estimator, end_of_error, end_of_result, estimate
from interlock.worker.context import STREAM_LEVELS, Context
from interlock.worker.definition import Definition
from interlock.worker.output_capture import Capture, CapturedStream, present
from interlock.worker.pool import how_ended
from interlock.worker.workflow_turn import take_turn

ProgramStandIn = Callable[[Sequence[str], Mapping[str, Any]], int]  # command and payload of a program → its exit code


class LocalExecutor(Executor):
    """Runs the functions of an app on the loop. A blocking function holds the loop, so it takes no virtual time.
    `program` stands in for the programs of jobs."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        loop: PatientLoop,
        clock: Clock,
        state: Any,
        estimator: Estimator | None = None,
        program: ProgramStandIn = lambda command, given: 0,
    ) -> None:
        self._definitions = definitions
        self._functions = Functions()  # those that jobs of files name
        self._program = program
        self._estimator = estimator
        self._loop = loop
        self._clock = clock
        self._state = state
        self._report: Report = lambda message: None
        self._attempts: dict[Key, tuple[asyncio.Task[None], Context]] = {}

    async def open(self, report: Report) -> None:
        self._report = report

    def start(self, attempt: m.Dispatch) -> None:
        key = attempt.key
        context = Context(attempt, self._send)
        context.state = self._state
        task = self._loop.create_task(self._run(key, attempt, context))
        # A task that is cancelled before its first step never runs, so it cannot report itself.
        task.add_done_callback(lambda _: self._finish(key, AttemptEnd(Outcome.CANCELLED)))
        self._attempts[key] = task, context
        self._report(m.Started(*key))

    async def _run(self, key: Key, attempt: m.Dispatch, context: Context) -> None:
        capture = Capture(context)
        capture.enter()
        try:
            if attempt.work is not None and not attempt.work.is_function:
                end = self._run_program(attempt.work, attempt)
            else:
                end = await self._run_function(attempt, context)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            is_stopped = isinstance(error, asyncio.CancelledError) and context.cancelled
            end = AttemptEnd(Outcome.CANCELLED) if is_stopped else end_of_error(error, context)
        if self._estimator is not None:
            estimate(self._estimator, context)
        capture.end()
        self._finish(key, end)

    async def _run_function(self, attempt: m.Dispatch, context: Context) -> AttemptEnd:
        definition, work = self._definitions.get(attempt.handler), attempt.work
        if isinstance(work, FunctionWork):
            definition = self._functions.known(work.function) or self._functions.load(attempt.job_id, work.function)
        assert definition is not None
        context.secret_arguments = definition.job.secrets
        if attempt.record is not None:
            asyncio._set_running_loop(None)
            try:
                return take_turn(definition, attempt.record, context)
            finally:
                asyncio._set_running_loop(self._loop)
        arguments = definition.arguments_of(context)
        if definition.is_async:
            result = await definition.handler(**arguments)
        else:
            # A worker runs it in a thread without a loop.
            asyncio._set_running_loop(None)
            try:
                result = definition.handler(**arguments)
            finally:
                asyncio._set_running_loop(self._loop)
        return end_of_result(result, definition, context)

    def _run_program(self, work: Work, attempt: m.Dispatch) -> AttemptEnd:
        code = self._program(work.words, from_json(payload.decode(attempt.payload or payload.EMPTY)))
        if code == 0:
            return AttemptEnd(Outcome.SUCCEEDED, exit_code=0)
        return AttemptEnd(Outcome.FAILED, error=how_ended(code), exit_code=code)

    def _finish(self, key: Key, end: AttemptEnd) -> None:
        if self._attempts.pop(key, None) is not None:
            self._report(m.Finished(*key, **end._asdict()))

    def _send(self, message: m.Message) -> None:
        """Report a line, progress or a checkpoint; from any thread."""
        if isinstance(message, m.LogMessage):
            message = replace(message, at=self._clock.now().wall)
        if not self._loop.is_here():
            self._loop.call_soon_threadsafe(self._report, message)
            return
        running = asyncio._get_running_loop()  # none within a plain function
        asyncio._set_running_loop(self._loop)
        try:
            self._report(message)
        finally:
            asyncio._set_running_loop(running)

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        if (begun := self._attempts.get(attempt.key)) is not None:
            task, context = begun
            context.stop_reason = reason
            task.cancel()
        return False

    def kill(self, attempt: m.Dispatch) -> None:
        """Give up an attempt that ignored its stop, as the death of its process would."""
        if (begun := self._attempts.pop(attempt.key, None)) is not None:
            begun[0].cancel()
            self._report(m.Lost(*attempt.key, "it ignored its stop"))

    async def close(self) -> None:
        tasks = [task for task, _ in self._attempts.values()]
        self._attempts.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Records(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (capture := present()) is not None:
            capture.context.add_line(self.format(record), record.levelname.lower(), record.name)


class _TestStream(CapturedStream):
    def write(self, text: str) -> int:
        super().write(text)
        capture = present()
        return len(text) if capture is None or capture.context.is_full else self._original.write(text)


@contextmanager
def captured() -> Iterator[None]:
    """Log what functions print or log, from the level info on, as a worker does. It goes to the terminal too."""
    root, handler, streams = logging.root, _Records(), {name: getattr(sys, name) for name in STREAM_LEVELS}
    level = root.level
    root.setLevel(min(level, logging.INFO))
    root.addHandler(handler)
    for name, stream in streams.items():
        setattr(sys, name, _TestStream(name, stream))
    try:
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        root.removeHandler(handler)
        root.setLevel(level)

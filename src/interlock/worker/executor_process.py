"""An executor process: loads the app, if there is one, and runs attempts, async ones on its loop, blocking ones in
threads. A function that a job names itself is loaded when first needed, in the thread of that attempt.

The loop reads from the host. While there is work, a thread watches the loop, and reads in its place when a handler
blocks it, so that the process still receives stops, and returns attempts that have not begun. When the host is gone,
this process ends itself.

A process for one attempt at a time runs all of them on its main thread, and reads in another. So does one for turns,
which may hold many: it takes them one after the other.
"""

import asyncio
import contextvars
import os
import queue
import select
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NoReturn

import msgspec

from interlock import runtime
from interlock.error import InterlockError
from interlock.fields.secret import matcher
from interlock.model.failure import Outcome
from interlock.model.work import FunctionWork
from interlock.ports.clock import elapsed
from interlock.ports.executor import Key
from interlock.wire import frames
from interlock.wire import message as m
from interlock.worker import output_capture
from interlock.worker.app_loader import Functions, load_app
from interlock.worker.attempt_end import AttemptEnd, Estimator, end_of_error, end_of_result, estimate
from interlock.worker.context import Context, Pacer
from interlock.worker.definition import Definition
from interlock.worker.lifespan import Lifespan, lifespan_of, problem_of
from interlock.worker.limits import end_group, end_with_parent, limit_memory, prefer_for_oom
from interlock.worker.outbox import Copies, Outbox
from interlock.worker.output_capture import Capture
from interlock.worker.pool import ExecutorOptions
from interlock.worker.threads import MainThread, ThreadPool
from interlock.worker.workflow_turn import take_turn

BLOCKED = 0.25  # seconds without a turn of the loop after which the watching thread reads


class ExecutingAttempt(msgspec.Struct, eq=False):
    """An attempt in this process, until its end is reported."""

    key: Key
    dispatch: m.Dispatch
    definition: Definition | None  # None until it is loaded
    context: Context
    capture: Capture
    task: asyncio.Task[None] | None = None  # None for one in a thread
    entered: bool = False
    reported: bool = False


class ExecutorProcess:
    def __init__(
        self,
        link: socket.socket,
        definitions: dict[str, Definition],
        options: ExecutorOptions,
        lifespan: Lifespan | None = None,
        estimator: Estimator | None = None,
    ) -> None:
        self._link = link
        self._definitions = definitions
        self._lifespan = lifespan
        self._estimator = estimator
        self._functions = Functions()
        self._is_secret = matcher(tuple(options.secret_names))
        self._takes_turns = options.turns
        self._loop = runtime.new_event_loop()
        self._main = MainThread(self._loop)
        self._threads = self._main if options.isolated else ThreadPool()
        self._lock = threading.Lock()
        self._pacer = Pacer()
        self._outbox = Outbox(link, options.isolated)
        self.send_now = self._outbox.send
        self._copies = Copies(self._take_from_copy, self._become_copy)
        self._pending: dict[Key, ExecutingAttempt] = {}  # not begun; whoever removes one begins or returns it
        self._turns: queue.SimpleQueue[tuple[ExecutingAttempt, Definition, bytes]] = queue.SimpleQueue()
        self._arrived: list[ExecutingAttempt] = []
        self._active: dict[Key, ExecutingAttempt] = {}
        self._reader = frames.FrameReader()
        self._reading = threading.Lock()
        self._busy = threading.Event()  # set while the loop is watched

    def run(self) -> None:
        """Work until the host is gone, or asks this process to leave. Raise if the lifespan cannot be entered."""
        self._loop.set_exception_handler(output_capture.report_in_context)
        if self._lifespan is not None:
            self._loop.run_until_complete(self._lifespan.enter(lambda error: self.send_now(problem_of(error))))
        codes = {job_id: one.job.code for job_id, one in self._definitions.items()}
        self.send_now(m.ExecutorReady(codes, self._lifespan is not None))
        if self._threads is not self._main:
            self._loop.add_reader(self._link.fileno(), self._read)
            # The loop has made it non-blocking, but sending must wait for room, or a large result would be lost.
            self._link.setblocking(True)
        watch = self._listen if self._threads is self._main else self._watch
        threading.Thread(target=watch, name="watch", daemon=True).start()
        try:
            if self._takes_turns:
                self._take_turns()
            else:
                self._main.run_forever()
        finally:
            # Whatever ended the loop ends the process, so that its host notices without waiting for threads.
            os._exit(1)

    def _leave(self) -> NoReturn:
        """End in order; there are no attempts."""
        if self._lifespan is not None and (error := self._loop.run_until_complete(self._lifespan.leave())):
            self.send_now(problem_of(error))
        os._exit(0)

    def _become_copy(self, original: socket.socket | None) -> None:
        """In a process that a handler forked, begin nothing, and leave the link to the original."""
        self._pending.clear()
        self._outbox.become_copy(original)
        output_capture.become_copy(self.send_now)

    def _take_from_copy(self, message: m.Message) -> None:
        """Send on what a forked process reports of its attempt, without secrets, and with the next number."""
        assert isinstance(message, m.OfAttempt)
        attempt = self._active.get((message.run_id, message.fence))
        if not isinstance(message, m.LogMessage):
            self.send_now(*([] if attempt is None else [message]))
        elif attempt is None:
            sys.stdout.write(f"{message.text}\n")
        elif message.level == m.CHUNKS:
            attempt.context.take_chunks(message.text)
        else:
            attempt.context.add_line(message.text, message.level, message.logger, message.at)

    def _send_soon(self, message: m.Message) -> None:
        """On the loop, send together with the other messages of this turn."""
        if self._outbox.add(message):
            self._loop.call_soon(self.send_now)

    def _read(self) -> None:
        """Receive, on the loop or in the watching thread."""
        with self._reading:
            try:
                data = self._link.recv(262_144, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if self._link.fileno() < 0:
                # This is a copy that a handler forked, in the group of the original.
                return
            if not data:
                end_group()
            for messages in self._reader.feed(data):
                self._take(messages)

    def _listen(self) -> None:
        while True:
            select.select([self._link], [], [])
            self._read()

    def _watch(self) -> None:
        """While there is work, check that the loop turns; while it does not, read in its place."""
        while True:
            self._busy.wait()
            turned = threading.Event()
            self._loop.call_soon_threadsafe(turned.set)
            while not turned.wait(BLOCKED):
                readable, _, _ = select.select([self._link], [], [], 0)
                if readable:
                    self._read()
            self._busy.clear()
            if self._active or self._pending:
                self._busy.set()
            threading.Event().wait(BLOCKED)

    def _take(self, messages: Sequence[m.Message]) -> None:
        wake = False
        for message in messages:
            if isinstance(message, m.Dispatch):
                wake = self._receive(message) or wake
            elif isinstance(message, m.Stop):
                self._stop((message.run_id, message.fence), message.reason)
            elif isinstance(message, m.Drain):
                self._main.submit(self._leave)
            elif isinstance(message, m.Revoke) and self._pending.pop((message.run_id, message.fence), None) is not None:
                self.send_now(m.Revoked(message.run_id, message.fence))
        if wake and threading.current_thread() is threading.main_thread():
            self._begin_arrived()
        elif wake:
            self._loop.call_soon_threadsafe(self._begin_arrived)

    def _receive(self, dispatch: m.Dispatch) -> bool:
        """Return whether the loop has something to begin."""
        work = dispatch.work
        if isinstance(work, FunctionWork):
            definition = self._functions.known(work.function)
        elif (definition := self._definitions.get(dispatch.handler)) is None:
            text = f"this worker's app has no job {dispatch.handler!r}"
            self.send_now(m.Finished(dispatch.run_id, dispatch.fence, Outcome.FAILED, None, text))
            return False
        secrets = definition.job.secrets if definition is not None else ()
        context = Context(dispatch, self.send_now, secrets, self._is_secret)
        context.pacer = self._pacer
        if self._lifespan is not None:
            context.state = self._lifespan.state
        attempt = ExecutingAttempt(context.key, dispatch, definition, context, Capture(context))
        self._pending[attempt.key] = attempt
        self._busy.set()
        if dispatch.record is not None and definition is not None:
            self._turns.put((attempt, definition, dispatch.record))
            return False
        if definition is not None and definition.is_async:
            with self._lock:
                self._arrived.append(attempt)
            return True
        # Its own context, so that the next attempt in the same thread does not see the variables of this one.
        self._threads.submit(partial(contextvars.Context().run, self._run_in_thread, attempt))
        return False

    def _stop(self, key: Key, reason: str) -> None:
        if (attempt := self._pending.pop(key, None)) is not None:
            self.send_now(m.Finished(*key, Outcome.CANCELLED))
        elif (attempt := self._active.get(key)) is not None:
            attempt.context.stop_reason = reason
            if attempt.definition is not None and attempt.definition.is_async:
                self._loop.call_soon_threadsafe(self._cancel_task, attempt)

    def _cancel_task(self, attempt: ExecutingAttempt) -> None:
        if attempt.task is not None and not attempt.reported:
            if not attempt.entered:
                # A task that is cancelled before its first step never runs, so it cannot report itself.
                self._report(attempt, AttemptEnd(Outcome.CANCELLED))
            attempt.task.cancel()

    def _begin(self, attempt: ExecutingAttempt) -> bool:
        key = attempt.key
        self._active[key] = attempt
        is_here = self._pending.pop(key, None) is not None
        if is_here and elapsed() <= attempt.dispatch.begin_by:
            return True
        del self._active[key]
        if is_here:
            self.send_now(m.Expired(*key))
        return False

    def _begin_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        begun = [attempt for attempt in arrived if self._begin(attempt)]
        self.send_now(*map(_start, begun))
        for attempt in begun:
            assert attempt.definition is not None
            attempt.task = self._loop.create_task(self._run_async(attempt, attempt.definition))

    async def _run_async(self, attempt: ExecutingAttempt, definition: Definition) -> None:
        attempt.entered = True
        attempt.capture.enter()
        try:
            result = await definition.handler(**definition.arguments_of(attempt.context))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            if isinstance(error, asyncio.CancelledError) and attempt.context.cancelled:
                self._report(attempt, AttemptEnd(Outcome.CANCELLED))
            else:
                self._report(attempt, end_of_error(error, attempt.context))
        else:
            self._report(attempt, end_of_result(result, definition, attempt.context))

    def _run_in_thread(self, attempt: ExecutingAttempt) -> None:
        if not self._begin(attempt):
            return
        self.send_now(_start(attempt))
        attempt.capture.enter()
        definition = attempt.definition or self._load(attempt)
        if definition is None:
            return
        if definition.is_async:
            self._loop.call_soon_threadsafe(self._go_on_async, attempt, definition)
            return
        try:
            result = definition.handler(**definition.arguments_of(attempt.context))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its outcome
            self._report(attempt, end_of_error(error, attempt.context))
        else:
            self._report(attempt, end_of_result(result, definition, attempt.context))

    def _take_turns(self) -> None:
        """Take turns one after the other. The end of one is sent together with the start of the next."""
        while True:
            contextvars.Context().run(self._take_turn, *self._turns.get())
            if self._turns.empty():
                self.send_now()

    def _take_turn(self, attempt: ExecutingAttempt, definition: Definition, record: bytes) -> None:
        if self._begin(attempt):
            self.send_now(_start(attempt))
            attempt.capture.enter()
            self._report(attempt, take_turn(definition, record, attempt.context))

    def _load(self, attempt: ExecutingAttempt) -> Definition | None:
        """Load the function that the job names; return None if the attempt has ended here: it failed, or must stop."""
        assert isinstance(attempt.dispatch.work, FunctionWork)
        try:
            definition = self._functions.load(attempt.dispatch.job_id, attempt.dispatch.work.function)
        except BaseException as error:  # noqa: BLE001 - whatever a module does, the run must end
            self._report(attempt, end_of_error(error, attempt.context, Outcome.FAILED))
            return None
        output_capture.carry_to_processes()
        attempt.definition = definition
        attempt.context.secret_arguments = definition.job.secrets
        if attempt.context.cancelled:
            self._report(attempt, AttemptEnd(Outcome.CANCELLED))
            return None
        return definition

    def _go_on_async(self, attempt: ExecutingAttempt, definition: Definition) -> None:
        """On the loop, go on with an attempt whose function was loaded in a thread."""
        if attempt.context.cancelled:
            self._report(attempt, AttemptEnd(Outcome.CANCELLED))
        else:
            attempt.task = self._loop.create_task(self._run_async(attempt, definition))

    def _report(self, attempt: ExecutingAttempt, end: AttemptEnd) -> None:
        if self._link.fileno() < 0:
            # This is a copy that a handler forked: the one it was copied from reports.
            attempt.capture.flush()
            os._exit(1)
        attempt.reported = True
        if self._threads is self._main:
            self._main.reset_signals()
        if self._estimator is not None:
            estimate(self._estimator, attempt.context)
        self._copies.drain()
        attempt.capture.end()
        self._active.pop(attempt.key, None)
        send: Callable[[m.Message], object] = self._outbox.add
        if not self._takes_turns:
            send = self.send_now if attempt.task is None else self._send_soon
        outcome, result, error, exit_code, failure = end
        send(m.Finished(*attempt.key, outcome, result, error, exit_code, elapsed(), failure=failure))


def _start(attempt: ExecutingAttempt) -> m.Started:
    """Reported before it begins, because a message on the link outlives this process."""
    return m.Started(*attempt.key, elapsed())


def main() -> None:
    link, options = socket.socket(fileno=int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=ExecutorOptions)
    link.set_inheritable(False)
    end_with_parent()
    prefer_for_oom()
    output_capture.install(options.isolated and not options.turns, options.log_format == "json")
    sys.path.extend(part for part in options.path if part not in sys.path)

    def give_up(error: InterlockError) -> NoReturn:
        with suppress(OSError):
            link.sendall(frames.encode([problem_of(error)]))
        os._exit(3)

    try:
        app = None if options.app is None else load_app(options.app)
        limit_memory(options.memory_limit)
        definitions = {} if app is None else app.definitions
        lifespan = None if options.turns else lifespan_of(app, options.lifespan_timeout, give_up)
        estimator = None if app is None else app.estimator
        ExecutorProcess(link, definitions, options, lifespan, estimator).run()
    except InterlockError as error:
        give_up(error)

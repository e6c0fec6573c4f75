"""The executor of functions: they run in executor processes, never in the worker's own.

Most attempts share one process. An attempt that needs a process of its own gets one. When a process dies, its attempts
are reported as lost. When a handler blocks the shared process's loop, attempts that have not begun move to a new one;
the blocked process ends when it is empty.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import force_setattr

from interlock.error import InterlockError, rebuild
from interlock.fields.secret import SECRET_NAMES
from interlock.model.failure import Outcome
from interlock.ports.clock import elapsed
from interlock.ports.executor import Executor, Key, Report
from interlock.task_set import TaskSet
from interlock.wire import message as m
from interlock.worker.executor_child import ExecutorChild, FunctionAttempt

FIRST, LONGEST = 0.5, 30.0  # seconds between two starts


class WaitingAttempt:
    """An attempt without a process, which ends as soon as it must stop."""

    def __init__(self, dispatch: m.Dispatch, ended: Callable[[Key, m.Message], None]) -> None:
        self.dispatch = dispatch
        self._ended = ended
        self.is_over = False

    def stop(self, reason: str = "") -> bool:
        if not self.is_over:
            self.is_over = True
            self._ended(self.dispatch.key, m.Finished(*self.dispatch.key, Outcome.CANCELLED))
        return False

    def kill(self) -> None:
        self.stop()


class HeldBack:
    def __init__(self, start: Callable[[m.Dispatch], None], ended: Callable[[Key, m.Message], None]) -> None:
        self._start = start
        self._ended = ended
        self._waiting: list[WaitingAttempt] = []
        self._failures = 0
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return asyncio.get_running_loop().time() < self._until

    def start_failed(self) -> None:
        """Count a failed start; several processes that fail together count once."""
        if not self.is_on:
            delay = min(FIRST * 2**self._failures, LONGEST)
            self._failures = min(self._failures + 1, 10)
            self._until = asyncio.get_running_loop().time() + delay

    def start_worked(self) -> None:
        self._failures, self._until = 0, 0.0

    def keep(self, dispatch: m.Dispatch) -> WaitingAttempt:
        """Keep an attempt until the next process may start."""
        if not self._waiting:
            asyncio.get_running_loop().call_at(self._until, self._go_on)
        self._waiting.append(WaitingAttempt(dispatch, self._ended))
        return self._waiting[-1]

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for attempt in waiting:
            if not attempt.is_over:
                self._start(attempt.dispatch)


logger = logging.getLogger("interlock.worker")

STALL = 2.0  # seconds that an attempt may wait in a process before that counts as blocked


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an executor process, as one JSON argument."""

    app: str | None = None
    memory_limit: int = 0
    path: Sequence[str] = ()
    secret_names: Sequence[str] = SECRET_NAMES
    lifespan_timeout: float = 60.0
    log_format: str = "text"
    isolated: bool = False  # one attempt at a time, on the main thread
    turns: bool = False  # likewise, and only turns of workflows: without the lifespan of the app


class ProcessPool(Executor):
    def __init__(
        self,
        options: ExecutorOptions,
        processes: int,
        on_fault: Callable[[InterlockError | None], object] = lambda _: None,
    ) -> None:
        """`processes` of those for one attempt each are kept when they are idle. `on_fault` gets why a later process
        could not start, and None when the next one could."""
        self.options = options
        self.jobs: dict[str, str] = {}  # of the app, once it is started, with the digests of their code
        self._processes = processes
        self._report: Report = lambda message: None
        self._children: list[ExecutorChild] = []
        self._attempts: dict[Key, FunctionAttempt | WaitingAttempt] = {}
        self._held_back = HeldBack(self._start_again, self._attempt_ended)
        self._on_fault = on_fault
        self._has_fault = False
        self._shared: ExecutorChild | None = None
        self._turns: ExecutorChild | None = None
        self._loading: asyncio.Future[dict[str, str]] | None = None
        self._tasks = TaskSet()
        self._checking = False
        self._closing = False

    async def open(self, report: Report) -> None:
        """Start the shared process and wait until it has loaded the app and entered its lifespan; raise why it could
        not. Without an app, it starts when first needed."""
        self._report = report
        if self.options.app is not None:
            self._loading = asyncio.get_running_loop().create_future()
            self._shared = self._spawn(False)
            self.jobs = await self._loading

    def _spawn(self, isolated: bool, turns: bool = False) -> ExecutorChild:
        child = ExecutorChild(self, isolated, turns)
        self._children.append(child)
        self._tasks.begin(child.open())
        return child

    def start(self, attempt: m.Dispatch) -> None:
        key = attempt.key
        if attempt.record is not None:
            child = self._turn_child()
        else:
            child = self._own_child() if attempt.isolated else self._shared_child()
        if child is None:
            self._attempts[key] = self._held_back.keep(attempt)
            return
        begun = FunctionAttempt(child, key, attempt, asyncio.get_running_loop().time())
        self._attempts[key] = child.attempts[key] = begun
        child.send(attempt)
        if not attempt.isolated or attempt.record is not None:
            self._check_later()

    def _attempt_ended(self, key: Key, message: m.Message) -> None:
        del self._attempts[key]
        self._report(message)

    def _shared_child(self) -> ExecutorChild | None:
        """Return the shared process; None if a new one must not start yet."""
        if (self._shared is None or self._shared.retired) and not self._held_back.is_on:
            self._shared = self._spawn(False)
        return None if self._shared is None or self._shared.retired else self._shared

    def _turn_child(self) -> ExecutorChild | None:
        """Return the process for turns of workflows; None if a new one must not start yet."""
        if (self._turns is None or self._turns.retired) and not self._held_back.is_on:
            self._turns = self._spawn(True, True)
        return None if self._turns is None or self._turns.retired else self._turns

    def _own_child(self) -> ExecutorChild | None:
        for child in self._children:
            if child.isolated and not child.turns and not child.attempts and not child.retired:
                return child
        return None if self._held_back.is_on else self._spawn(True)

    def has_spare(self) -> bool:
        """Return whether more processes are idle than are kept."""
        idle = sum(child.isolated and not (child.turns or child.attempts) for child in self._children)
        return idle > self._processes

    def stop(self, attempt: m.Dispatch, reason: str) -> bool:
        begun = self._attempts.get(attempt.key)
        return begun is not None and begun.stop(reason)

    def kill(self, attempt: m.Dispatch) -> None:
        if (begun := self._attempts.get(attempt.key)) is not None:
            begun.kill()

    async def close(self) -> None:
        self._closing = True
        for child in self._children:
            if child.attempts:
                child.signal(signal.SIGKILL)
            else:
                child.leave()
        while self._children:
            await asyncio.wait([child.gone for child in self._children])

    def heard(self, child: ExecutorChild, message: m.Message) -> None:
        if isinstance(message, (m.Started, m.Finished)):
            if message.ago:
                # Between an executor process and its host, `ago` is an instant of the machine's elapsed time.
                force_setattr(message, "ago", max(0.0, elapsed() - message.ago))
            child.heard_at = asyncio.get_running_loop().time()
        if isinstance(message, (m.Finished, m.Expired, m.Revoked)):
            self._take_back(child, message)
        elif isinstance(message, m.Started):
            if (attempt := child.attempts.get(message.key)) is not None:
                attempt.sent_at = None
            self._report(message)
        elif isinstance(message, m.ExecutorReady):
            child.ready = True
            child.has_lifespan = message.has_lifespan
            now = asyncio.get_running_loop().time()
            for attempt in child.attempts.values():
                attempt.sent_at = now
            self._loaded(message.jobs)
        elif isinstance(message, m.Problem):
            text, _, note = message.text.partition("\n")
            error = rebuild(message.code, text)
            error.add_note(note)
            self._troubled(child, error)
        else:
            self._report(message)

    def _take_back(self, child: ExecutorChild, message: m.Finished | m.Expired | m.Revoked) -> None:
        attempt = child.attempts.pop(message.key, None)
        if attempt is None:
            return
        del self._attempts[attempt.key]
        if isinstance(message, m.Revoked):
            self._move(attempt)
        else:
            # If it had to stop, it may have left processes behind: its process ends too.
            child.retired |= child.isolated and attempt.stopping is not None
            self._report(message)
        child.end_if_done()

    def _loaded(self, jobs: dict[str, str]) -> None:
        self._held_back.start_worked()
        if self._has_fault:
            self._has_fault = False
            self._on_fault(None)
        if self._loading is not None and not self._loading.done():
            self._loading.set_result(jobs)

    def _troubled(self, child: ExecutorChild, error: InterlockError) -> None:
        """Take the reason why a process cannot start, or why its lifespan has ended badly."""
        if self._loading is not None and not self._loading.done():
            self._loading.set_exception(error)
            return
        logger.error("executor process %d: %s", child.process.pid, error, exc_info=error)
        if child.ready:
            child.retire()
            child.end_if_done()
        else:
            child.fault = str(error)
            self._has_fault = True
            self._held_back.start_failed()
            self._on_fault(error)

    def ended(self, child: ExecutorChild, exit_code: int) -> None:
        self._children.remove(child)
        self._shared = None if self._shared is child else self._shared
        self._turns = None if self._turns is child else self._turns
        how = how_ended(exit_code)
        at_start = InterlockError(f"an executor process ended at start ({how})")
        if self._loading is not None and not self._loading.done():
            self._loading.set_exception(at_start)
        elif child.attempts and not (child.ready or child.fault or child.retired or self._closing):
            self._troubled(child, at_start)
        for key, attempt in child.attempts.items():
            del self._attempts[key]
            if child.fault:
                self._report(m.Returned(*key, f"no process could be started: {child.fault}"))
            elif child.killed and not attempt.is_target:
                self._report(m.Returned(*key, "its process was killed to stop another run"))
            else:
                # An attempt that had not begun did not cause this: it is reported without an exit code.
                code = exit_code if attempt.sent_at is None else None
                self._report(m.Lost(*key, f"its process {how}", code))

    def _move(self, attempt: FunctionAttempt) -> None:
        """Begin an attempt that a retired process has returned in another one."""
        if attempt.stopping is not None:
            self._report(m.Finished(*attempt.key, Outcome.CANCELLED))
        else:
            self._start_again(attempt.dispatch)

    def _start_again(self, dispatch: m.Dispatch) -> None:
        if self._closing:
            return
        try:
            self.start(dispatch)
        except OSError as error:
            self._attempts.pop(dispatch.key, None)
            self._report(m.Returned(*dispatch.key, f"no process could be started: {error}"))

    def _check_later(self) -> None:
        if not self._checking:
            self._checking = True
            asyncio.get_running_loop().call_later(STALL / 2, self._check_blocked)

    def _check_blocked(self) -> None:
        """Check that the shared process and the one for turns begin their attempts."""
        self._checking = False
        for child in (self._shared, self._turns):
            attempts = () if child is None else child.attempts.values()
            waiting = [attempt.sent_at for attempt in attempts if attempt.sent_at is not None]
            if child is None or self._closing or not waiting:
                continue
            # Turns wait for those before them: only one that takes long blocks their process.
            since = max(min(waiting), child.heard_at if child is self._turns else 0.0)
            if child.ready and asyncio.get_running_loop().time() - since >= STALL:
                logger.warning("a handler blocks process %d; other runs move to a new one", child.process.pid)
                child.retire()
                if child is self._shared:
                    self._shared = None
                else:
                    self._turns = None
            self._check_later()


def how_ended(exit_code: int) -> str:
    if exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"

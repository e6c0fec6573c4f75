"""The executor of a worker: functions run in executor processes, never in the worker's own, and programs beside them.

Most attempts share one process. An attempt that needs a process of its own gets one. When a process dies, its attempts
are reported as lost. When a handler blocks the shared process's loop, attempts that have not begun move to a new one;
the blocked process ends when it is empty.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import force_setattr

from interlock.model import frames
from interlock.model import message as m
from interlock.model.error import InterlockError, Refused, rebuild
from interlock.model.outcome import Outcome
from interlock.model.secret import SECRET_NAMES
from interlock.model.work import ProcessWork
from interlock.ports.clock import elapsed
from interlock.ports.executor import Executor, Key, Report
from interlock.task_set import TaskSet

if TYPE_CHECKING:
    from interlock.worker.processes import ProgramAttempt, Programs

logger = logging.getLogger("interlock.worker")

STALL = 2.0  # seconds that an attempt may wait in a process before that counts as blocked


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an executor process, as one JSON argument."""

    app: str | None = None
    memory_limit: int = 0
    path: Sequence[str] = ()
    secret_names: Sequence[str] = SECRET_NAMES
    isolated: bool = False  # one attempt at a time, on the main thread


class _Attempt(msgspec.Struct, eq=False):
    """A function in one of the processes."""

    child: "_Child"
    key: Key
    dispatch: m.Dispatch
    sent_at: float | None  # None once it has begun
    stopping: bool | None = None  # set when it must stop; True when its grace is over
    is_target: bool = False  # whether its process was killed because of it

    def ask(self, reason: str) -> None:
        self.stopping = False
        self.child.send(m.Stop(*self.key, reason))

    def terminate(self) -> None:
        self.child.retire()
        self.stopping = self.child.doomed = True
        self.child.end_if_done()

    def kill(self) -> None:
        self.child.retire()
        self.is_target = self.child.killed = True
        self.child.signal(signal.SIGKILL)


class _Child(asyncio.Protocol):
    """One executor process as its host sees it."""

    def __init__(self, pool: "ProcessPool", isolated: bool) -> None:
        self.pool = pool
        self.isolated = isolated
        self.attempts: dict[Key, _Attempt] = {}
        self.doomed = False  # gets TERM when it holds only attempts whose grace is over
        self.killed = False  # because of an attempt
        self.retired = False  # gets nothing new
        self.ready = False  # has loaded the app, if there is one
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._reader = frames.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[m.Message] = []
        self._exit_code: int | None = None
        self._socket, there = socket.socketpair()
        given = msgspec.structs.replace(pool.options, isolated=isolated)
        link, options = there.fileno(), msgspec.json.encode(given).decode()
        # Unbuffered, because output must not wait in a process that may be killed. In a group of its own, to kill it
        # with everything it has started; in the host's session, so that the supervisor of the host can do so too.
        command = [sys.executable, "-u", "-m", "interlock.worker.executor_process", str(link), options]
        process = None
        try:
            process = subprocess.Popen(command, pass_fds=(link,), stdin=subprocess.DEVNULL, process_group=0)
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._socket.close()
            if process is not None:
                process.kill()
                process.wait()
            raise
        finally:
            there.close()
        self.process = process
        self._loop.add_reader(self._pidfd, self._exited)

    async def open(self) -> None:
        if self._exit_code is not None:
            return
        try:
            # A transport closes the link unread when a write fails; so the socket itself stays open as well.
            transport, _ = await self._loop.create_unix_connection(lambda: self, sock=self._socket.dup())
        except OSError as error:
            self._give_up(error)
            return
        self._transport = transport
        if self._exit_code is None:
            self.flush()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for messages in self._reader.feed(data):
                for message in messages:
                    self.pool.heard(self, message)
        except Refused as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        logger.error("executor process %d is given up: %s", self.process.pid, error)
        self.signal(signal.SIGKILL)

    def connection_lost(self, exc: Exception | None) -> None:
        self.signal(signal.SIGKILL)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # Until it is reaped, its pid is not reused: the processes of a crashed handler end with it.
        self.signal(signal.SIGKILL)
        self._exit_code = self.process.wait()
        with suppress(OSError):
            while data := self._socket.recv(262_144, socket.MSG_DONTWAIT):
                self.data_received(data)
        self._socket.close()
        # A process that it forked may keep the link open forever.
        if self._transport is not None:
            self._transport.abort()
        self.pool.ended(self, self._exit_code)
        self.gone.set_result(None)

    def send(self, message: m.Message) -> None:
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append(message)

    def flush(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.write(frames.encode(self._unsent))
            self._unsent.clear()

    def signal(self, number: int) -> None:
        """Signal the whole process group, with everything that handlers have started."""
        if self._exit_code is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def retire(self) -> None:
        """Take nothing new; return attempts that have not begun, to move them."""
        if not self.retired and not self.isolated:
            for attempt in self.attempts.values():
                if attempt.sent_at is not None:
                    self.send(m.Revoke(*attempt.key))
        self.retired = True

    def end_if_done(self) -> None:
        if self.doomed and all(attempt.stopping for attempt in self.attempts.values()):
            self.signal(signal.SIGTERM)
        elif not self.attempts and (self.retired or (self.isolated and self.pool.has_spare())):
            self.retired = True
            self.signal(signal.SIGKILL)


class ProcessPool(Executor):
    def __init__(self, options: ExecutorOptions, processes: int) -> None:
        """`processes` of those for one attempt each are kept when they are idle."""
        self.options = options
        self.jobs: list[str] = []  # of the app, once it is started
        self._processes = processes
        self._report: Report = lambda message: None
        self._children: list[_Child] = []
        self._attempts: dict[Key, _Attempt | ProgramAttempt] = {}
        self._shared: _Child | None = None
        self._programs: Programs | None = None  # made for the first program
        self._loading: asyncio.Future[list[str]] | None = None
        self._tasks = TaskSet()
        self._checking = False
        self._closing = False

    async def start(self, report: Report) -> None:
        """Start the shared process and wait until it has loaded the app, or raise; without an app it starts later."""
        self._report = report
        if self.options.app is not None:
            self._loading = asyncio.get_running_loop().create_future()
            self._shared = self._spawn(False)
            self.jobs = await self._loading

    def _spawn(self, isolated: bool) -> _Child:
        child = _Child(self, isolated)
        self._children.append(child)
        self._tasks.begin(child.open())
        return child

    def begin(self, attempt: m.Dispatch) -> None:
        key = (attempt.run_id, attempt.fence)
        if isinstance(attempt.work, ProcessWork):
            self._attempts[key] = self._begin_program(attempt)
            return
        child = self._own_child() if attempt.isolated else self._shared_child()
        begun = _Attempt(child, key, attempt, asyncio.get_running_loop().time())
        self._attempts[key] = child.attempts[key] = begun
        child.send(attempt)
        if not attempt.isolated:
            self._check_later()

    def _begin_program(self, attempt: m.Dispatch) -> "ProgramAttempt":
        # Most workers never need it.
        from interlock.worker.processes import ProgramAttempt, Programs

        if self._programs is None:
            self._programs = Programs(self._program_ended, self._report, self.options.secret_names)
        return ProgramAttempt(self._programs, attempt)

    def _program_ended(self, key: Key, message: m.Message) -> None:
        del self._attempts[key]
        self._report(message)

    def flush(self) -> None:
        for child in self._children:
            child.flush()

    def _shared_child(self) -> _Child:
        if self._shared is None or self._shared.retired:
            self._shared = self._spawn(False)
        return self._shared

    def _own_child(self) -> _Child:
        for child in self._children:
            if child.isolated and not child.attempts and not child.retired:
                return child
        return self._spawn(True)

    def has_spare(self) -> bool:
        """Return whether more processes are idle than are kept."""
        return sum(one.isolated and not one.attempts for one in self._children) > self._processes

    def ask(self, run_id: str, fence: int, reason: str) -> None:
        if (attempt := self._attempts.get((run_id, fence))) is not None:
            attempt.ask(reason)

    def terminate(self, run_id: str, fence: int) -> None:
        if (attempt := self._attempts.get((run_id, fence))) is not None:
            attempt.terminate()

    def kill(self, run_id: str, fence: int) -> None:
        if (attempt := self._attempts.get((run_id, fence))) is not None:
            attempt.kill()

    async def close(self) -> None:
        self._closing = True
        for child in self._children:
            child.signal(signal.SIGKILL)
        while self._children:
            await asyncio.wait([child.gone for child in self._children])
        if self._programs is not None:
            await self._programs.close()

    def heard(self, child: _Child, message: m.Message) -> None:
        if isinstance(message, (m.Started, m.Finished)) and message.ago:
            # Between an executor process and its host, `ago` is an instant of the machine's elapsed time.
            force_setattr(message, "ago", max(0.0, elapsed() - message.ago))
        if isinstance(message, (m.Finished, m.Expired, m.Revoked)):
            self._take_back(child, message)
        elif isinstance(message, m.Started):
            if (attempt := child.attempts.get((message.run_id, message.fence))) is not None:
                attempt.sent_at = None
            self._report(message)
        elif isinstance(message, m.Ready):
            child.ready = True
            now = asyncio.get_running_loop().time()
            for attempt in child.attempts.values():
                attempt.sent_at = now
            self._loaded(message.jobs)
        elif isinstance(message, m.Problem):
            self._loaded(rebuild(message.code, message.text))
        else:
            self._report(message)

    def _take_back(self, child: _Child, message: m.Finished | m.Expired | m.Revoked) -> None:
        attempt = child.attempts.pop((message.run_id, message.fence), None)
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

    def _loaded(self, found: list[str] | InterlockError) -> None:
        if self._loading is None or self._loading.done():
            if isinstance(found, InterlockError):
                logger.error("an executor process could not load the app: %s", found)
        elif isinstance(found, InterlockError):
            self._loading.set_exception(found)
        else:
            self._loading.set_result(found)

    def ended(self, child: _Child, exit_code: int) -> None:
        self._children.remove(child)
        if self._shared is child:
            self._shared = None
        how = how_ended(exit_code)
        if self._loading is not None and not self._loading.done():
            self._loading.set_exception(InterlockError(f"an executor process ended at start ({how})"))
        for key, attempt in child.attempts.items():
            del self._attempts[key]
            if child.killed and not attempt.is_target:
                self._report(m.Returned(*key, "its process was killed to stop another run"))
            else:
                # An attempt that had not begun did not cause this: it is reported without an exit code.
                code = exit_code if attempt.sent_at is None else None
                self._report(m.Lost(*key, f"its process {how}", code))

    def _move(self, attempt: _Attempt) -> None:
        """Begin an attempt that a retired process has returned in another one."""
        if attempt.stopping is not None:
            self._report(m.Finished(*attempt.key, Outcome.CANCELLED))
        elif not self._closing:
            try:
                self.begin(attempt.dispatch)
            except OSError as error:
                self._report(m.Returned(*attempt.key, f"no process could be started: {error}"))

    def _check_later(self) -> None:
        if not self._checking:
            self._checking = True
            asyncio.get_running_loop().call_later(STALL / 2, self._check_blocked)

    def _check_blocked(self) -> None:
        """Check that the shared process begins its attempts."""
        self._checking = False
        child = self._shared
        waiting = [] if child is None else [one.sent_at for one in child.attempts.values() if one.sent_at is not None]
        if child is None or self._closing or not waiting:
            return
        if child.ready and asyncio.get_running_loop().time() - min(waiting) >= STALL:
            logger.warning("a handler blocks the loop of process %d; other runs move to a new one", child.process.pid)
            child.retire()
            self._shared = None
        self._check_later()


def how_ended(exit_code: int) -> str:
    if exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"

"""The executor of functions: attempts run in executor processes, never in the worker's own.

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

import msgspec
from msgspec.structs import force_setattr

from interlock.model import frames
from interlock.model import message as m
from interlock.model.error import InterlockError, Refused, rebuild
from interlock.model.outcome import Outcome
from interlock.model.secret import SECRET_NAMES
from interlock.ports.clock import elapsed
from interlock.ports.executor import Executor, Report
from interlock.task_set import TaskSet

logger = logging.getLogger("interlock.worker")

STALL = 2.0  # seconds that an attempt may wait in a process before that counts as blocked

Key = tuple[str, int]


class _Child(asyncio.Protocol):
    """One executor process as its host sees it."""

    def __init__(self, pool: "ProcessPool", isolated: bool) -> None:
        self.pool = pool
        self.isolated = isolated
        self.attempts: dict[Key, m.Dispatch] = {}
        self.waiting: dict[Key, float] = {}  # attempts sent and not begun, with the time
        self.stopping: dict[Key, bool] = {}  # attempts that must stop; True when their grace is over
        self.doomed = False  # gets TERM when it holds only attempts whose grace is over
        self.retired = False  # gets nothing new
        self.ready = False  # has loaded the app, if there is one
        self.targets: dict[Key, None] = {}  # the attempts for which it was killed
        self._loop = asyncio.get_running_loop()
        self._reader = frames.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[m.Message] = []
        self._exit_code: int | None = None
        self._socket, there = socket.socketpair()
        options = {
            "link": there.fileno(),
            "app": pool.target,
            "memory_limit": pool.memory_limit,
            "path": pool.path,
            "secret_names": pool.secret_names,
        }
        # Unbuffered, because output must not wait in a process that may be killed. In a group of its own, to kill it
        # with everything it has started; in the host's session, so that the supervisor of the host can do so too.
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-u",
                    "-m",
                    "interlock.worker.executor_process",
                    msgspec.json.encode(options).decode(),
                ],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                process_group=0,
            )
            self._pidfd = self._watch()
        except OSError:
            self._socket.close()
            raise
        finally:
            there.close()

    def _watch(self) -> int:
        try:
            pidfd = os.pidfd_open(self.process.pid)
        except OSError:
            self.process.kill()
            self.process.wait()
            raise
        self._loop.add_reader(pidfd, self._exited)
        return pidfd

    async def open(self) -> None:
        if self._exit_code is not None:
            return
        try:
            # A transport closes the link unread when a write fails; so the socket itself stays open as well.
            transport, _ = await self._loop.create_unix_connection(lambda: self, sock=self._socket.dup())
        except OSError as error:
            logger.error("executor process %d is given up: %s", self.process.pid, error)
            self.signal(signal.SIGKILL)
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

    def settle(self, key: Key) -> bool:
        """Remove an attempt; return whether it was here."""
        self.waiting.pop(key, None)
        self.stopping.pop(key, None)
        return self.attempts.pop(key, None) is not None


class ProcessPool(Executor):
    def __init__(
        self,
        *,
        target: str | None,
        processes: int,
        memory_limit: int = 0,
        path: Sequence[str] = (),
        secret_names: Sequence[str] = SECRET_NAMES,
    ) -> None:
        self.target = target
        self.path = list(path)
        self.secret_names = list(secret_names)
        self.memory_limit = memory_limit
        self._processes = processes
        self._report: Report = lambda message: None
        self._children: list[_Child] = []
        self._by_key: dict[Key, _Child] = {}
        self._shared: _Child | None = None
        self._ready: asyncio.Future[list[str]] | None = None
        self._tasks = TaskSet()
        self._checking = False
        self._closing = False
        self._emptied: asyncio.Event = asyncio.Event()
        self.jobs: list[str] = []

    async def start(self, report: Report) -> None:
        """Start the shared process and wait until it has loaded the app; raise why it could not. Without an app, it
        starts when first needed."""
        self._report = report
        if self.target is None:
            return
        self._ready = asyncio.get_running_loop().create_future()
        self._shared = self._spawn(False)
        self.jobs = await self._ready

    def _spawn(self, isolated: bool) -> _Child:
        child = _Child(self, isolated)
        self._children.append(child)
        self._tasks.begin(child.open())
        return child

    # ── the port ────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, attempt: m.Dispatch) -> None:
        child = self._own_child() if attempt.isolated else self._shared_child()
        key = (attempt.run_id, attempt.fence)
        child.attempts[key] = attempt
        child.waiting[key] = asyncio.get_running_loop().time()
        self._by_key[key] = child
        child.send(attempt)
        if not attempt.isolated:
            self._check_later()

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

    def ask(self, run_id: str, fence: int, reason: str) -> None:
        child = self._by_key.get((run_id, fence))
        if child is not None:
            child.stopping[(run_id, fence)] = False
            child.send(m.Stop(run_id, fence, reason))

    def terminate(self, run_id: str, fence: int) -> None:
        child = self._by_key.get((run_id, fence))
        if child is not None:
            self._retire(child)
            child.stopping[(run_id, fence)] = True
            child.doomed = True
            self._end_if_done(child)

    def kill(self, run_id: str, fence: int) -> None:
        child = self._by_key.get((run_id, fence))
        if child is not None:
            self._retire(child)
            child.targets[(run_id, fence)] = None
            child.signal(signal.SIGKILL)

    async def close(self) -> None:
        self._closing = True
        for child in self._children:
            child.signal(signal.SIGKILL)
        while self._children:
            self._emptied.clear()
            await self._emptied.wait()

    # ── from the children ───────────────────────────────────────────────────────────────────────────────────────────

    def heard(self, child: _Child, message: m.Message) -> None:
        if isinstance(message, (m.Started, m.Finished)) and message.ago:
            # Between an executor process and its host, `ago` is an instant of the machine's elapsed time.
            force_setattr(message, "ago", max(0.0, elapsed() - message.ago))
        if isinstance(message, (m.Finished, m.Expired)):
            self._settle(child, message)
        elif isinstance(message, m.Started):
            child.waiting.pop((message.run_id, message.fence), None)
            self._report(message)
        elif isinstance(message, m.Revoked):
            self._move(child, (message.run_id, message.fence))
        elif isinstance(message, (m.Ready, m.Problem)):
            self._loaded(child, message)
        else:
            self._report(message)

    def _settle(self, child: _Child, message: m.Finished | m.Expired) -> None:
        """Take the end of an attempt."""
        key = (message.run_id, message.fence)
        if child.isolated and key in child.stopping:
            # It had to stop, and may have left processes behind: its process ends too.
            child.retired = True
        if child.settle(key):
            del self._by_key[key]
            self._report(message)
            self._end_if_done(child)

    def _loaded(self, child: _Child, message: m.Ready | m.Problem) -> None:
        waits = self._ready is not None and not self._ready.done()
        if isinstance(message, m.Ready):
            child.ready = True
            child.waiting = dict.fromkeys(child.waiting, asyncio.get_running_loop().time())
            if self._ready is not None and waits:
                self._ready.set_result(message.jobs)
            return
        error = rebuild(message.code, message.text)
        if self._ready is not None and waits:
            self._ready.set_exception(error)
        else:
            logger.error("an executor process could not load the app: %s", error)

    def ended(self, child: _Child, exit_code: int) -> None:
        self._children.remove(child)
        if self._shared is child:
            self._shared = None
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(InterlockError(f"an executor process ended at start ({how_ended(exit_code)})"))
        waiting = set(child.waiting)
        for key, attempt in list(child.attempts.items()):
            child.settle(key)
            del self._by_key[key]
            if child.targets and key not in child.targets:
                self._report(m.Returned(attempt.run_id, attempt.fence, "its process was killed to stop another run"))
            else:
                # An attempt that had not begun did not cause this: it is reported without an exit code.
                code = None if key in waiting else exit_code
                self._report(m.Lost(attempt.run_id, attempt.fence, f"its process {how_ended(exit_code)}", code))
        if not self._children:
            self._emptied.set()

    def _retire(self, child: _Child) -> None:
        """Give this process nothing new; move attempts that have not begun."""
        if child.retired:
            return
        child.retired = True
        if not child.isolated:
            for run_id, fence in child.waiting:
                child.send(m.Revoke(run_id, fence))

    def _end_if_done(self, child: _Child) -> None:
        if child.doomed and all(child.stopping.get(key) for key in child.attempts):
            child.signal(signal.SIGTERM)
        elif child.retired and not child.attempts:
            child.signal(signal.SIGKILL)
        elif child.isolated and not child.attempts:
            idle = [one for one in self._children if one.isolated and not one.attempts]
            if len(idle) > self._processes:
                child.retired = True
                child.signal(signal.SIGKILL)

    def _move(self, child: _Child, key: Key) -> None:
        attempt = child.attempts.get(key)
        stops = key in child.stopping
        if attempt is None or not child.settle(key):
            return
        del self._by_key[key]
        if stops:
            self._report(m.Finished(*key, Outcome.CANCELLED))
        elif not self._closing:
            try:
                self.begin(attempt)
            except OSError as error:
                self._report(m.Returned(*key, f"no process could be started: {error}"))
        self._end_if_done(child)

    # ── blocked loops ───────────────────────────────────────────────────────────────────────────────────────────────

    def _check_later(self) -> None:
        if not self._checking:
            self._checking = True
            asyncio.get_running_loop().call_later(STALL / 2, self._check_blocked)

    def _check_blocked(self) -> None:
        """Check that the shared process begins its attempts."""
        self._checking = False
        child = self._shared
        if child is None or self._closing or not child.waiting:
            return
        oldest = next(iter(child.waiting.values()))
        if child.ready and asyncio.get_running_loop().time() - oldest >= STALL:
            logger.warning(
                "a handler blocks the event loop of process %d; other runs move to a new one", child.process.pid
            )
            self._retire(child)
            if self._shared is child:
                self._shared = None
        self._check_later()


def how_ended(exit_code: int) -> str:
    if exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"

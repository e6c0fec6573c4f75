"""An executor process as its host sees it: started, connected, signalled, and asked to leave."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from interlock.error import Refused
from interlock.ports.executor import Key
from interlock.wire import frames
from interlock.wire import message as m

if TYPE_CHECKING:
    from interlock.worker.pool import ProcessPool

logger = logging.getLogger("interlock.worker")

LEAVE = 5.0  # seconds for a process to leave its lifespan


class FunctionAttempt(msgspec.Struct, eq=False):
    """A function in one of the processes."""

    child: "ExecutorChild"
    key: Key
    dispatch: m.Dispatch
    sent_at: float | None  # None once it has begun
    stopping: bool | None = None  # set when it must stop; True when its grace is over
    is_target: bool = False  # whether its process was killed because of it

    def stop(self, reason: str) -> bool:
        """Ask its function, and then end its process with TERM."""
        if is_first := self.stopping is None:
            self.stopping = False
            self.child.send(m.Stop(*self.key, reason))
        else:
            self.child.retire()
            self.stopping = self.child.doomed = True
            self.child.end_if_done()
        return is_first

    def kill(self) -> None:
        self.child.retire()
        self.is_target = self.child.killed = True
        self.child.signal(signal.SIGKILL)


class ExecutorChild(asyncio.Protocol):
    """One executor process as its host sees it."""

    def __init__(self, pool: "ProcessPool", isolated: bool, turns: bool = False) -> None:
        self.pool = pool
        self.isolated = isolated
        self.heard_at = 0.0  # when an attempt last began or ended, by the clock of the loop
        self.turns = turns  # whether it is for turns of workflows, which wait in it for each other
        self.attempts: dict[Key, FunctionAttempt] = {}
        self.doomed = False  # gets TERM when it holds only attempts whose grace is over
        self.killed = False  # because of an attempt
        self.retired = False  # gets nothing new
        self.ready = False  # has loaded the app, if there is one, and entered its lifespan
        self.has_lifespan = False
        self.fault = ""  # why it could not start
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._reader = frames.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[m.Message] = []
        self._exit_code: int | None = None
        self._socket, there = socket.socketpair()
        given = msgspec.structs.replace(pool.options, isolated=isolated, turns=turns)
        link, options = there.fileno(), msgspec.json.encode(given).decode()
        # Unbuffered, because output must not wait in a process that may be killed. In a group of its own, to kill it
        # with everything it has started; in the host's session, so that the supervisor of the host can do so too.
        command = [
            sys.executable,
            "-u",
            "-m",
            "interlock.process",
            "interlock.worker.executor_process",
            str(link),
            options,
        ]
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
            if not self._transport.is_closing():  # else it is about to end
                self._transport.write(frames.encode(self._unsent))
            self._unsent.clear()

    def signal(self, number: int) -> None:
        """Signal the whole process group, with everything that handlers have started."""
        if self._exit_code is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def retire(self) -> None:
        """Take nothing new; return attempts that have not begun, to move them."""
        if not self.retired and (not self.isolated or self.turns):
            for attempt in self.attempts.values():
                if attempt.sent_at is not None:
                    self.send(m.Revoke(*attempt.key))
        self.retired = True

    def end_if_done(self) -> None:
        if self.doomed and all(attempt.stopping for attempt in self.attempts.values()):
            self.signal(signal.SIGTERM)
        elif not self.attempts and (self.retired or (self.isolated and not self.turns and self.pool.has_spare())):
            self.leave()

    def leave(self) -> None:
        """End a process without attempts: it leaves its lifespan first, if it has one."""
        self.retired = True
        if self.has_lifespan:
            self.send(m.Drain())
            self._loop.call_later(LEAVE, self.signal, signal.SIGKILL)
        else:
            self.signal(signal.SIGKILL)

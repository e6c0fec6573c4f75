"""A process with an app, which replays records one after the other: the code may end it, or never return."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Self

import msgspec

from interlock.core.workflows.turn_table import LONGEST_TURN
from interlock.error import CannotImport
from interlock.fields.duration import span
from interlock.interface.record_view import RunRecord
from interlock.worker.pool import how_ended
from interlock.worker.workflow_fit import Answer, Comparison, Misfit

_MOST = 1 << 16


class Replays:
    def __init__(self, target: str, limit: float = LONGEST_TURN) -> None:
        self._target = target
        self._limit = limit  # seconds of a turn

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def misfit_of(self, record: RunRecord) -> Misfit | None:
        """Return why the function of a live run does not fit its record; None if it does."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode(Comparison(record.to_replay())) + b"\n")
            self._process.stdin.flush()
            return self._answer(self._limit)
        except TimeoutError:
            self._end()
            found = Misfit(f"its turn takes more than {span(self._limit)}")
        except (EOFError, BrokenPipeError):
            found = Misfit(f"its process {how_ended(self._end())} in the turn")
        self._start()
        return found

    def _start(self) -> None:
        command = [sys.executable, "-m", "interlock.worker.workflow_fit", self._target]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        try:
            misfit = self._answer(None)
        except EOFError:
            misfit = Misfit(f"its process {how_ended(self._end())}")
        if misfit is not None:
            self._end()
            raise CannotImport(self._target, misfit.text)

    def _end(self) -> int:
        """End the process and everything that the app has started; return how it has ended."""
        pipes = self._process.stdin, self._process.stdout
        for pipe in pipes:
            with suppress(BrokenPipeError):
                assert pipe is not None
                pipe.close()
        with suppress(subprocess.TimeoutExpired):  # a process that has ended by itself has its own exit code
            self._process.wait(0.1)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _answer(self, limit: float | None) -> Misfit | None:
        """Read an answer; raise `TimeoutError`, or `EOFError` if the process has ended."""
        assert self._process.stdout is not None
        descriptor, data = self._process.stdout.fileno(), b""
        until = None if limit is None else time.monotonic() + limit
        while not data.endswith(b"\n"):
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            if not (more := os.read(descriptor, _MOST)):
                raise EOFError
            data += more
        return msgspec.json.decode(data, type=Answer).misfit

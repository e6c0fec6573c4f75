"""The process that runs the scanners, as its parent sees it: it is given results, and killed if one takes too long.

Scanners may be code of users. A scan that hangs, or takes all memory, costs one result its scan and nothing else.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from interlock.error import CannotStart
from interlock.fields.duration import brief, checked
from interlock.model.policy.output import OutputPolicy, Scanned
from interlock.model.policy.scanner import OutputAction

STARTING = 60.0  # seconds in which the process must have loaded the app
_scanned = msgspec.msgpack.Decoder(Scanned)


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame that the process gets."""

    policy: OutputPolicy
    app: str | None  # with scanners of one's own
    path: Sequence[str]
    log_format: str = "text"


class ScanPipe:
    def __init__(self, app: str | None, path: Sequence[str], log_format: str = "text") -> None:
        self._app, self._path, self._log_format = app, path, log_format
        self._policy: OutputPolicy | None = None
        self._process: Process | None = None
        self.is_ready = False  # whether the scanners are loaded

    async def scan(self, policy: OutputPolicy, results: Mapping[str, bytes]) -> dict[str, Scanned]:
        """Return the scans by name of what was scanned. Raise `CannotStart` if the scanners cannot be loaded."""
        if policy != self._policy:
            await self.close()
            self._policy = policy
        found, left = list[Scanned](), list(results.items())
        while left:
            answers, error = await self._send(policy, left)
            found += answers
            if error and len(answers) < len(left):
                found.append(Scanned(left[len(answers)][0], OutputAction.ALLOW, error=error))
            left = left[len(answers) + bool(error) :]
        return {result.run_id: result for result in found}

    async def _send(self, policy: OutputPolicy, results: list[tuple[str, bytes]]) -> tuple[list[Scanned], str]:
        """Return the scans of the first results, and why the next one could not be scanned."""
        answers: list[Scanned] = []
        limit = checked(policy.timeout)
        was_idle = self._process is not None
        process = self._process or await self._start(policy)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(framed(msgspec.msgpack.encode(results)))
            for _ in results:
                answers.append(_scanned.decode(await asyncio.wait_for(read_frame(process.stdout), limit)))
        except TimeoutError:
            await self.close()
            return answers, f"it took longer than {brief(limit)}"
        except (OSError, RuntimeError, EOFError, msgspec.MsgspecError):  # RuntimeError: uvloop's closed pipe
            await self.close()
            # A process that was killed while it was idle says nothing about the result: the next one decides.
            return answers, "" if was_idle and not answers else "the process that scanned it ended"
        return answers, ""

    async def _start(self, policy: OutputPolicy) -> Process:
        options = ScanOptions(policy=policy, app=self._app, path=self._path, log_format=self._log_format)
        command = [sys.executable, "-m", "interlock.process", "interlock.inspector.scan_process"]
        # In a group of its own, to be killed with everything that scanners have started.
        process = self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(framed(msgspec.msgpack.encode(options)))
        try:
            await asyncio.wait_for(read_frame(process.stdout), STARTING)
        except (TimeoutError, EOFError) as error:
            await self.close()
            raise CannotStart("scanners", "their process was not ready; its error is in the log") from error
        self.is_ready = True
        return process

    async def close(self) -> None:
        process, self._process, self.is_ready = self._process, None, False
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


async def read_frame(stream: asyncio.StreamReader) -> bytes:
    return await stream.readexactly(int.from_bytes(await stream.readexactly(4), "big"))

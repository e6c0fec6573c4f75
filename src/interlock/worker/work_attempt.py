"""An attempt whose work is a program or a container: what it is given, and what follows from its end."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import ClassVar

import msgspec

from interlock.error import BadUse, InterlockError
from interlock.fields import payload
from interlock.fields.secret import Secret, from_json, is_marked, matcher
from interlock.model.failure import Failure, Outcome
from interlock.model.labels import SAGA_LABELS
from interlock.model.policy.verdict import RunLimits
from interlock.ports.executor import Key, Report
from interlock.supervision.guard_client import Guard
from interlock.task_set import TaskSet
from interlock.wire import message as m
from interlock.wire.claim import VARIABLE, Claim
from interlock.worker.context import clean
from interlock.worker.pool import how_ended
from interlock.worker.process_log import ProcessLog
from interlock.worker.redaction import NO_SECRETS

PAYLOAD, PAYLOADS, RESULT = "INTERLOCK_PAYLOAD", "INTERLOCK_PAYLOADS", "INTERLOCK_RESULT"


class WorkParts:
    """The parts that all programs and containers of a worker share."""

    def __init__(self, ended: Callable[[Key, m.Message], None], report: Report, secret_names: Sequence[str]) -> None:
        self.ended = ended
        self.report = report
        self.is_secret = matcher(tuple(secret_names))
        self.is_closing = False
        self.guard = Guard()
        self.tasks = TaskSet()


class WorkAttempt:
    what: ClassVar[str] = "process"

    def __init__(self, parts: WorkParts, dispatch: m.Dispatch) -> None:
        self._parts = parts
        self._dispatch = dispatch
        self._key: Key = dispatch.key
        self._redact = NO_SECRETS
        self._log: ProcessLog | None = None
        self._is_asked = False
        self._is_starting = False
        self._is_running = False
        self._task = parts.tasks.begin(self._run())

    def stop(self) -> None:
        """Send TERM, the only request that a process knows."""
        if self._is_asked or self._is_running:
            self._terminate()
        elif self._is_starting:
            self._task.cancel()
        self._is_asked = True

    def _terminate(self) -> None:
        """Ask what runs to end."""
        raise NotImplementedError

    def kill(self) -> None:
        """End it at once."""
        raise NotImplementedError

    async def close(self) -> None:
        """End what the guard does not end with itself."""

    async def _live(self) -> m.Message:
        """Execute the work, and return the last report."""
        raise NotImplementedError

    def _clean_up(self) -> None:
        """Remove what is left on this machine."""

    async def _run(self) -> None:
        """Report its end, whatever happens."""
        try:
            message = await self._live()
        except asyncio.CancelledError:
            message = self._finished(Outcome.CANCELLED)
        except Exception as error:  # noqa: BLE001 - no attempt may stay without an end
            message = self._failed(f"{type(error).__name__}: {error}")
        finally:
            self._clean_up()
        self._parts.ended(self._key, message)

    def _tell(self, message: m.Message | None = None) -> None:
        """Report its start if that is not done yet, because its output may arrive first, and then the message."""
        if not self._is_running:
            self._is_running = True
            self._parts.report(m.Started(*self._key))
        if message is not None:
            self._parts.report(message)

    def _ended(
        self, exit_code: int, how: str, result: Callable[[], bytes], failure: Failure | None = None
    ) -> m.Message:
        """Return what follows from an exit code."""
        if self._parts.is_closing:
            return m.Lost(*self._key, f"its {self.what} {how_ended(exit_code)}", exit_code)
        if self._is_asked:
            # Many programs exit with 0 after TERM although their work is not done.
            return self._finished(Outcome.CANCELLED, None, exit_code)
        if exit_code == 0:
            try:
                return m.Finished(*self._key, Outcome.SUCCEEDED, result(), None, 0)
            except InterlockError as error:
                return self._finished(Outcome.FAILED_FATAL, self._redact(clean(str(error))), 0)
        last_lines = () if self._log is None else self._log.last_lines()
        return self._failed(how, exit_code, last_lines, failure)

    def _failed(
        self, why: str, exit_code: int | None = None, last_lines: Sequence[str] = (), failure: Failure | None = None
    ) -> m.Message:
        """Put the reason into the last line, which is shown where only one line fits."""
        *before, last = last_lines or ("",)
        text = self._redact(clean(why))
        error = "\n".join([*before, f"{text}: {last}" if last else text])
        return m.Finished(*self._key, Outcome.FAILED, None, error, exit_code, failure=failure)

    def _finished(self, outcome: Outcome, error: str | None = None, exit_code: int | None = None) -> m.Message:
        return m.Finished(*self._key, outcome, None, error, exit_code)


def checked_result(data: bytes, redact: Callable[[str], str]) -> bytes:
    """Return what was written as a result, `null` if that is nothing; raise if it cannot be a result."""
    size, limit = len(data), payload.LIMIT
    if size > limit:
        raise too_long(size)
    data = redact((data or b"null").decode(errors="replace")).encode()
    if (fault := payload.fault_of(data, "result")) is not None:
        raise BadUse(RESULT, f"{fault}; it has {size:,} bytes, of {limit:,} that are allowed")
    return data


def too_long(size: int) -> BadUse:
    return BadUse(RESULT, f"the result has {size:,} bytes; the limit is {payload.LIMIT:,}")


def variables_of(dispatch: m.Dispatch) -> dict[str, str]:
    """Return the variables that describe the run."""
    found = {
        "INTERLOCK_RUN_ID": dispatch.run_id,
        "INTERLOCK_JOB_ID": dispatch.job_id,
        "INTERLOCK_ATTEMPT": str(dispatch.attempt),
        "INTERLOCK_TENANT": dispatch.tenant,
        VARIABLE: str(Claim(dispatch.proof, dispatch.fence, dispatch.tenant, dispatch.run_id)),
    }
    found |= {name: (dispatch.labels or {})[name] for name in SAGA_LABELS if name in (dispatch.labels or {})}
    if dispatch.scheduled_at:
        scheduled_at = datetime.fromtimestamp(dispatch.scheduled_at, UTC)
        found["INTERLOCK_SCHEDULED_AT"] = scheduled_at.isoformat().replace("+00:00", "Z")
    return found


def allowed(variables: dict[str, str | None], limits: RunLimits | None) -> dict[str, str | None]:
    """Return the variables that the policy lets a program have."""
    if limits is None or limits.environment is None:
        return variables
    return {
        name: value
        for name, value in variables.items()
        if any(fnmatchcase(name, pattern) for pattern in limits.environment)
    }


def line_of(given: bytes) -> bytes:
    """Return a payload as one line of JSON, with its secrets as plain texts for the program."""
    if is_marked(given):
        given = msgspec.json.encode(from_json(payload.decode(given)), enc_hook=Secret.reveal)
    # JSON texts contain no line breaks.
    return given.replace(b"\n", b" ") + b"\n"

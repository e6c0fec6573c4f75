"""The end of an attempt: what a handler returned or raised, as its worker reports it."""

import inspect
import traceback
from typing import Any, NamedTuple

from interlock.error import BadHandler, Fatal, InterlockError
from interlock.fields import payload
from interlock.model.failure import LONGEST_MESSAGE, Failure, delay_of, types_of
from interlock.model.outcome import Outcome
from interlock.worker.context import Context, clean
from interlock.worker.definition import Definition

LONGEST_ERROR = 16_384


class AttemptEnd(NamedTuple):
    outcome: Outcome
    result: bytes | None = None
    error: str | None = None
    exit_code: int | None = None
    failure: Failure | None = None


def end_of_result(result: Any, definition: Definition, context: Context) -> AttemptEnd:
    """Encode the result; one that cannot be encoded fails the run for good."""
    try:
        data = encode_result(result)
        definition.check_result(data, context)
    except BaseException as error:  # noqa: BLE001 - a result may raise when it is read
        return end_of_error(error, context, Outcome.FAILED_FATAL)
    return AttemptEnd(Outcome.SUCCEEDED, data)


def end_of_error(error: BaseException, context: Context, own: Outcome | None = None) -> AttemptEnd:
    """Describe an exception with its traceback; in plain words if it is `Fatal`, or Interlock's `own`."""
    plain = own if issubclass(type(error), InterlockError) else None
    if issubclass(type(error), Fatal):
        plain = Outcome.FAILED_FATAL
    text, exit_code = "", None
    try:
        if isinstance(error, SystemExit):
            exit_code = int(error.code) & 0xFF if isinstance(error.code, int) else 0 if error.code is None else 1
        text = context.redact(clean(error if plain else with_traceback(error)))
        text = text[:LONGEST_ERROR] if plain else text[-LONGEST_ERROR:]
    except BaseException:  # noqa: BLE001 - whatever the exception does, the run must end
        text = ""
    failure = failure_of(error, context)
    return AttemptEnd(plain or Outcome.FAILED, None, text or type(error).__name__, exit_code, failure)


def failure_of(error: BaseException, context: Context) -> Failure | None:
    try:
        return Failure(types_of(error), context.redact(clean(error))[:LONGEST_MESSAGE], delay_of(error))
    except BaseException:  # noqa: BLE001 - as above
        return None


def encode_result(result: Any) -> bytes:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise BadHandler("the function returned a coroutine: it, or its decorator, must be 'async def'")
    return payload.encode_result(result)


def with_traceback(error: BaseException) -> str:
    """Return the traceback; its last line is that of the exception, which is shown where only one line fits."""
    found = traceback.TracebackException.from_exception(error, compact=True)
    text = "".join(found.format())
    if found.__notes__ or isinstance(error, BaseExceptionGroup):
        # Notes and the exceptions of a group come after it.
        found.__notes__ = None
        text = f"{text.rstrip()}\n{list(found.format_exception_only())[-1]}"
    return text

"""The end of an attempt: what a handler returned or raised, and the use of its session, as its worker reports it."""

import inspect
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.error import BadHandler, BadValue, Fatal, InterlockError
from interlock.fields import payload
from interlock.model.failure import LONGEST_MESSAGE, Failure, Outcome, delay_of, types_of
from interlock.worker.context import Context, clean
from interlock.worker.definition import Definition, problem_of

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


Estimator = Callable[[Context], tuple[int, int] | None]  # returns tokens and window; None reports nothing


def check_estimator(function: object) -> None:
    if problem := problem_of(function):
        raise BadHandler(f"usage: the function {problem}; use a plain function from a context to (tokens, window)")


def estimate(estimator: Estimator, context: Context) -> None:
    """Report the usage of the session after one of its runs. An error goes to the log of the run, and harms nothing."""
    if context.session is None:
        return
    try:
        found: object = estimator(context)
        if found is not None and (not isinstance(found, tuple) or len(found) != 2):
            raise BadValue("usage", found, "a pair of tokens and window, or None")
        if found is not None:
            context.usage(*found)
    except BaseException as error:  # noqa: BLE001 - whatever it raises, the run has ended as it has
        context.add_line(f"usage: {error if isinstance(error, BadValue) else with_traceback(error)}", "error")

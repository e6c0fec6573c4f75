"""Estimators: how much of its window a session has used, as the app says after each of its runs."""

from collections.abc import Callable

from interlock.error import BadHandler, BadValue
from interlock.worker.attempt_end import with_traceback
from interlock.worker.context import Context
from interlock.worker.merge import problem_of

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

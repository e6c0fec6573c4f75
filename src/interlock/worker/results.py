"""What an attempt leaves: its result as JSON, or the text of what it raised."""

import inspect
import traceback
from typing import Any

from interlock.model import payload
from interlock.model.error import BadHandler


def encode(result: Any) -> bytes:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise BadHandler("the function returned a coroutine: it, or its decorator, must be 'async def'")
    return payload.encode_result(result)


def with_traceback(error: BaseException) -> str:
    """Its last line is the exception's own: that one is shown where there is room for no more."""
    told = traceback.TracebackException.from_exception(error, compact=True)
    text = "".join(told.format())
    if told.__notes__ or isinstance(error, BaseExceptionGroup):
        # Notes and the exceptions of a group come after it.
        told.__notes__ = None
        text = f"{text.rstrip()}\n{list(told.format_exception_only())[-1]}"
    return text

"""Merge functions: make one payload of all that a run has collected."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from interlock.error import BadHandler, BadPayload
from interlock.fields import payload
from interlock.worker.context import Context

_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
Merge = Callable[[list[dict[str, Any]]], dict[str, Any]]


def problem_of(function: object) -> str:
    """Return why it is not a plain function that can be called with one argument, or an empty text."""
    if not callable(function):
        return "cannot be called"
    if any(is_kind(function) for is_kind in _NOT_PLAIN):
        return "is async or a generator"
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        return f"cannot be called with one argument ({error})"
    except ValueError:  # a function in C may have no signature
        pass
    return ""


def check_merge(job_id: str, merge: object) -> None:
    if problem := problem_of(merge):
        raise BadHandler(f"job {job_id!r}: merge {problem}; use a plain function from a list of payloads to a payload")


def merged(merge: Merge, context: Context) -> bytes:
    """Return the payload that the function makes of all payloads of a run. Whatever it raises fails the attempt."""
    value: object = merge(context.payloads)
    if not isinstance(value, dict):
        raise BadPayload(context.job_id, f"merge returned a {type(value).__name__}; return a dict of arguments")
    return payload.encode(value, "merge", sys.maxsize)

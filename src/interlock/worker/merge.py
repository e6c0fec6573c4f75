"""Merge functions: make one payload of all that a run has collected."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from interlock.model import payload
from interlock.model.error import BadHandler, BadPayload
from interlock.worker.context import Context

Merge = Callable[[list[dict[str, Any]]], dict[str, Any]]


def check_merge(job_id: str, merge: object) -> None:
    """Raise `BadHandler` unless it is a plain function that can be called with one argument."""
    problem = ""
    if not callable(merge):
        problem = "cannot be called"
    elif inspect.iscoroutinefunction(merge) or inspect.isgeneratorfunction(merge) or inspect.isasyncgenfunction(merge):
        problem = "is async or a generator"
    else:
        try:
            inspect.signature(merge).bind([])
        except TypeError as error:
            problem = f"cannot be called with one argument ({error})"
        except ValueError:  # a function in C may have no signature
            pass
    if problem:
        raise BadHandler(f"job {job_id!r}: merge {problem}; use a plain function from a list of payloads to a payload")


def merged(merge: Merge, context: Context) -> bytes:
    """Return the payload that the function makes of all payloads of a run. Whatever it raises fails the attempt."""
    value: object = merge(context.payloads)
    if not isinstance(value, dict):
        raise BadPayload(context.job_id, f"merge returned a {type(value).__name__}; return a dict of arguments")
    return payload.encode(value, "merge", sys.maxsize)

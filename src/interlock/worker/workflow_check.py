"""Check a function that is to be a workflow, as far as its code shows."""

import dis
import inspect
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from interlock.error import BadHandler

_UNSTABLE = ("time", "random", "uuid", "open", "datetime")
_HINTS = {
    "time": "ctx.now()",
    "datetime": "ctx.now()",
    "random": "ctx.random()",
    "uuid": "ctx.uuid()",
    "open": "a job that reads the file",
}
_CLOCKS = ("now", "utcnow", "today")


def check_workflow_function(workflow_id: str, function: Callable[..., Any]) -> None:
    """Refuse a function that is not async, or takes no context; warn of calls whose result may differ in a replay."""
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise BadHandler(f"workflow {workflow_id!r}: {name} must be an async function")
    if not inspect.signature(function).parameters:
        raise BadHandler(f"workflow {workflow_id!r}: {name} must take an interlock.WorkflowContext first")
    for called, line in sorted(set(unstable_calls(function)), key=lambda call: call[1]):
        text = f"workflow {workflow_id!r}: {called} in line {line} differs in a replay; use {_HINTS[_root(called)]}"
        warnings.warn(text, stacklevel=4)


def _root(called: str) -> str:
    return called.partition(".")[0]


def unstable_calls(function: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield the names of `time`, `random`, `uuid`, `datetime` and `open` that the function uses, each with its line."""
    scope = getattr(function, "__globals__", {})
    yield from _in_code(function.__code__, scope) if hasattr(function, "__code__") else ()


def _in_code(code: CodeType, scope: dict[str, Any]) -> Iterator[tuple[str, int]]:
    instructions, line = list(dis.get_instructions(code)), code.co_firstlineno
    for index, one in enumerate(instructions):
        line = (one.positions.lineno if one.positions is not None else None) or line
        if one.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
            continue
        following = instructions[index + 1] if index + 1 < len(instructions) else None
        attribute = ""
        if following is not None and following.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attribute = str(following.argval)
        if (called := _unstable(str(one.argval), attribute, scope)) is not None:
            yield called, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _in_code(constant, scope)


def _unstable(name: str, attribute: str, scope: dict[str, Any]) -> str | None:
    """Return the name of an unstable function, as its module calls it; None for any other."""
    if name == "open" and name not in scope:
        return name
    found = scope.get(name)
    if inspect.ismodule(found) and found.__name__ in _UNSTABLE:
        return f"{found.__name__}.{attribute}"
    module = getattr(found, "__module__", None)
    if module == "datetime":
        return f"datetime.{attribute}" if attribute in _CLOCKS else None
    is_function = callable(found) and not inspect.isclass(found)
    if module in ("time", "random", "uuid") and is_function:
        return f"{module}.{getattr(found, '__name__', name)}"
    return None

"""A digest of a function's code and signature: the same in every process that loads the same source."""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_CODE = "code exceptiontable flags argcount posonlyargcount kwonlyargcount names varnames freevars cellvars consts"
_CARRIED = (FunctionType, functools.partial, bool, int, float, str, bytes, tuple, frozenset, type)
"""the contents of a closure that count: code and constant values, as the arguments of a decorator"""


def code_digest(handler: Callable[..., Any]) -> str:
    """Hash the bytecode with its constants and names, and the signature. Inner functions, decorators, and the functions
    of its module that it names count too. Line numbers, paths and module names do not: the same file may be loaded
    under another name."""
    function = getattr(handler, "__func__", handler)
    if not isinstance(function, (FunctionType, functools.partial)):
        function = type(function).__call__
    text = "\n".join([*_signature(handler), _text(function, set())])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _signature(handler: Callable[..., Any]) -> Iterator[str]:
    try:
        signature = inspect.signature(handler)
    except Exception:  # noqa: BLE001 - a definition reads the signature too, and reports its fault
        return
    module = f"{getattr(handler, '__module__', '')}."
    for parameter in signature.parameters.values():
        default = "" if parameter.default is parameter.empty else _text(parameter.default, set())
        yield f"{parameter.kind.name} {parameter.name}: {_annotation(parameter.annotation)} = {default}".replace(
            module, ""
        )
    yield f"-> {_annotation(signature.return_annotation)}".replace(module, "")


def _annotation(annotation: Any) -> str:
    return _ADDRESS.sub("", inspect.formatannotation(annotation))


def _text(value: Any, seen: set[int]) -> str:
    """Return a text that does not depend on addresses, nor on the order of a set."""
    match value:
        case FunctionType() if id(value) in seen:
            return ""
        case FunctionType():
            seen.add(id(value))
            inside: Any = [value.__code__, value.__dict__.get("__wrapped__"), *_closure(value), *_named(value)]
        case functools.partial():
            inside = [value.func, value.args, value.keywords]
        case CodeType():
            inside = [getattr(value, f"co_{name}") for name in _CODE.split()]
        case set() | frozenset():
            inside = sorted(_text(member, seen) for member in value)
        case tuple() | list():
            inside = value
        case dict():
            inside = value.items()
        case type():
            return value.__qualname__
        case _:
            return f"{type(value).__name__} {_ADDRESS.sub('', repr(value))}"
    return f"{type(value).__name__}{[_text(member, seen) for member in inside]}"


def _closure(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it is empty
            if isinstance(cell.cell_contents, _CARRIED):
                yield cell.cell_contents


def _named(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions of its module that a function names."""
    codes = [function.__code__]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
        for name in code.co_names:
            found = function.__globals__.get(name)
            if isinstance(found, FunctionType) and found.__globals__ is function.__globals__:
                yield found

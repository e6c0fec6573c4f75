"""A digest of a function's code and signature: the same in every process that loads the same source."""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def code_digest(handler: Callable[..., Any]) -> str:
    """Hash the bytecode with its constants and names, of functions inside and of decorators too, and the signature.
    Line numbers, paths and names of modules do not count: the same file may be loaded by another name."""
    parts = [*_signature(handler), *_functions(handler, set())]
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _signature(handler: Callable[..., Any]) -> Iterator[str]:
    try:
        signature = inspect.signature(handler)
    except Exception:  # noqa: BLE001 - a definition reads the signature too, and says what is wrong with it
        return
    module = f"{getattr(handler, '__module__', '')}."
    for one in signature.parameters.values():
        default = "" if one.default is one.empty else _text(one.default)
        yield f"{one.kind.name} {one.name}: {_annotation(one.annotation)} = {default}".replace(module, "")
    yield f"-> {_annotation(signature.return_annotation)}".replace(module, "")


def _annotation(annotation: Any) -> str:
    return _ADDRESS.sub("", inspect.formatannotation(annotation))


def _functions(value: Any, seen: set[int]) -> Iterator[str]:
    """Yield the code of a function, and of those that it wraps or has in its closure."""
    if isinstance(value, functools.partial):
        yield _text((value.args, value.keywords))
        value = value.func
    value = getattr(value, "__func__", value)
    if not isinstance(value, FunctionType):
        value = type(value).__call__
    if not isinstance(value, FunctionType) or id(value) in seen:
        return
    seen.add(id(value))
    yield from _code(value.__code__)
    below = [value.__dict__.get("__wrapped__")]
    for cell in value.__closure__ or ():
        try:
            below.append(cell.cell_contents)
        except ValueError:  # it is empty
            continue
    for one in below:
        if isinstance(one, (FunctionType, functools.partial)):
            yield from _functions(one, seen)
        elif isinstance(one, (bool, int, float, str, bytes)):
            yield _text(one)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    counts = (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield repr((counts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    yield code.co_exceptiontable.hex()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield _text(constant)


def _text(value: Any) -> str:
    """Return a text that does not depend on addresses, nor on the order of a set."""
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(_text, value))}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}{list(map(_text, value))}"
    if isinstance(value, dict):
        return f"dict{[(_text(key), _text(one)) for key, one in value.items()]}"
    return f"{type(value).__name__} {_ADDRESS.sub('', repr(value))}"

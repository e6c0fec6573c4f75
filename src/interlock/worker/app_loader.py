"""Load an app or a function by its name: `module:variable`, or `path/to/file.py:variable`; digest the code of a
function."""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import CodeType, FunctionType, ModuleType
from typing import Any

from interlock.error import BadHandler, CannotImport, InterlockError
from interlock.model.job import Job
from interlock.worker.definition import Definition

OUTSIDE = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
"""folders that are never searched for sources; those whose names begin with a dot are not either"""
MOST_KEPT = 1_000  # definitions; their modules stay loaded in any case

_files: dict[Path, ModuleType] = {}  # modules imported by their path
_locks: dict[Path, Lock] = {}
_numbers = itertools.count()


def load_app(target: str) -> Any:
    """Return the app; raise `CannotImport` with the reason on one line."""
    name, _, variable = target.partition(":")
    if not name:
        raise CannotImport(target, "expected module:variable, for example jobs:app")
    value = _find(target, name, variable or "app")
    if not hasattr(value, "definitions"):
        raise CannotImport(target, f"{variable or 'app'} is a {type(value).__name__}, not an interlock App")
    return value


def source_folders(target: str) -> list[str]:
    """Return the folders with the sources of a loaded app: its package, or the folder of its file."""
    name = target.partition(":")[0]
    if name.endswith(".py"):
        return [str(Path(name).absolute().parent)]
    top = sys.modules[name.partition(".")[0]]
    if hasattr(top, "__path__"):
        return [os.path.abspath(folder) for folder in top.__path__]
    return [os.path.dirname(os.path.abspath(top.__file__))] if top.__file__ else []


def load_app_again(target: str) -> Any:
    """Import the app and every module below its folders again. If that fails, the modules stay as they were."""
    importlib.invalidate_caches()
    folders = source_folders(target)
    before = {name: module for name, module in sys.modules.items() if _is_source(name, module, folders)}
    files = dict(_files)
    for name in before:
        del sys.modules[name]
    _files.clear()
    try:
        return load_app(target)
    except BaseException:
        for name in [name for name, module in sys.modules.items() if _is_source(name, module, folders)]:
            del sys.modules[name]
        sys.modules.update(before)
        _files.update(files)
        raise


def _is_source(name: str, module: ModuleType, folders: Sequence[str]) -> bool:
    """Return whether a module is a source of the app; never one of Interlock, nor of an environment below a folder."""
    file = getattr(module, "__file__", None) or ""
    if name.partition(".")[0] in ("interlock", "__main__") or not file.endswith(".py"):
        return False
    for folder in folders:
        if file.startswith(folder + os.sep):
            parts = file[len(folder) :].split(os.sep)
            return not any(part in OUTSIDE or part.startswith(".") for part in parts)
    return False


def load_function(target: str) -> Any:
    """Return the object with the name `module:name`; raise `CannotImport` with the reason on one line."""
    name, _, variable = target.rpartition(":")
    try:
        return _find(target, name, variable)
    except CannotImport as error:
        raise CannotImport(target, error.why, "function") from error.__cause__


def _find(target: str, name: str, variable: str) -> Any:
    value: Any = _import(target, name)
    for part in variable.split("."):
        if not hasattr(value, part):
            raise CannotImport(target, f"{name} has no {variable!r}")
        value = getattr(value, part)
    return value


def _import(target: str, name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if name.endswith(".py"):
            return _import_file(target, Path(name))
        return importlib.import_module(name)
    except InterlockError as error:
        if isinstance(error, CannotImport):
            raise
        raise CannotImport(target, f"{error} ({error.code})") from error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        text = " ".join(str(error).split())
        raise CannotImport(target, f"{type(error).__name__}: {text}" if text else type(error).__name__) from error


def _import_file(target: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise CannotImport(target, f"the file {path} does not exist")
    file = path.absolute()
    # One lock for each file, because the import of another may never end.
    with _locks.setdefault(file, Lock()):
        if file not in _files:
            _files[file] = _execute(target, file)
    return _files[file]


def _execute(target: str, file: Path) -> ModuleType:
    # Not `__main__`: the main part of a script must not run again in every worker.
    number = next(_numbers)
    name = f"__interlock_main_{number}__" if number else "__interlock_main__"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise CannotImport(target, f"{file} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    folder = str(file.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class Functions:
    """Functions that jobs name themselves: loaded when first needed, and kept."""

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}  # function → its definition, with the id of the first job

    def known(self, function: str) -> Definition | None:
        """Return its definition if it is already loaded."""
        return self._definitions.get(function)

    def load(self, job_id: str, function: str) -> Definition:
        """Load a function in the calling thread, however long it takes, or raise `CannotImport` and try again later."""
        # Its file may be newer than the cached listing of its folder.
        importlib.invalidate_caches()
        handler = load_function(function)
        try:
            definition = Definition(Job(id=job_id), handler)
        except BadHandler as error:
            raise CannotImport(function, str(error), "function") from error
        if len(self._definitions) >= MOST_KEPT:
            self._definitions.clear()
        self._definitions[function] = definition
        return definition


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

"""Python programs, read as syntax trees and never executed."""

import ast
import operator
import os
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from interlock.error import BadValue, NotJson
from interlock.fields.payload import encode
from interlock.importers.draft import CannotCarry, Draft, ImportSource

MOST_NODES = 10_000  # nodes of one value, with names replaced by their values
_MAKERS: dict[str, Any] = {"timedelta": timedelta, "datetime": datetime, "date": date, "dict": dict}
_ZONES = ("ZoneInfo", "timezone", "gettz")
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """An expression that is not a plain value: a name, a call, or anything else."""

    text: str
    line: int
    name: str = ""  # full name of the value or of the called function; begins with a dot if no import defines it
    args: list[Any] = []
    kwargs: dict[str, Any] = {}

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return self.text


class PythonSource:
    """The values and calls of a file."""

    def __init__(self, source: ImportSource) -> None:
        self.source = source
        tree = _parse(source.text, source.name)
        nodes: list[Any] = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
        self._nodes = sorted(nodes, key=lambda node: (node.lineno, node.col_offset))
        self._functions = _functions(tree)
        self._imported: dict[str, str] = {}
        self._names: dict[str, ast.expr] = {}
        self._visited = 0
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:  # `import a.b` binds `a`
                    head = alias.name.partition(".")[0]
                    self._imported[alias.asname or head] = alias.name if alias.asname else head
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
                    self._imported[alias.asname or alias.name] = name
            elif isinstance(node, ast.Assign) and node in tree.body:
                self._names |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}

    def assignments(self) -> Iterator[tuple[str, Any, int]]:
        """Yield name, value and line of each assignment. An assignment to a key counts as a mapping with that key."""
        for node in self._nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    name, value = target, self.value(node.value)
                    if isinstance(target, ast.Subscript):
                        name, value = target.value, {str(self.value(target.slice)): value}
                    yield self._dotted(name).rpartition(".")[2], value, node.lineno

    def calls(self) -> Iterator[tuple[Code, str | None]]:
        """Yield all calls, each with the name of the function that it decorates."""
        decorated = {
            id(decorator): node.name
            for node in self._nodes
            if isinstance(node, _Function)
            for decorator in node.decorator_list
        }
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(found := self.value(node), Code):
                yield found, decorated.get(id(node))

    def draft(self, name: str, line: int, text: str) -> Draft:
        return Draft(name=name, origin=f"{self.source.name}:{line}: {text}")

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; parts other than plain values, durations and dates stay `Code`."""
        self._visited = 0
        try:
            return self._value(node)
        except MemoryError:
            return Code(text=ast.unparse(node), line=node.lineno)

    def _value(self, node: ast.expr) -> Any:
        self._visited += 1
        if self._visited > MOST_NODES:
            raise MemoryError
        try:
            return self._plain(node)
        except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
            return Code(text=ast.unparse(node), line=node.lineno, name=self._dotted(node))

    def _plain(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple() | ast.Set():
                return [self._value(elt) for elt in node.elts]
            case ast.Dict() if None not in node.keys:  # which stands for **
                pairs = zip(node.keys, node.values, strict=True)
                return {self._value(key): self._value(one) for key, one in pairs if key}
            case ast.Name() if node.id in self._names:
                return self._value(self._names[node.id])
            case ast.UnaryOp(op=ast.USub()):
                return -self._value(node.operand)
            case ast.BinOp():
                sides = self._value(node.left), self._value(node.right)
                if all(isinstance(side, (int, float, timedelta, datetime)) for side in sides):
                    return _OPERATIONS[type(node.op)](*sides)
            case ast.Call():
                return self._called(node)
        if self._dotted(node).rpartition(".")[2].lower() == "utc":
            return "UTC"
        raise TypeError(node)

    def _called(self, node: ast.Call) -> Any:
        name = self._dotted(node.func)
        args, last = [self._value(arg) for arg in node.args], name.rpartition(".")[2]
        kwargs = {keyword.arg or "**": self._value(keyword.value) for keyword in node.keywords}
        if last in _MAKERS:
            if "tzinfo" in kwargs:
                kwargs["tzinfo"] = ZoneInfo(kwargs["tzinfo"])
            return _MAKERS[last](*args, **kwargs)
        if last in _ZONES and len(args) == 1:
            return args[0]
        return Code(text=ast.unparse(node), line=node.lineno, name=name, args=args, kwargs=kwargs)

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self._imported.get(node.id, f".{node.id}")
        return f"{self._dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""

    def set_function(self, draft: Draft, name: str, args: Any, kwargs: Any) -> None:
        """Make a draft call a function by its full name, with arguments by name."""
        module, _, last = name.rpartition(".")
        if not module and last in self._functions and self.source.path is not None:
            module = os.path.relpath(self.source.path, self.source.folder)
        if not module or name.startswith("..") or (name.startswith(".") and not module.endswith(".py")):
            raise CannotCarry(f"no worker can import its function ({name.lstrip('.') or 'unnamed'})")
        draft.fields |= {"run": {"function": f"{module}:{last}"}, "retry": {"max_retries": 0}}
        if not isinstance(args or [], list) or not isinstance(kwargs or {}, dict):
            raise CannotCarry(f"its arguments cannot be read: args {args!r}, kwargs {kwargs!r}")
        payload = dict(kwargs or {})
        if args:
            names = self._parameters(module, last)
            if len(args) > len(names):
                raise CannotCarry(f"arguments {args!r} cannot be named: {module}:{last} was not found, or takes fewer")
            payload |= dict(zip(names, args, strict=False))
        if payload:
            try:
                encode(payload, "payload")
            except NotJson as error:
                raise CannotCarry(f"{error}: {payload}") from None
            draft.fields["payload"] = payload

    def _parameters(self, module: str, name: str) -> list[str]:
        """Return the arguments of a function in this file, or in a file of a package around it."""
        found = self._functions.get(name) if module.endswith(".py") else None
        folder = os.path.dirname(os.path.abspath(self.source.path or "x"))
        for _ in range(3):
            path = os.path.join(folder, *module.split(".")) + ".py"
            if found is None and os.path.isfile(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found = _functions(_parse(file.read(), path)).get(name)
            folder = os.path.dirname(folder)
        names = [] if found is None or found.args.posonlyargs else [arg.arg for arg in found.args.args]
        return names[1:] if names[:1] == ["self"] else names


def _parse(text: str, name: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
        raise BadValue("FILE", name, f"readable Python ({why})") from None


def _functions(tree: ast.Module) -> dict[str, _Function]:
    return {node.name: node for node in tree.body if isinstance(node, _Function)}

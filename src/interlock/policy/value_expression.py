"""Values in CEL, for workflows: expressions that are more than a path. Their cost is bounded as in a policy."""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

from interlock.policy import expression as cel
from interlock.policy.syntax import SyntaxNode, parse

ROOTS = ("input", "steps", "item", "index", "run", "result")
MOST_COMPILED = 10_000
_REFERENCE = re.compile(r"""(?<![\w.])steps\b(?:\.([A-Za-z_]\w*)|\[["']([^"']*)["']\])?""")


@cache
def _environment() -> Any:
    library = cel.load_cel("steps")
    return library.NewEnv(variables=dict.fromkeys(ROOTS, library.Type.DYN))


def steps_in(text: str) -> set[str]:
    """Return the steps that an expression names; an empty name stands for all."""
    plain = re.sub(r"""(?<!\[)("[^"]*"|'[^']*')""", "", text)
    return {found[1] or found[2] or "" for found in _REFERENCE.finditer(plain)}


def roots_in(text: str) -> set[str]:
    plain = re.sub(r"""("[^"]*"|'[^']*')""", "", text)
    return {root for root in ROOTS if re.search(rf"(?<![\w.]){root}\b", plain)}


@lru_cache(MOST_COMPILED)
def compiled_value(text: str) -> Callable[[Mapping[str, Any]], Any]:
    """Compile an expression; raise `BadExpression`. Called with the values of its roots, it returns JSON, or raises
    `Unevaluated`."""
    environment = _environment()
    program = cel.program_of(environment, text)
    _check_cost(parse(program.serialize()))

    def evaluate(values: Mapping[str, Any]) -> Any:
        size = len(msgspec.json.encode(values))
        if size > cel.MOST_READ or (cel.PREPARED + len(text)) * size > cel.MOST_COST:
            raise cel.Unevaluated(f"it reads {size:,} bytes; at most {cel.MOST_READ:,} are allowed, so use a path")
        try:
            found = program.eval(environment.Activation(cel.within_range(dict(values))))
        except RuntimeError as error:
            raise cel.Unevaluated(str(cel.failure_of(str(error), text))) from None
        except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
            raise cel.Unevaluated(f"it cannot be read ({type(error).__name__})") from None
        if found.type().name() == "ERROR":
            raise cel.Unevaluated(str(cel.failure_of(str(found.value()), text)))
        return _plain(found.value())

    return evaluate


def _check_cost(node: SyntaxNode, in_loop: bool = False) -> None:
    if node.kind == "loop" and (in_loop or node.makes_list):
        raise cel.BadExpression("uses map, filter or a loop inside a loop, which are not supported; let a step do it")
    for part in node.parts:
        _check_cost(part, in_loop)
    for part in node.body:
        _check_cost(part, True)


def _plain(value: Any) -> Any:
    """Return a value of the library as JSON."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    inner = getattr(value, "value", None)
    if inner is None:
        raise cel.Unevaluated(f"a {type(value).__name__} is not JSON")
    return _plain(inner())

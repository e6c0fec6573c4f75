"""Conditions in CEL, the Common Expression Language: typed and checked when a policy is read, bounded when it runs."""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from interlock.model.error import InterlockError, MissingLibrary
from interlock.model.policy import PolicyRequest, decoded
from interlock.model.policy_document import MOST_RULES

LARGEST_PAYLOAD = 256 * 1024  # bytes that an expression reads; a larger payload makes it fail, and would take long
_STRINGS = re.compile(r"""[rR]?("{3}[\s\S]*?"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""")
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|filter)\s*\(")
_LARGE_NUMBER = re.compile(rb"[0-9]{18}")
_RESULTS = ("BOOL", "DYN")
_TEXTS = ("job", "topic", "tenant", "actor", "priority", "lane", "session")
_LISTS = ("capabilities", "risk_tags", "requires")


class BadExpression(InterlockError):
    """An expression that is refused when a policy is read."""


class Unevaluated(Exception):
    """An expression gave no answer for a request."""


@cache
def _environment() -> Any:
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped] # its types lie beside a compiled module
    except ImportError as error:
        raise MissingLibrary("when", "cel-expr-python", "policy") from error
    kind, text = cel.Type, cel.Type.STRING
    variables = dict.fromkeys(_TEXTS, text) | dict.fromkeys(_LISTS, kind.List(text)) | {"labels": kind.Map(text, text)}
    variables |= {"payload": kind.DYN, "payload_size": kind.INT, "secrets": kind.BOOL}
    return cel.NewEnv(variables=variables)


def _check_bounds(text: str) -> None:
    """Refuse what could take more than linear time: loops in loops, the payload inside a loop over it, and growth."""
    bare = _STRINGS.sub('""', text)
    if re.search(r"\.\s*map\s*\(", bare):  # a chain of them could make a value of any size
        raise BadExpression("uses map, which is not supported; use all, exists, exists_one or filter")
    for macro in _MACRO.finditer(bare):
        depth, end = 1, macro.end()
        while depth and end < len(bare):
            depth += {"(": 1, ")": -1}.get(bare[end], 0)
            end += 1
        body = bare[macro.end() : end]
        if _MACRO.search(body):
            raise BadExpression("has a loop inside a loop; write two rules, or a check of your own in Python")
        if re.search(r"\bpayload\b", body):
            raise BadExpression("uses payload inside a loop; use the variable of the loop alone")


@lru_cache(MOST_RULES)
def compiled(text: str) -> Callable[["Facts"], bool]:
    """Compile an expression; raise `BadExpression`."""
    environment = _environment()
    _check_bounds(text)
    try:
        program = environment.compile(text)
    except RuntimeError as error:
        raise BadExpression(_brief(str(error))) from None
    kind = program.return_type().name()
    if kind not in _RESULTS:
        raise BadExpression(f"is of type {kind.lower()}, not bool")

    def evaluate(facts: Facts) -> bool:
        try:
            found = program.eval(facts.activation())
        except RecursionError:
            raise Unevaluated("the payload is nested too deep") from None
        except RuntimeError as error:  # such as too many turns of a loop
            raise Unevaluated(_failure(str(error), text)) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Unevaluated(f"the payload cannot be read ({type(error).__name__})") from None
        kind, value = found.type().name(), found.value()
        if kind == "BOOL":
            return bool(value)
        raise Unevaluated(_failure(str(value), text) if kind == "ERROR" else f"it is of type {kind.lower()}, not bool")

    return evaluate


class Facts:
    """What expressions know of one request, prepared once when the first one asks."""

    def __init__(self, request: PolicyRequest) -> None:
        self._request = request
        self._activation: Any = None

    def activation(self) -> Any:
        if self._activation is None:
            request = self._request
            if len(request.payload) > LARGEST_PAYLOAD:
                raise Unevaluated(f"the payload is larger than {LARGEST_PAYLOAD:,} bytes")
            payload = decoded(request)
            if _LARGE_NUMBER.search(request.payload):
                payload = _within_range(payload)
            values: dict[str, Any] = {name: getattr(request, name) or "" for name in _TEXTS}
            values |= {name: list(getattr(request, name)) for name in _LISTS}
            values |= {"labels": request.labels, "payload": payload, "payload_size": len(request.payload)}
            self._activation = _environment().Activation(values | {"secrets": request.secrets})
        return self._activation


def _within_range(value: Any) -> Any:
    """Return JSON values with whole numbers that CEL cannot hold as floats."""
    if isinstance(value, dict):
        return {name: _within_range(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_within_range(one) for one in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


def _brief(message: str) -> str:
    """Return the first line of an error of the library, without its codes."""
    found = re.search(r"<input>:\d+:(\d+): (.*)", message)
    return f"{found[2]} (column {found[1]})" if found else message.splitlines()[0]


def _failure(message: str, text: str) -> str:
    """Say why there is no answer, without values of the payload: a name only if the expression itself has it."""
    what, _, rest = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", message).partition(":")
    named, what = rest.strip(), what.strip()
    if what.startswith("Key not found"):
        return f"there is no {named}" if named.strip('"') in text else "a key is missing"
    if what.startswith("No matching overloads"):  # names only types
        return f"the types do not fit: {named}"
    return what[:1].lower() + what[1:]

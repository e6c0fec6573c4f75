"""Conditions in CEL, the Common Expression Language: typed and checked when a policy is read, bounded when it runs."""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from interlock.error import InterlockError, MissingLibrary
from interlock.model.policy.document import MOST_RULES
from interlock.model.policy.scanner import compile_re2
from interlock.model.policy.verdict import PolicyRequest, decoded
from interlock.policy.syntax import SyntaxNode, parse

MOST_READ = 32 * 1024  # bytes of the payload that an expression reads: of the fields that it names
SMALL = 1024  # bytes of a payload that all expressions see as a whole
MOST_COST = 10_000_000  # of the expressions evaluated for one verdict: their characters times the bytes that they read
EVALUATED = 1000  # cost of an expression that reads nothing
PREPARED = 40  # characters that it costs to prepare what an expression reads
PATTERN = "matches"
COUNTS_AS = {PATTERN: 4000, "_+_": 1000, "timestamp": 300, "duration": 300}
"""function → characters that a call counts as: CEL compiles a pattern each time, and walks joined lists slowly"""
OF_TIME = 300  # characters that a function for a part of a time counts as
LOOKED_THROUGH = 4000  # characters that labels or a list of the job count as inside a loop
BUILT = 30  # characters that each value of a list in the expression counts as inside a loop
LARGEST_PATTERN = 100  # instructions of a compiled pattern
_LARGE_NUMBER = re.compile(rb"[0-9]{18}")
_RESULTS = ("BOOL", "DYN")
_TEXTS = ("job", "topic", "tenant", "actor", "priority", "lane", "session")
_LISTS = ("capabilities", "risk_tags", "requires")


class BadExpression(InterlockError):
    """An expression that is refused when a policy is read."""


class Unevaluated(Exception):
    """An expression gave no answer for a request."""


class TooCostly(Exception):
    """An expression was not evaluated, or not to its end, because that would hold up all other work."""


def load_cel(field: str) -> Any:
    """Import the library; `field` needs it."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped] # its types lie beside a compiled module
    except ImportError as error:
        raise MissingLibrary(field, "cel-expr-python", "policy") from error
    return cel


def program_of(environment: Any, text: str) -> Any:
    """Compile an expression; raise `BadExpression`."""
    try:
        return environment.compile(text)
    except RuntimeError as error:
        raise BadExpression(brief_error(str(error))) from None


@cache
def _environment() -> Any:
    cel = load_cel("when")
    kind, text = cel.Type, cel.Type.STRING
    variables = dict.fromkeys(_TEXTS, text) | dict.fromkeys(_LISTS, kind.List(text)) | {"labels": kind.Map(text, text)}
    variables |= {"payload": kind.DYN, "payload_size": kind.INT, "secrets": kind.BOOL}
    return cel.NewEnv(variables=variables)


class Meter:
    """The cost of the expressions evaluated for one verdict."""

    def __init__(self) -> None:
        self.cost = 0

    def take(self, length: int, size: int) -> None:
        """Count an expression of this length that reads this many bytes; raise `TooCostly`."""
        cost = EVALUATED + (PREPARED + length) * size
        if self.cost + cost > MOST_COST:
            raise TooCostly(f"its cost and that of the rules before it would exceed {MOST_COST:,}; see docs/policy.md")
        self.cost += cost


class Reading(NamedTuple):
    """What an expression reads, and its length as far as its cost goes."""

    fields: frozenset[str] | None  # fields of the payload; None for all
    length: int


def _read(text: str, tree: SyntaxNode) -> Reading:
    """Refuse what could take more than linear time: lists that grow, loops in loops, the payload inside a loop, and
    patterns that are large or computed."""
    fields: set[str | None] = set()
    length, nodes = len(text), [(tree, False)]
    while nodes:
        node, in_loop = nodes.pop()
        if node.kind == "loop":
            if in_loop:
                raise BadExpression("has a loop inside a loop; write two rules, or a check of your own in Python")
            if node.makes_list:
                raise BadExpression("uses map or filter, which are not supported; use all, exists or exists_one")
        elif node.kind == "call":
            length += OF_TIME if node.name.startswith("get") else COUNTS_AS.get(node.name, 0)
            if node.name == PATTERN:
                _check_pattern(node.text)
        elif node.name == "payload":
            if in_loop:
                raise BadExpression("uses payload inside a loop; use the variable of the loop alone")
            fields.add(node.text)
        elif in_loop:
            length += LOOKED_THROUGH if node.name in ("labels", *_LISTS) else BUILT * len(node.parts)
        nodes += [(part, in_loop) for part in node.parts] + [(part, True) for part in node.body]
    return Reading(None if None in fields else frozenset(map(str, fields)), length)


def _check_pattern(pattern: str | None) -> None:
    if pattern is None:
        raise BadExpression("matches: the pattern must be a text in the expression itself")
    try:
        size = compile_re2(pattern).programsize
    except ValueError as error:
        raise BadExpression(f"matches: {error}") from None
    if size > LARGEST_PATTERN:
        raise BadExpression(f"matches: the pattern takes {size:,} instructions; at most {LARGEST_PATTERN} are allowed")


@lru_cache(MOST_RULES)
def compiled(text: str) -> Callable[["RequestFacts"], bool]:
    """Compile an expression; raise `BadExpression`."""
    program = program_of(_environment(), text)
    kind = program.return_type().name()
    if kind not in _RESULTS:
        raise BadExpression(f"is of type {kind.lower()}, not bool")
    reading = _read(text, parse(program.serialize()))

    def evaluate(facts: RequestFacts) -> bool:
        try:
            found = program.eval(facts.activation(reading))
        except RecursionError:
            raise TooCostly("the payload is nested too deep") from None
        except RuntimeError as error:
            raise failure_of(str(error), text) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise Unevaluated(f"the payload cannot be read ({type(error).__name__})") from None
        kind, value = found.type().name(), found.value()
        if kind == "BOOL":
            return bool(value)
        raise (
            failure_of(str(value), text) if kind == "ERROR" else Unevaluated(f"it is of type {kind.lower()}, not bool")
        )

    return evaluate


class RequestFacts:
    """What expressions know of one request, prepared when the first one asks."""

    def __init__(self, request: PolicyRequest, meter: Meter | None = None) -> None:
        self._request = request
        self._meter = meter or Meter()
        self._activations: dict[frozenset[str] | None, Any] = {}
        self._fields: dict[str, msgspec.Raw] | None = None

    def activation(self, reading: Reading) -> Any:
        """Return the values that an expression sees: a small payload as a whole, of a large one the fields it reads."""
        size, fields = len(self._request.payload), None
        if size > SMALL:
            size, fields = self._size_of(reading.fields), reading.fields
            if size > MOST_READ:
                raise TooCostly(f"it reads {size:,} bytes of the payload; at most {MOST_READ:,} are allowed")
        self._meter.take(reading.length, size)
        if fields not in self._activations:
            self._activations[fields] = self._activate(fields)
        return self._activations[fields]

    def _size_of(self, names: frozenset[str] | None) -> int:
        """Return the size of fields of a payload; that of the whole if it has no fields."""
        if names is None:
            return len(self._request.payload)
        if self._fields is None:
            try:
                self._fields = msgspec.json.decode(self._request.payload, type=dict[str, msgspec.Raw])
            except (msgspec.MsgspecError, RecursionError):
                return len(self._request.payload)
        return sum(len(self._fields[name]) for name in names if name in self._fields)

    def _activate(self, fields: frozenset[str] | None) -> Any:
        request = self._request
        if fields is None or self._fields is None:
            data, payload = request.payload, decoded(request)
        else:
            data = msgspec.json.encode({name: self._fields[name] for name in fields if name in self._fields})
            payload = msgspec.json.decode(data)
        if _LARGE_NUMBER.search(data):
            payload = within_range(payload)
        values: dict[str, Any] = {name: getattr(request, name) or "" for name in _TEXTS}
        values |= {name: list(getattr(request, name)) for name in _LISTS}
        values |= {"labels": request.labels, "payload": payload, "payload_size": len(request.payload)}
        return _environment().Activation(values | {"secrets": request.secrets})


def within_range(value: Any) -> Any:
    """Return JSON values with whole numbers that CEL cannot hold as floats."""
    if isinstance(value, dict):
        return {name: within_range(item) for name, item in value.items()}
    if isinstance(value, list):
        return [within_range(item) for item in value]
    return float(value) if type(value) is int and not -(2**63) <= value < 2**63 else value


def brief_error(message: str) -> str:
    """Return the first line of an error of the library, without its codes."""
    found = re.search(r"<input>:\d+:(\d+): (.*)", message)
    return f"{found[2]} (column {found[1]})" if found else message.splitlines()[0]


def failure_of(message: str, text: str) -> Unevaluated | TooCostly:
    """Say why there is no answer, without values of the payload: a name only if the expression itself has it."""
    what, _, rest = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", message).partition(":")
    named, what = rest.strip(), what.strip()
    if what.startswith("Key not found"):
        return Unevaluated(f"there is no {named}" if named.strip('"') in text else "a key is missing")
    if what.startswith("No matching overloads"):  # names only types
        return Unevaluated(f"the types do not fit: {named}")
    if what.startswith("Iteration budget exceeded"):
        return TooCostly("its loops take more than 10,000 turns")
    return Unevaluated(what[:1].lower() + what[1:])

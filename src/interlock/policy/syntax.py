"""The syntax tree of a CEL expression, as far as its cost goes. The library gives it only as a protobuf message,
`cel.expr.CheckedExpr`, so the few fields that matter are read here."""

from collections.abc import Iterator
from typing import NamedTuple

CONSTANT, NAME, MEMBER, CALL, LIST, STRUCT, LOOP = range(3, 10)  # fields of `Expr`; each expression has one of them


class SyntaxNode(NamedTuple):
    kind: str = ""  # loop, call, name, or values (a list or map); empty for any other
    name: str = ""  # function, or variable
    text: str | None = None  # field of the payload, or last argument of a call, if the expression has it as a text
    makes_list: bool = False  # whether a loop makes a list
    parts: tuple["SyntaxNode", ...] = ()
    body: tuple["SyntaxNode", ...] = ()  # parts that a loop evaluates for each element


def parse(data: bytes) -> SyntaxNode:
    """Return the tree of a serialized expression."""
    return _node(_field(_field(data, 2), 4))


def _node(data: bytes) -> SyntaxNode:
    kind, value = next(((number, value) for number, value in _fields(data) if number >= CONSTANT), (CONSTANT, b""))
    if kind == NAME:
        return SyntaxNode("name", _field(value, 1).decode())
    if kind == MEMBER:
        of = _node(_field(value, 1))
        return of._replace(text=_field(value, 2).decode()) if _is_payload(of) else SyntaxNode(parts=(of,))
    if kind == CALL:
        called, values = _field(value, 2).decode(), [_field(value, 1), *_all(value, 3)]
        parts, last = tuple(_node(value) for value in values if value), _text(values[-1])
        if called == "_[_]" and _is_payload(parts[0]) and last is not None:
            return parts[0]._replace(text=last)
        return SyntaxNode("call", called, last, parts=parts)
    if kind == LOOP:
        start = _field(value, 4)
        body = tuple(_node(_field(value, number)) for number in (5, 6, 7))
        return SyntaxNode(
            "loop", makes_list=bool(_all(start, LIST)), parts=(_node(_field(value, 2)), _node(start)), body=body
        )
    if kind == LIST:
        return SyntaxNode("values", parts=tuple(map(_node, _all(value, 1))))
    if kind == STRUCT:
        found = [part for entry in _all(value, 2) for number in (3, 4) for part in _all(entry, number)]
        return SyntaxNode("values", parts=tuple(map(_node, found)))
    return SyntaxNode()


def _is_payload(node: SyntaxNode) -> bool:
    """Return whether a node is the whole payload."""
    return node.name == "payload" and node.text is None


def _text(data: bytes) -> str | None:
    """Return the value of a constant text."""
    found = _all(_field(data, CONSTANT), 6)
    return found[0].decode() if found else None


def _field(data: bytes, wanted: int) -> bytes:
    return next((value for number, value in _fields(data) if number == wanted), b"")


def _all(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, value in _fields(data) if number == wanted]


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield numbers and contents of the fields of a message that are texts or messages."""
    at = 0
    while at < len(data):
        tag, at = _whole(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = _whole(data, at)
        elif kind == 2:
            size, at = _whole(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            at += 8 if kind == 1 else 4


def _whole(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of variable length at a place, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return value, at

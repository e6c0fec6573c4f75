"""Requests made from the table of operations (`interface/operations.py`), and from the structs it names."""

import os
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from interlock.client.http.exchange import HttpRequest
from interlock.error import BadValue, UnknownChild, shown
from interlock.interface.operation import PATH_PARAMETERS, Operation, Query
from interlock.interface.operations import operation_of
from interlock.model.run import CALL_KEY
from interlock.model.session import check_key
from interlock.wire.claim import HEADER, present_claim
from interlock.wire.new_run import PLAIN, check_text
from interlock.wire.operation import Order, Question
from interlock.wire.request import NewRun

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

QUICK = 60.0
"""seconds: an operation that may take the server longer gets time of its own, and a connection beside the pool"""
SPARE = 10.0  # seconds that a client waits longer than the server does


class Submitted(msgspec.Struct):
    """The part of an answer to a submit that a handle needs."""

    id: str


def request_of(
    operation: Operation[Any],
    *path: str,
    query: Query | None = None,
    body: msgspec.Struct | bytes | None = None,
    key: str | None = None,
    runs: Sequence[NewRun] = (),
) -> HttpRequest:
    """Return the request of an operation; `runs` are those that it submits."""
    target = operation.path
    for name, value in zip(operation.parameters, path, strict=True):
        check_text(name, value)
        if name == "session":
            check_key(name, value)
        elif value in ("", ".", "..") or "/" in value:
            raise _unknown(name, value)
        # A part of one or two dots would stand for a folder.
        quoted = quote(value, safe=":") if value not in (".", "..") else value.replace(".", "%2E")
        target = target.replace(f"{{{name}}}", quoted)
    slow = operation.limit > QUICK
    key = _call_key(runs) if runs else key
    headers = {} if key is None else {"Idempotency-Key": key}
    if operation.method != "GET" and (claim := present_claim()):
        headers[HEADER] = claim
    return HttpRequest(
        operation.method,
        with_query(target, query),
        msgspec.json.encode(body) if isinstance(body, msgspec.Struct) else body,
        headers,
        within=operation.limit + SPARE if slow else None,
        alone=slow and operation.once,
        once=operation.once or any(new.unique is not None for new in runs),
    )


def parts_of(request: Question[T] | Order[T]) -> tuple[Operation[T], list[str], Query]:
    """Return the operation that a request is, with its path and its query, checked as the server checks them."""
    operation = operation_of(request)
    fields = {name: getattr(request, name) for name in operation.query.__struct_fields__}
    return operation, [getattr(request, name) for name in operation.parameters], filled(operation.query, **fields)


def _unknown(name: str, value: str) -> Exception:
    """Return the error for a value that no path can have. The tree shows services as paths, but no operation takes
    one."""
    last, kind = value.rpartition("/")[2], PATH_PARAMETERS[name].unknown[0]
    if kind is UnknownChild and last not in ("", ".", ".."):
        return UnknownChild(value, f"; this is a path, and its last part is the name: {shown(last)}")
    return kind(value)


def with_query(path: str, query: Query | None) -> str:
    given = {} if query is None else msgspec.to_builtins(query)
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    return f"{path}?{urlencode(texts, doseq=True)}" if any(texts.values()) else path


def filled(kind: type[S], /, **fields: Any) -> S:
    """Make a query or a body, checked as the server checks it. None stands for a field that is left out."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, str):
            check_text(name, value)
    try:
        return msgspec.convert({names[name]: value for name, value in given.items()}, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        field = next((name for name in given if place.startswith(names[name])), place)
        raise BadValue(field, given.get(field), f"valid: {what[:1].lower()}{what[1:].replace('`', '')}") from error


def run_fields(new: NewRun, now: float, tenant: str | None) -> dict[str, Any]:
    """Return what a submit and a trigger say alike. The deadline is a duration: clocks may differ."""
    start = new.at or new.occurrence or now + (new.delay or 0.0)
    return {
        "payload": msgspec.Raw(new.payload) if new.payload else None,
        **{name: getattr(new, name) for name in PLAIN},
        "tenant": tenant,
        "stamp": new.stamp,
        "deadline": None if new.deadline_at is None else round(max(0.0, new.deadline_at - start), 6),
    }


def _call_key(runs: Sequence[NewRun]) -> str | None:
    """Return a new key, which makes this call safe to repeat; None if each run is so by itself."""
    if all(new.idempotency_key is not None or new.occurrence is not None for new in runs):
        return None
    return CALL_KEY + os.urandom(16).hex()

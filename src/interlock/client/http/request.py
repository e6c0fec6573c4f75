"""HTTP requests made from the requests that declare operations."""

import os
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode

import msgspec

from interlock.client.http.exchange import HttpRequest
from interlock.error import BadValue, UnknownChild, shown
from interlock.interface.operation import PATH_PARAMETERS, Operation, operation_of
from interlock.model.run import CALL_KEY
from interlock.model.session import check_key
from interlock.wire.claim import HEADER, present_claim
from interlock.wire.new_run import OPTIONS, check_text
from interlock.wire.operation import Declared
from interlock.wire.parameter import instant
from interlock.wire.request import NewRun

S = TypeVar("S", bound=msgspec.Struct)

QUICK = 60.0
"""seconds: an operation that may take the server longer gets time of its own, and a connection beside the pool"""
SPARE = 10.0  # seconds that a client waits longer than the server does


class Submitted(msgspec.Struct):
    """The part of an answer to a submit that a handle needs."""

    id: str


def request_of(request: Declared[Any], body: object = None, runs: Sequence[NewRun] = ()) -> HttpRequest:
    """Return a request as HTTP sends it; `runs` are those that it submits."""
    operation = operation_of(type(request), getattr(request, "action", None))
    target = operation.path
    for name in operation.parameters:
        target = target.replace(f"{{{name}}}", _quoted(name, getattr(request, name)))
    fields = checked_fields(request, operation)
    query, body = ({}, fields) if operation.in_body else (fields, getattr(request, "body", body))
    key = _key_of(runs) if runs else os.urandom(16).hex() if operation.http.key else None
    headers = {} if key is None else {"Idempotency-Key": key}
    if operation.method != "GET" and (claim := present_claim()):
        headers[HEADER] = claim
    slow = operation.limit > QUICK
    return HttpRequest(
        operation.method,
        with_query(target, query),
        body if body is None or isinstance(body, bytes) else msgspec.json.encode(body),
        headers,
        within=operation.limit + SPARE if slow else None,
        alone=slow and operation.once,
        once=operation.once or any(new.unique is not None for new in runs),
    )


def checked_fields(request: Declared[Any], operation: Operation[Any]) -> dict[str, Any]:
    """Return the fields of a request besides those of the path, without those that are left out, as JSON has them.
    They are checked as the server checks them."""
    given = {name: value for name in operation.fields if (value := getattr(request, name)) is not None}
    kind = operation.body if operation.in_body else operation.query
    return msgspec.to_builtins(filled(kind, **given)) if given else {}


def _quoted(name: str, value: str) -> str:
    check_text(value, name)
    if name == "session":
        check_key(name, value)
    elif value in ("", ".", "..") or "/" in value:
        raise _unknown(name, value)
    # A part of one or two dots would stand for a folder.
    return quote(value, safe=":") if value not in (".", "..") else value.replace(".", "%2E")


def _unknown(name: str, value: str) -> Exception:
    """Return the error for a value that no path can have. The tree shows services as paths, but no operation takes
    one."""
    last, kind = value.rpartition("/")[2], PATH_PARAMETERS[name].unknown[0]
    if kind is UnknownChild and last not in ("", ".", ".."):
        return UnknownChild(value, f"; this is a path, and its last part is the name: {shown(last)}")
    return kind(value)


def with_query(path: str, query: dict[str, Any]) -> str:
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
    return f"{path}?{urlencode(texts, doseq=True)}" if any(texts.values()) else path


@cache
def _wide(kind: type[msgspec.Struct]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the fields that are times, and those that are lists: callers may give them in other forms."""
    hints = get_type_hints(kind)
    times = frozenset(name for name, hint in hints.items() if datetime in get_args(hint))
    return times, frozenset(name for name, hint in hints.items() if get_origin(hint) is list)


def filled(kind: type[S], /, **fields: Any) -> S:
    """Make a request, checked as the server checks it. None stands for a field that is left out."""
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    given = {name: value for name, value in fields.items() if value is not None}
    times, lists = _wide(kind)
    for name, value in given.items():
        if name in times:
            given[name] = instant(value, name)
        elif name in lists:
            given[name] = [value] if isinstance(value, str) else list(value)
        elif isinstance(value, str):
            check_text(value, name)
    try:
        return msgspec.convert({names[name]: value for name, value in given.items()}, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        field = next((name for name in given if place.startswith(names[name])), place)
        raise BadValue(field, given.get(field), f"valid: {what[:1].lower()}{what[1:].replace('`', '')}") from error


def run_fields(new: NewRun, now: float, has_tenant: bool) -> dict[str, Any]:
    """Return a run as a body has it. The deadline is a duration: clocks may differ."""
    fields = {name: value for name in OPTIONS if (value := getattr(new, name)) is not None}
    if not has_tenant:
        del fields["tenant"]
    if new.deadline is not None:
        start = new.at or new.occurrence or now + (new.delay or 0.0)
        fields["deadline"] = round(max(0.0, new.deadline - start), 6)
    payload = {"payload": msgspec.Raw(new.payload)} if new.payload else {}
    return payload | fields | {"job": new.job_id}


def _key_of(runs: Sequence[NewRun]) -> str | None:
    """Return a new key, which makes this call safe to repeat; None if each run is so by itself."""
    if all(new.idempotency_key is not None or new.occurrence is not None for new in runs):
        return None
    return CALL_KEY + os.urandom(16).hex()

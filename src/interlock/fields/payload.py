"""Payloads and results as JSON: encode a value, and refuse what JSON cannot carry."""

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from interlock.error import NotJson, PayloadTooLarge
from interlock.fields.secret import MARKED, BadSecret, Secret, as_json, from_json
from interlock.fields.value import plain

LIMIT = 1024 * 1024  # bytes of JSON a payload, a result or a checkpoint may have

_DEPTH = 200
_encoder = msgspec.json.Encoder(enc_hook=as_json)
_open_encoder = msgspec.json.Encoder()
EMPTY = b"{}"


def encode(value: Any, what: str, limit: int = LIMIT) -> bytes:
    """Return the value as JSON. `NotJson` names the place of a bad value, `PayloadTooLarge` the size."""
    _check(value, what, 0)
    data = _encoder.encode(value)
    if len(data) > limit:
        raise PayloadTooLarge(what, len(data), limit)
    return data


def encode_result(value: Any) -> bytes:
    """Encode the result of a handler, which must not contain a secret."""
    try:
        _check(value, "result", 0)
        data = _open_encoder.encode(value)
    except (NotJson, TypeError):
        # Only a result with other types than those of JSON pays for this.
        value = plain(value, "result", secrets=False)
        _check(value, "result", 0)
        data = _open_encoder.encode(value)
    if len(data) > LIMIT:
        raise PayloadTooLarge("result", len(data), LIMIT)
    return data


def fault_of(data: bytes, what: str) -> str | None:
    """Return why a value that somebody else encoded cannot be kept: every reader must be able to read it."""
    if data == b"null":
        return None
    if len(data) > LIMIT:
        return str(PayloadTooLarge(what, len(data), LIMIT))
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"{what}: not JSON that can be read ({error})"
    if has_deep([value], data.count(b"[") + data.count(b"{")):
        return str(NotJson(what, "this value", f"nested deeper than {_DEPTH}"))
    return None


def has_deep(values: list[Any], brackets: int) -> bool:
    """Return whether one of the values is nested too deep. Few opening brackets in their JSON spare the look."""
    if brackets <= _DEPTH:
        return False
    level: list[Any] = [values]
    for _ in range(_DEPTH + 1):
        items = (item for one in level for item in (one.values() if type(one) is dict else one))
        level = [item for item in items if type(item) is dict or type(item) is list]
        if not level:
            return False
    return True


def decode(data: bytes) -> Any:
    return msgspec.json.decode(data)


def canonical(data: bytes) -> bytes:
    """Return the JSON with sorted keys and unmarked secrets, so that equal values are equal bytes."""
    value = msgspec.json.decode(data)
    if MARKED in data:
        with suppress(BadSecret):
            value = from_json(value)
    return msgspec.json.encode(value, order="sorted", enc_hook=Secret.reveal)


def digest(job_id: str, data: bytes) -> bytes:
    """Return the digest of a job and its payload, which a repeated submit must share with the first."""
    return hashlib.blake2b(job_id.encode() + b"\0" + canonical(data), digest_size=16).digest()


def _check(value: Any, where: str, depth: int) -> None:
    check = _CHECKS.get(type(value))
    if check is None:
        raise NotJson(where, f"a {type(value).__name__}")
    check(value, where, depth)


def _check_text(value: str, where: str, depth: int) -> None:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotJson(where, "a string with a lone surrogate") from None  # the cause quotes the text


def _check_whole(value: int, where: str, depth: int) -> None:
    if not -(2**63) <= value < 2**64:
        raise NotJson(where, "a whole number beyond 64 bits", "it does not survive every reader")


def _check_number(value: float, where: str, depth: int) -> None:
    if not math.isfinite(value):
        raise NotJson(where, str(value), "not a finite number")


def _check_mapping(value: dict[Any, Any], where: str, depth: int) -> None:
    _check_depth(where, depth)
    for key, item in value.items():
        if type(key) is not str:
            raise NotJson(where, "this object", f"a key must be a string, not {type(key).__name__}")
        _check_text(key, where, depth)
        _check(item, f"{where}.{key}", depth + 1)


def _check_sequence(value: list[Any] | tuple[Any, ...], where: str, depth: int) -> None:
    _check_depth(where, depth)
    for place, item in enumerate(value):
        _check(item, f"{where}[{place}]", depth + 1)


def _check_depth(where: str, depth: int) -> None:
    if depth >= _DEPTH:
        raise NotJson(where, "this value", f"nested deeper than {_DEPTH}")


_CHECKS: dict[type, Callable[[Any, str, int], None]] = {
    str: _check_text,
    int: _check_whole,
    float: _check_number,
    bool: lambda value, where, depth: None,
    type(None): lambda value, where, depth: None,
    dict: _check_mapping,
    list: _check_sequence,
    tuple: _check_sequence,
    Secret: lambda value, where, depth: _check_text(value.reveal(), where, depth),
}

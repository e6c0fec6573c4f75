"""Errors as problem details (RFC 9457), and why a body is refused."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import msgspec

from interlock.model.bodies import NewRunBody, ProblemDetails
from interlock.model.error import BadDuration, BadJson, BadValue, InterlockError, MissingField, UnknownField, UnknownJob
from interlock.model.state import State

MEDIA_TYPE = "application/problem+json"

CHOICES = {"state": tuple(State), "type": ("run", "log", "progress", "service", "service_log")}
DURATIONS = frozenset({"delay", "deadline", "wait", "for"})

# The names in these may be any text, line breaks included.
_AT = re.compile(r"^(?P<what>.*?) - at `\$(?:\.?)(?P<path>.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)


def details(error: InterlockError, of_path: bool = False) -> ProblemDetails:
    """`of_path`: whether the path says which job is meant, so that one that is not there is what is not found."""
    status = 404 if of_path and isinstance(error, UnknownJob) else error.status
    text, faults = str(error), list[str]()
    if error.code == "bad_config":
        # Several come below a line that counts them.
        text, *below = text.split("\n")
        faults = below or [text]
    return ProblemDetails(
        type=f"urn:interlock:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=text,
        code=error.code,
        faults=faults,
    )


def headers(status: int) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", MEDIA_TYPE.encode())]
    if status == 401:
        found.append((b"www-authenticate", b'Bearer realm="interlock"'))
    if status == 503:
        found.append((b"retry-after", b"1"))
    return found


def unreadable(body: bytes, error: Exception, kind: type) -> InterlockError:
    """Why a body is refused: which field, what was there, what is expected."""
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return BadJson("body", text)
    match = _AT.match(text)
    what, path = (match["what"], match["path"]) if match else (text, "")
    if unknown := _UNKNOWN.match(what):
        known = NewRunBody if path.startswith("runs[") else kind
        close = get_close_matches(unknown["name"], known.__struct_encode_fields__, 1)  # type: ignore[attr-defined]
        return UnknownField(f"{path}.{unknown['name']}" if path else unknown["name"], close[0] if close else None)
    if missing := _MISSING.match(what):
        return MissingField(f"{path}.{missing['name']}" if path else missing["name"])
    return not_valid(path or "body", _value_at(body, path), what)


def wrong_parameter(given: Mapping[str, Any], error: msgspec.ValidationError) -> InterlockError:
    """Why a query is refused."""
    match = _AT.match(str(error))
    what, path = (match["what"], match["path"]) if match else (str(error), "")
    field, _, place = path.removesuffix("]").partition("[")
    value = given.get(field)
    return not_valid(field, value[int(place)] if place and isinstance(value, list) else value, what)


def not_valid(field: str, value: Any, what: str) -> InterlockError:
    """The error for a value that does not fit; `what` is how the decoder says so."""
    name = field.rpartition(".")[2]
    if "regex" in what:
        if name in DURATIONS:
            return BadDuration(field, value)
        return BadValue(field, value, "a name of letters, digits, '_', '-' and '.'")
    expected = what.replace("`", "").replace(" | null", "")
    if name in CHOICES:
        return BadValue(field, value, f"one of {', '.join(CHOICES[name])}")
    return BadValue(field, value, f"valid: {expected[:1].lower()}{expected[1:]}")


def _value_at(body: bytes, path: str) -> Any:
    """What stands at a path such as `runs[3].delay`; of a list, how many. A payload may hold secrets, so it is never
    shown, nor what may have one in it."""
    if "payload" in path or not path:
        return "…"
    try:
        value = msgspec.json.decode(body)
        for name, place in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
            value = value[int(place)] if place else value[name]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        # What comes behind the first fault may be no JSON at all, or name the field once more.
        return "…"
    if isinstance(value, list):
        return len(value)
    return "…" if isinstance(value, dict) else value

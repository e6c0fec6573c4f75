"""Errors as problem details (RFC 9457), and why a body is refused."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from http import HTTPStatus
from math import ceil
from typing import Any, get_args

import msgspec

from interlock.error import BadDuration, BadJson, BadValue, InterlockError, MissingField, UnknownField, UnknownJob
from interlock.interface.bodies import NewRunBody, ProblemDetails
from interlock.interface.server_operations import EventType
from interlock.model.state import State

MEDIA_TYPE = "application/problem+json"

CHOICES = {"state": tuple(State), "type": get_args(EventType)}
DURATIONS = frozenset({"delay", "deadline", "wait", "for"})

# Names may be any text, line breaks included.
_AT = re.compile(r"^(?P<what>.*?) - at (?:`key` in )?`\$(?:\.?)(?P<path>.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)


def details(error: InterlockError, of_path: bool = False) -> ProblemDetails:
    """Describe an error. `of_path`: the path names the job, so an unknown job is a path not found."""
    status = 404 if of_path and isinstance(error, UnknownJob) else error.status
    text, faults = str(error), list[str]()
    if error.code == "bad_config":
        # Several faults follow a line that counts them.
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


def headers(error: InterlockError) -> list[tuple[bytes, bytes]]:
    found = [(b"content-type", MEDIA_TYPE.encode())]
    if error.status == 401:
        found.append((b"www-authenticate", b'Bearer realm="interlock"'))
    if error.status in (429, 503):
        found.append((b"retry-after", b"%d" % max(1, ceil(error.retry_after or 0))))
    return found


def unreadable(body: bytes, error: Exception, kind: type[msgspec.Struct]) -> InterlockError:
    """Return the error for a body that cannot be read: field, value and rule."""
    text = str(error)
    if not isinstance(error, msgspec.ValidationError):
        return BadJson("body", text)
    match = _AT.match(text)
    what, path = (match["what"], match["path"]) if match else (text, "")
    if unknown := _UNKNOWN.match(what):
        known = NewRunBody if path.startswith("runs[") else kind
        close = get_close_matches(unknown["name"], known.__struct_encode_fields__, 1)
        return UnknownField(f"{path}.{unknown['name']}" if path else unknown["name"], close[0] if close else None)
    if missing := _MISSING.match(what):
        return MissingField(f"{path}.{missing['name']}" if path else missing["name"])
    return not_valid(path or "body", _value_at(body, path), what)


def wrong_parameter(given: Mapping[str, Any], error: msgspec.ValidationError) -> InterlockError:
    """Return the error for a query that cannot be read."""
    match = _AT.match(str(error))
    what, path = (match["what"], match["path"]) if match else (str(error), "")
    field, _, place = path.removesuffix("]").partition("[")
    value = given.get(field)
    return not_valid(field, value[int(place)] if place and isinstance(value, list) else value, what)


def not_valid(field: str, value: Any, what: str) -> InterlockError:
    """Return the error for a value that breaks a rule; `what` is the decoder's own text."""
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
    """Return the value at a path such as `runs[3].delay`, or the length of a list. Payloads and tokens are never
    shown."""
    if "payload" in path or "token" in path or not path:
        return "…"
    try:
        value = msgspec.json.decode(body)
        for name, place in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
            value = value[int(place)] if place else value[name]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        # The rest of the body may not be JSON, or may repeat the field.
        return "…"
    if isinstance(value, list):
        return len(value)
    return "…" if isinstance(value, dict) else value

"""A parser of server-sent events, for bytes that arrive in pieces of any size."""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    name: str
    data: str
    id: str | None
    """None for an event without one"""


class EventParser:
    """`feed` it what arrives; it returns the events that are complete."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """parts of the unfinished line"""
        self._at_start: bytes | None = b""
        """bytes so far, while they may be the beginning of a byte order mark"""
        self._after_return = False
        self._clear()

    def _clear(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        if self._at_start is not None:
            data = self._at_start + data
            if len(data) < len(_MARK) and _MARK.startswith(data):
                self._at_start = data
                return []
            self._at_start = None
            data = data.removeprefix(_MARK)
        if self._after_return and data:
            # A line that ended with CR at the end of a piece may have ended with CRLF.
            data = data.removeprefix(b"\n")
            self._after_return = False
        if data.endswith(b"\r"):
            self._after_return = True
        events: list[ServerSentEvent] = []
        *lines, rest = _LINE_END.split(data)
        for line in lines:
            self._take(b"".join((*self._pieces, line)), events)
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        return events

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not line:
            # The standard drops an event without data, but its id still says how far the stream has come.
            if self._data or self._id:
                events.append(ServerSentEvent(self._name or "message", "\n".join(self._data), self._id))
            self._clear()
            return
        field, _, text = line.decode(errors="replace").partition(":")
        value = text.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._id = value

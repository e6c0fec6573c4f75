"""A parser of server-sent events as this server frames them, for bytes that arrive in pieces of any size."""

from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    name: str
    data: str
    id: str | None  # None for an event without one


class EventParser:
    """`feed` it what arrives; it returns the events that are complete."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the unfinished line
        self._fields: dict[str, str] = {}

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        *lines, rest = piece.split(b"\n")
        events: list[ServerSentEvent] = []
        for line in lines:
            whole, self._rest = bytes(self._rest + line), bytearray()
            if text := whole.removesuffix(b"\r").decode(errors="replace"):
                field, _, value = text.partition(":")
                value = value.removeprefix(" ")
                if field == "data" and "data" in self._fields:
                    value = f"{self._fields['data']}\n{value}"
                self._fields[field] = value
            else:
                fields, self._fields = self._fields, {}
                # The standard drops an event without data, but its id still says how far the stream has come.
                if "data" in fields or fields.get("id"):
                    events.append(
                        ServerSentEvent(fields.get("event", "message"), fields.get("data", ""), fields.get("id"))
                    )
        self._rest += rest
        return events

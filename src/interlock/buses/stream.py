"""Links over a stream of bytes, whatever carries it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

from interlock.error import Refused
from interlock.ports.bus import Endpoint, Peer
from interlock.wire.frames import FrameReader, encode
from interlock.wire.message import Message, Problem

logger = logging.getLogger("interlock.links")

MOST_UNSENT = 256 * 1024 * 1024  # bytes that a peer may leave unread before it is cut off


class StreamPeer(Peer, asyncio.Protocol):
    def __init__(self, peers: "set[StreamPeer]", endpoint: Endpoint) -> None:
        """`peers` are the open links of its bus."""
        self._peers = peers
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.reader = FrameReader(endpoint.tolerant)
        self._unsent: list[Message] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peers.add(self)
        self._endpoint.opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            for messages in self.reader.feed(data):
                self._endpoint.received(self, messages)
        except Refused as error:
            logger.warning("%s", error)
            self.send([Problem(0, error.code, str(error))])
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        self._peers.discard(self)
        self._endpoint.closed(self)

    def send(self, messages: Sequence[Message]) -> None:
        if self._transport is None:
            return
        if not self._unsent:
            # All messages to one peer in one turn of the loop go out as one frame.
            self._loop.call_soon(self.flush)
        self._unsent.extend(messages)

    def flush(self) -> None:
        if self._transport is None or not self._unsent:
            return
        unsent, self._unsent = self._unsent, []
        try:
            self._transport.write(encode(unsent))
        except (Refused, UnicodeEncodeError):
            self._transport.write(encode([_or_problem(message) for message in unsent]))
        if self._transport.get_write_buffer_size() > MOST_UNSENT:
            logger.warning("a peer does not read its messages and is cut off")
            self._transport.abort()

    def close(self) -> None:
        if self._transport is not None:
            self.flush()
            self._transport.close()

    def pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()


def _or_problem(message: Message) -> Message:
    """Return the message, or a problem for the other side if it cannot be sent."""
    try:
        encode([message])
    except (Refused, UnicodeEncodeError) as error:
        logger.error("a %s cannot be sent: %s", type(message).__name__, error)
        return Problem(getattr(message, "request", 0) or -1, Refused.code, f"link: the answer cannot be sent ({error})")
    return message

"""Frames: a length and a msgpack array of messages. Used on the socket and between a worker and its executors."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Annotated

import msgspec

from interlock.error import InterlockError, Refused
from interlock.wire import (
    approval_request,
    audit_request,
    cluster_request,
    delivery_request,
    event_request,
    lane_request,
    letter_request,
    output_request,
    overview_request,
    policy_request,
    request,
    run_request,
    service_request,
    session_request,
    sign_in_request,
    worker_request,
    workflow_request,
)
from interlock.wire.message import Message, Unread, sent_kinds

DECLARED = (
    request, run_request, lane_request, delivery_request, audit_request, approval_request, output_request,
    worker_request, letter_request, service_request, cluster_request, session_request, workflow_request, event_request,
    sign_in_request, overview_request, policy_request,
)  # fmt: skip
"""modules with messages, which must be loaded before all are listed"""
MESSAGES = tuple(kind for kind in sent_kinds(Message) if kind is not Unread)
LARGEST = 32 * 1024 * 1024  # bytes of one frame; a longer one is an error of the other side
LARGE = 256 * 1024  # bytes of a frame with several messages: the other side reads others in between
MOST_PARTS = 100_000  # messages of a frame that is read one by one
MOST_UNREAD = 100  # unreadable messages of a frame, and of a link before it is closed
_HEADER = 4

_encoder = msgspec.msgpack.Encoder()
_any = reduce(or_, MESSAGES)
_decoder = msgspec.msgpack.Decoder(list[_any])  # type: ignore[valid-type] # a union made at run time
_one_decoder = msgspec.msgpack.Decoder(_any)
_parts_decoder = msgspec.msgpack.Decoder(Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MOST_PARTS)])
_UNREADABLE = (msgspec.MsgspecError, InterlockError, UnicodeDecodeError, RecursionError)


def encode(messages: Sequence[Message]) -> bytes:
    """Encode messages as one frame, or as several where one would be too large."""
    body = bytearray(_HEADER)
    _encoder.encode_into(messages, body, _HEADER)
    size = len(body) - _HEADER
    if size > LARGEST and len(messages) == 1:
        raise Refused(f"link: a message of {size:,} bytes is larger than {LARGEST:,}")
    if size > LARGE and len(messages) > 1:
        half = len(messages) // 2
        return encode(messages[:half]) + encode(messages[half:])
    body[:_HEADER] = size.to_bytes(_HEADER, "big")
    return bytes(body)


def _read_each(body: bytes) -> list[Message]:
    """Read the messages of a frame one by one, with an `Unread` for each that cannot be. Raise if they are many: each
    costs far more than its bytes."""
    found: list[Message] = []
    left = MOST_UNREAD
    for part in _parts_decoder.decode(body):
        try:
            found.append(_one_decoder.decode(part))
        except _UNREADABLE as error:
            found.append(Unread(bytes(part), str(error)))
            left -= 1
            if left < 0:
                raise
    return found


class FrameReader:
    """Cuts a stream into messages. `Refused` means that the stream is garbage and must be closed. A tolerant reader
    gives an `Unread` for a bad message in a good frame."""

    def __init__(self, tolerant: bool = False) -> None:
        self.largest = LARGEST
        self._buffer = bytearray()
        self._tolerant = tolerant

    def feed(self, data: bytes) -> Iterator[Sequence[Message]]:
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _HEADER:
                size = int.from_bytes(buffer[start : start + _HEADER], "big")
                if size > self.largest:
                    raise Refused(f"link: a frame of {size:,} bytes is larger than {self.largest:,}")
                end = start + _HEADER + size
                if len(buffer) < end:
                    break
                with memoryview(buffer) as view:
                    body = view[start + _HEADER : end]
                    try:
                        messages = self._read(body)
                    except _UNREADABLE as error:
                        raise Refused(f"link: a frame that cannot be read ({error})") from error
                    finally:
                        body.release()
                start = end
                if messages:
                    yield messages
        finally:
            del buffer[:start]

    def _read(self, body: memoryview) -> list[Message]:
        try:
            return _decoder.decode(body)
        except _UNREADABLE:
            if not self._tolerant:
                raise
            return _read_each(bytes(body))

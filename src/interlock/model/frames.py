"""Frames: a length and a msgpack array of messages. Used on the socket and between a worker and its executors."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

import msgspec

from interlock.model import (
    approval_request,
    audit_request,
    delivery_request,
    lane_request,
    output_request,
    request,
    tenant_request,
    worker_request,
)
from interlock.model.error import InterlockError, Refused
from interlock.model.message import Message, sent_kinds

DECLARED = (
    request, lane_request, tenant_request, delivery_request, audit_request, approval_request, output_request,
    worker_request,
)  # fmt: skip
"""modules with messages, which must be loaded before all are listed"""
MESSAGES = tuple(sent_kinds(Message))
LARGEST = 32 * 1024 * 1024  # bytes of one frame; a longer one is an error of the other side
LARGE = 256 * 1024  # bytes of a frame with several messages: the other side reads others in between
_HEADER = 4

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[reduce(or_, MESSAGES)])  # type: ignore[misc] # a union made at run time


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


class FrameReader:
    """Cuts a stream into messages. `Refused` means that the stream is garbage and must be closed."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Sequence[Message]]:
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= _HEADER:
                size = int.from_bytes(buffer[start : start + _HEADER], "big")
                if size > LARGEST:
                    raise Refused(f"link: a frame of {size:,} bytes is larger than {LARGEST:,}")
                end = start + _HEADER + size
                if len(buffer) < end:
                    break
                with memoryview(buffer) as view:
                    body = view[start + _HEADER : end]
                    try:
                        messages = _decoder.decode(body)
                    except (msgspec.MsgspecError, InterlockError, UnicodeDecodeError, RecursionError) as error:
                        raise Refused(f"link: a frame that cannot be read ({error})") from error
                    finally:
                        body.release()
                start = end
                if messages:
                    yield messages
        finally:
            del buffer[:start]

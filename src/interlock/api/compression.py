"""Compression of answers for clients that accept it."""

import re
from collections.abc import Mapping
from gzip import compress

LEAST = 4096  # bytes; less is sent as it is
LEVEL = 1  # of answers, which are made anew each time
ENCODED = (b"content-encoding", b"gzip")
VARIES = (b"vary", b"accept-encoding")
_ACCEPTS = re.compile(
    rb"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?:1(?:\.0*)?|0?\.0*[1-9][0-9]*)\s*)?(?:,|$)", re.IGNORECASE
)


def accepts_gzip(headers: Mapping[bytes, bytes]) -> bool:
    given = headers.get(b"accept-encoding")
    return given is not None and _ACCEPTS.search(given) is not None


def zipped(data: bytes, level: int = LEVEL) -> bytes:
    return compress(data, level, mtime=0)

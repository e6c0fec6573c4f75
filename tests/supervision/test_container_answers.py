"""Names of images and logs of containers, as engines send them."""

import asyncio

import pytest

from interlock.supervision.engines import LogPlace, read_piece, split_image
from tests.helpers.containers import frame
from tests.helpers.places import run_async

pytestmark = pytest.mark.behaviour("SUP-10")

START = 1_767_225_600
"""the beginning of the year 2026"""


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("busybox:1.36", "busybox", "1.36"),
        ("host:5000/team/app", "host:5000/team/app", "latest"),
        ("host:5000/team/app:2", "host:5000/team/app", "2"),
        ("app@sha256:abc", "app@sha256:abc", None),
        ("app:2@sha256:abc", "app:2@sha256:abc", None),
    ],
)
def test_the_parts_of_an_image(image: str, name: str, tag: str | None) -> None:
    assert split_image(image) == (name, tag)


def pieces_of(data: bytes) -> list[tuple[int, bytes]]:
    async def body() -> list[tuple[int, bytes]]:
        log = asyncio.StreamReader()
        log.feed_data(data)
        log.feed_eof()
        found = []
        while (piece := await read_piece(log)) is not None:
            found.append(piece)
        return found

    return run_async(body())


def test_a_log_is_taken_apart_up_to_where_it_broke_off() -> None:
    whole = [(1, b"one"), (2, b""), (1, b"x" * 300)]
    data = b"".join(frame(*piece) for piece in whole)
    assert pieces_of(data) == whole
    for cut_off in (1, 299, 300, 307):
        assert pieces_of(data[:-cut_off]) == whole[:2]
    assert pieces_of(data[:-308]) == whole[:2]
    assert pieces_of(data[:-309]) == whole[:1]


@pytest.mark.parametrize(
    "data", [b"plain text", b"\x01\x00\x00\x01\x00\x00\x00\x01a", b"\x01\x00\x00\x00\xff\xff\xff\xff"]
)
def test_what_is_no_log(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        pieces_of(data)


def test_a_log_is_read_on_where_it_was_left() -> None:
    """Several lines in one second, in an order that is not that of their times; asked for from whole seconds on."""
    log = [(5, b"a"), (7, b"b"), (6, b"c"), (7, b"d"), (7, b"e"), (8, b"f"), (7, b"g"), (9, b"h")]
    for broken_at in range(len(log) + 1):
        place = LogPlace()
        read: list[bytes] = []
        for part in (log[:broken_at], log):
            place.rewind()
            for second, content in [one for one in part if START + one[0] >= place.since]:
                found = place.content_of(f"2026-01-01T00:00:{second:02}.5Z ".encode() + content)
                read += [] if found is None else [found]
        assert read == [content for _, content in log], broken_at

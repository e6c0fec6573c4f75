"""Events are read as the server frames them, wherever the bytes are split."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.client.http.sse import EventParser, ServerSentEvent


def parse(*pieces: bytes) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def plain(data: str, name: str = "message", number: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(name, data, number)


def test_an_id_alone_tells_how_far_the_stream_is() -> None:
    parser = EventParser()
    assert parser.feed(b"id: 7\ndata: x\n\n") == [plain("x", number="7")]
    assert parser.feed(b"id: 9\n: still there\n\n: and still\n\n") == [plain("", number="9")]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: one\n\n", [plain("one")]),
        (b"data:one\n\n", [plain("one")]),
        (b"data:  one\n\n", [plain(" one")]),
        (b"data: one\r\n\r\ndata: two\r\n\r\n", [plain("one"), plain("two")]),
        (b"data: one\ndata: two\n\n", [plain("one\ntwo")]),
        (b"data: one\r\ndata: two\r\n\r\n", [plain("one\ntwo")]),
        (b"data\n\n", [plain("")]),
        (b"data\ndata\n\n", [plain("\n")]),
        (b"data: a:b: c\n\n", [plain("a:b: c")]),
        (b"event: run\nid: 7\ndata: {}\n\n", [plain("{}", "run", "7")]),
        (b"id: 7\ndata: one\n\ndata: two\n\n", [plain("one", number="7"), plain("two")]),
        (b"id\ndata: one\n\n", [plain("one", number="")]),
        (b": a comment\ndata: one\n:\n\n", [plain("one")]),
        (b": still there\n\n", []),
        (b"event: run\n\ndata: one\n\n", [plain("one")]),
        (b"retry: 10\nunknown: 5\ndata: one\n\n", [plain("one")]),
        (b" data: one\n\n", []),
        (b"data: \xff\xe2\x98\x83\n\n", [plain("\ufffd☃")]),
        (b"data: not ended", []),
        (b"data: not ended\n", []),
        (b"\n\n\n\ndata: one\n\n\n\n", [plain("one")]),
    ],
)
def test_the_form_of_a_stream(data: bytes, events: list[ServerSentEvent]) -> None:
    assert parse(data) == events
    assert parse(*(bytes([one]) for one in data)) == events


LINE = st.one_of(
    st.sampled_from(
        ["data: one", "data", "data:☃", "id: 5", "id", "event: run", ": comment", "", "", "odd", "data: a:b"]
    ),
    st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=8),
)
END = st.sampled_from(["\n", "\r\n"])


@given(
    st.lists(st.tuples(LINE, END), max_size=30),
    st.lists(st.integers(0, 400), max_size=40),
)
@example([("data: one", "\r\n"), ("", "\r\n")], [1, 2, 12, 13, 14, 15])
def test_where_it_is_split_makes_no_difference(lines: list[tuple[str, str]], places: list[int]) -> None:
    data = "".join(line + end for line, end in lines).encode()
    cuts = sorted(min(place, len(data)) for place in places)
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert b"".join(pieces) == data
    assert parse(*pieces) == parse(data)


@given(st.lists(st.tuples(LINE, END), max_size=30))
def test_the_kind_of_line_end_makes_no_difference(lines: list[tuple[str, str]]) -> None:
    mixed = "".join(line + end for line, end in lines)
    assert parse(mixed.encode()) == parse(mixed.replace("\r\n", "\n").encode())

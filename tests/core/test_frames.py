"""Frames: whatever is sent comes out the same, however it is cut; whatever else arrives is refused and no more."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.error import Refused
from interlock.model.state import State
from interlock.wire import frames
from interlock.wire import message as m
from interlock.wire.frames import FrameReader
from interlock.wire.request import Accepted, NewRun, RunReport, Submit, ValueAnswer

WHOLE = st.integers(0, 2**53 - 1)
SMALL = st.integers(0, 2**31 - 1)
TEXT = st.text(max_size=20)
BYTES = st.binary()
JOBS = st.dictionaries(TEXT, TEXT)
MESSAGES: st.SearchStrategy[m.Message] = st.one_of(
    st.builds(m.Hello, TEXT, SMALL, SMALL, SMALL, SMALL, JOBS, st.lists(st.builds(m.Held, TEXT, WHOLE)), TEXT),
    st.builds(m.Finished, TEXT, WHOLE, TEXT, BYTES | st.none(), TEXT | st.none(), st.integers(-99, 99) | st.none()),
    st.builds(m.Heartbeat, st.lists(st.builds(m.Held, TEXT, WHOLE), max_size=5)),
    st.builds(m.LogMessage, TEXT, WHOLE, SMALL, st.floats(0, 1e10), TEXT, TEXT),
    st.builds(m.Checkpoint, TEXT, WHOLE, st.binary()),
    st.builds(m.Leaving),
    st.builds(
        m.Dispatch, TEXT, WHOLE, TEXT, WHOLE, st.none() | st.binary(), st.none() | st.floats(0, 1e10), st.booleans(),
        st.floats(0, 100), st.none() | st.binary(),
    ),
    st.builds(Submit, WHOLE, st.lists(st.builds(NewRun, TEXT, st.binary(), TEXT, st.none() | TEXT), max_size=3)),
    st.builds(Accepted, WHOLE, st.lists(TEXT)),
    st.builds(
        RunReport, WHOLE, TEXT, st.sampled_from(State), TEXT, st.none() | st.binary(), st.none() | TEXT,
        st.dictionaries(TEXT, st.none() | st.integers(-9, 9) | TEXT, max_size=3),
    ),
    st.builds(ValueAnswer, WHOLE, st.none() | TEXT | st.lists(st.tuples(WHOLE, TEXT).map(list), max_size=3)),
    st.builds(m.Problem, WHOLE, TEXT, TEXT),
)  # fmt: skip


def read(reader: FrameReader, data: bytes) -> list[m.Message]:
    return [message for messages in reader.feed(data) for message in messages]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(st.lists(st.lists(MESSAGES, max_size=4), max_size=4), st.lists(st.integers(0, 400), max_size=6))
def test_messages_come_out_as_they_went_in_however_the_stream_is_cut(
    batches: list[list[m.Message]], cuts: list[int]
) -> None:
    stream = b"".join(frames.encode(batch) for batch in batches)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    reader = FrameReader()
    out = []
    for start, end in itertools.pairwise(places):
        out += read(reader, stream[start:end])
    assert out == [message for batch in batches for message in batch]


def test_one_byte_at_a_time() -> None:
    sent: Sequence[m.Message] = [m.Leaving(), m.Problem(1, "a", "b")]
    reader = FrameReader()
    data = frames.encode(sent)
    assert [message for byte in data for message in read(reader, bytes([byte]))] == sent


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_nothing(data: bytes) -> None:
    for stream in (data, framed(data), framed(b"\x91" + data)):
        try:
            out = read(FrameReader(), stream)
        except Refused:
            continue
        assert all(isinstance(message, m.Message) for message in out)


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_a_damaged_frame_is_refused_or_reads_as_messages(batch: list[m.Message], data: st.DataObject) -> None:
    damaged = bytearray(frames.encode(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(4, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        out = read(FrameReader(), bytes(damaged))
    except Refused:
        return
    assert all(isinstance(message, m.Message) for message in out)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\x91\x92\xa9Heartbeat\xdd\xff\xff\xff\xff",
        msgspec.msgpack.encode([["Unheard", 1]]),
        msgspec.msgpack.encode([["Started", "run"]]),
        msgspec.msgpack.encode([["Started", 1, 1]]),
        msgspec.msgpack.encode([["Started", "run", "fence"]]),
        msgspec.msgpack.encode([["RunReport", 1, "r", "no such state", "", None, None, {}]]),
        msgspec.msgpack.encode([["Accepted", 1, ["a"]]])[:-1],
        msgspec.msgpack.encode({"Started": 1}),
        b"\x91\x93\xa7Started\xa2\xff\xfe\x01",
    ],
)
def test_what_is_no_batch_of_messages_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="link: a frame that cannot be read"):
        read(FrameReader(), framed(body))


def test_a_value_that_breaks_its_own_rule_is_refused_with_its_frame() -> None:
    body = msgspec.msgpack.encode([["PutJobs", 1, [{"id": "job", "schedule": {}}]]])
    with pytest.raises(Refused):
        list(FrameReader().feed(len(body).to_bytes(4, "big") + body))


def test_a_length_beyond_the_limit_is_refused_before_its_body_arrives() -> None:
    reader = FrameReader()
    assert read(reader, (frames.LARGEST).to_bytes(4, "big")) == []
    with pytest.raises(Refused, match="larger than"):
        read(FrameReader(), (frames.LARGEST + 1).to_bytes(4, "big"))
    with pytest.raises(Refused, match="larger than"):
        read(FrameReader(), b"GET / HTTP/1.1\r\n\r\n")


def test_good_frames_before_a_bad_one_are_still_read() -> None:
    reader = FrameReader()
    stream = reader.feed(frames.encode([m.Leaving()]) + framed(b"\xc1"))
    assert list(next(stream)) == [m.Leaving()]
    with pytest.raises(Refused):
        next(stream)


@pytest.mark.behaviour("REC-5")
def test_a_tolerant_reader_passes_over_a_bad_message_in_a_good_frame() -> None:
    bad = ["Finished", "run", 1, 7]
    out = read(FrameReader(tolerant=True), framed(msgspec.msgpack.encode([["Leaving"], bad, ["Leaving"]])))
    assert [type(one) for one in out] == [m.Leaving, m.Unread, m.Leaving]
    assert isinstance(out[1], m.Unread)
    assert out[1].raw == msgspec.msgpack.encode(bad)
    assert "Expected `str`, got `int`" in out[1].error
    forged = read(FrameReader(tolerant=True), framed(msgspec.msgpack.encode([["Unread", b"x", "y"]])))
    assert [type(one) for one in forged] == [m.Unread], "nobody sends one"
    assert "Invalid value 'Unread'" in getattr(forged[0], "error", "")
    with pytest.raises(Refused, match="link: a frame that cannot be read"):
        read(FrameReader(tolerant=True), framed(b"\xc1"))


@pytest.mark.behaviour("REC-5", "SEC-6")
@pytest.mark.parametrize(("count", "why"), [(101, "got `int`"), (100_001, "length <= 100000")])
def test_a_tolerant_reader_refuses_a_frame_of_many_bad_messages(count: int, why: str) -> None:
    with pytest.raises(Refused, match=why):
        read(FrameReader(tolerant=True), framed(msgspec.msgpack.encode([7] * count)))


def test_more_than_one_frame_holds_goes_out_as_several() -> None:
    large = [m.Finished("run", number, "succeeded", bytes(9 * 1024 * 1024)) for number in range(5)]
    data = frames.encode(large)
    reader = FrameReader()
    batches = list(reader.feed(data))
    assert len(batches) > 1
    assert [message for batch in batches for message in batch] == large
    with pytest.raises(Refused, match="larger than"):
        frames.encode([m.Checkpoint("run", 1, bytes(frames.LARGEST + 1))])


@pytest.mark.parametrize(
    "message",
    [
        m.LogMessage("r", 1, 1, float("nan"), "info", "text"),
        m.LogMessage("r", 1, 2**40, 1.0, "info", "text"),
        m.Finished("r", 1, "failed", None, None, 2**70 // 2**7),
        m.Progress("r", 1, 101.0, ""),
        m.Progress("r", 1, float("nan"), ""),
        m.Usage("r", 1, -1, 100),
        m.Usage("r", 1, 1, 2**53),
    ],
)
def test_numbers_that_no_store_could_keep_are_refused_at_the_door(message: m.Message) -> None:
    with pytest.raises(Refused):
        list(FrameReader().feed(frames.encode([message])))


def test_every_module_of_requests_is_known_to_the_frames() -> None:
    """Otherwise whether a request can be read depends on what else was imported."""
    modules = {path.stem for path in Path(frames.__file__).parent.glob("*_request.py")}
    assert modules <= {module.__name__.rpartition(".")[2] for module in frames.DECLARED}

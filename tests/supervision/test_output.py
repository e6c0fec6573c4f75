"""What a process prints becomes lines, however it comes, and never more of them than the supervisor can take."""

import os
import re
import signal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.supervision import output
from interlock.supervision.output import (
    BYTES_A_SECOND,
    CUT,
    LINES_A_SECOND,
    LONGEST_LINE,
    Allowance,
    LineReader,
    Output,
    readable,
)
from tests.helpers.places import until
from tests.helpers.processes import descriptors, look
from tests.supervision.conftest import each_loop
from tests.supervision.programs import guarded, spawn

LEFT_OUT = re.compile(r"… ([\d,]+) lines? left out")


def lines_of(*chunks: bytes) -> list[str]:
    lines = LineReader(Allowance())
    found = [line for chunk in chunks for line in lines.feed(chunk, 0.0)]
    return found + lines.end(0.0)


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"no end", ["no end"]),
        (b"\n\n", ["", ""]),
        (b"windows\r\n", ["windows"]),
        (b"10 %\r50 %\r100 %\n", ["100 %"]),
        (b"tab\tstays\n", ["tab\tstays"]),
        (b"bell\x07 null\x00 delete\x7f\n", ["bell null delete"]),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ["red plain link"]),
        (b"\x1b(B\x1b[?25l\xc2\x9b1mx\x1b\n", ["x"]),
        ("grüße ✓ 𝄞\n".encode(), ["grüße ✓ 𝄞"]),
        (b"broken \xff\xc3 and \xe2\x82\n", ["broken �� and �"]),
    ],
)
def test_lines_are_cleaned(data: bytes, expected: list[str]) -> None:
    assert lines_of(data) == expected


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_it_does_not_matter_in_which_pieces_output_comes(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(data)]
    assert lines_of(*(data[a:b] for a, b in pairwise(places))) == lines_of(data)


@given(st.binary(max_size=300))
def test_lines_are_texts_without_control_characters(data: bytes) -> None:
    found = lines_of(data)
    assert len(found) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    for line in found:
        assert line.encode().decode() == line
        assert not any(ord(one) < 32 and one != "\t" for one in line)
        assert not any(127 <= ord(one) < 160 for one in line)


@given(st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=100))
def test_plain_text_is_left_as_it_is(text: str) -> None:
    assert readable(text.encode()) == text


@pytest.mark.parametrize("size", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 10 * LONGEST_LINE])
@pytest.mark.parametrize("step", [1_000, 65_536])
def test_a_long_line_is_cut_and_says_so(size: int, step: int) -> None:
    data = b"x" * size + b"\nnext\n"
    found = lines_of(*(data[at : at + step] for at in range(0, len(data), step)))
    expected = "x" * size if size <= LONGEST_LINE else "x" * LONGEST_LINE + CUT
    assert found == [expected, "next"]


def test_a_long_line_is_delivered_before_it_ends() -> None:
    lines = LineReader(Allowance())
    assert lines.feed(b"x" * (LONGEST_LINE + 1), 0.0) == ["x" * LONGEST_LINE + CUT]
    assert lines.feed(b"y" * LONGEST_LINE, 0.0) == []
    assert lines.feed(b"z\nnext\n", 0.0) == ["next"]
    assert lines.end(0.0) == []


@pytest.mark.parametrize("character", ["é", "✓", "𝄞"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_line_is_not_cut_within_a_character(character: str, shift: int) -> None:
    (line,) = lines_of(b"x" * shift + character.encode() * LONGEST_LINE)
    text = line.removesuffix(CUT)
    assert text.strip("x").strip(character) == ""
    assert LONGEST_LINE - 4 < len(text.encode()) <= LONGEST_LINE


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_so_many_lines_a_second_and_no_more() -> None:
    lines = LineReader(Allowance())
    assert len(lines.feed(b"a\n" * LINES_A_SECOND, 0.0)) == LINES_A_SECOND
    assert not lines.left_out
    assert lines.feed(b"b\n" * 1_233, 0.5) == []
    assert lines.feed(b"b\n", 0.999) == []
    assert lines.left_out
    assert lines.due(0.999) == []
    assert lines.due(1.0) == ["… 1,234 lines left out"]
    assert lines.feed(b"c\n", 1.0) == ["c"]
    assert not lines.left_out


def test_so_many_bytes_a_second_and_no_more() -> None:
    lines = LineReader(Allowance())
    long = b"x" * (LONGEST_LINE - 1) + b"\n"
    found = lines.feed(long * (BYTES_A_SECOND // LONGEST_LINE) + b"over\n", 0.0)
    assert len(found) == BYTES_A_SECOND // LONGEST_LINE
    # Though this one would fit again: there is one gap.
    assert lines.feed(b"\n", 0.5) == []
    assert lines.feed(b"c\n", 1.0) == ["… 2 lines left out", "c"]


def test_what_was_left_out_is_said_at_the_end_too() -> None:
    lines = LineReader(Allowance())
    lines.feed(b"a\n" * (LINES_A_SECOND + 1) + b"unfinished", 0.0)
    assert lines.end(0.5) == ["… 2 lines left out"]


def test_both_streams_of_a_child_share_what_it_is_allowed() -> None:
    allowance = Allowance()
    one, other = LineReader(allowance), LineReader(allowance)
    assert len(one.feed(b"a\n" * 600, 0.0)) == 600
    assert len(other.feed(b"b\n" * 600, 0.0)) == 400
    assert one.feed(b"a\n", 0.1) == []
    assert (one.due(1.0), other.due(1.0)) == (["… 1 line left out"], ["… 200 lines left out"])


def test_every_line_is_shown_to_who_waits_for_one() -> None:
    lines, seen = LineReader(Allowance()), list[str]()
    found = lines.feed(b"".join(b"%d\n" % n for n in range(5_000)), 0.0, seen.append)
    assert seen == [str(n) for n in range(5_000)]
    assert found == seen[:LINES_A_SECOND]


feeds = st.lists(
    st.tuples(
        st.floats(0, 1.5),
        st.lists(st.sampled_from([b"\n", b"short\n", b"unfinished ", b"x" * 20_000, b"many\n" * 700]), max_size=4),
        st.booleans(),
    ),
    max_size=12,
)


@given(feeds)
def test_no_line_is_lost_without_being_counted(feeds: list[tuple[float, list[bytes], bool]]) -> None:
    lines, now, found = LineReader(Allowance()), 0.0, list[str]()
    per_second: dict[int, list[str]] = {}
    allowance, everything = lines._allowance, b""
    for pause, parts, shown in feeds:
        now += pause
        data = b"".join(parts)
        everything += data
        some = lines.feed(data, now, (lambda _: None) if shown else None)
        per_second.setdefault(allowance.period, []).extend(line for line in some if not LEFT_OUT.fullmatch(line))
        found += some
    found += lines.end(now)
    counted = sum(int(match[1].replace(",", "")) for line in found if (match := LEFT_OUT.fullmatch(line)))
    delivered = sum(not LEFT_OUT.fullmatch(line) for line in found)
    assert delivered + counted == everything.count(b"\n") + (not everything.endswith(b"\n") and everything != b"")
    for some in per_second.values():
        assert len(some) <= LINES_A_SECOND
        assert sum(len(line.removesuffix(CUT)) + 1 for line in some) <= BYTES_A_SECOND


# ── with pipes ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Listener:
    """Pipes, and what came through them."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.shown: list[str] | None = None
        self.pipes = Output(
            lambda stream, line: self.lines.append((stream, line)),
            lambda: self.shown.append if self.shown is not None else None,
        )

    def open(self) -> dict[int, int]:
        return {1: self.pipes.open("stdout"), 2: self.pipes.open("stderr")}

    @property
    def left_out(self) -> int:
        found = [LEFT_OUT.fullmatch(line) for _, line in self.lines]
        return sum(int(match[1].replace(",", "")) for match in found if match)


@each_loop
async def test_streams_are_kept_apart_and_read_to_their_end() -> None:
    before = descriptors()
    listener = Listener()
    ends = listener.open()
    os.write(ends[1], b"one\nunfinished")
    os.write(ends[2], b"two\n")
    await until(lambda: len(listener.lines) == 2, "the lines are there")
    assert sorted(listener.lines) == [("stderr", "two"), ("stdout", "one")]
    os.close(ends[1])
    await until(lambda: len(listener.lines) == 3, "the end is there")
    os.write(ends[2], b"last\nwords")
    # Somebody has the other end open still.
    listener.pipes.close()
    assert listener.lines[2:] == [("stdout", "unfinished"), ("stderr", "last"), ("stderr", "words")]
    os.close(ends[2])
    assert descriptors() <= before


@each_loop
async def test_a_hundred_megabytes_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # As many seconds, but shorter.
    monkeypatch.setattr(output, "PERIOD", 0.03)
    async with guarded() as guard:
        listener = Listener()
        ends = listener.open()
        process = await spawn(guard, "sh", "-c", "yes | head -c 100000000; echo end >&2", descriptors=ends)
        for end in ends.values():
            os.close(end)
        assert (await process.exit).code == 0
        listener.pipes.close()
    delivered = listener.lines.count(("stdout", "y"))
    assert delivered + listener.left_out + listener.lines.count(("stderr", "end")) == 50_000_001
    assert LINES_A_SECOND <= delivered < 500_000


@each_loop
async def test_that_lines_were_left_out_is_said_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PERIOD", 0.05)
    listener = Listener()
    ends = listener.open()
    os.write(ends[1], b"y\n" * (LINES_A_SECOND + 5))
    await until(lambda: listener.left_out == 5, "it is said")
    listener.pipes.close()
    for end in ends.values():
        os.close(end)


@pytest.mark.parametrize("shown", [False, True], ids=["delivered", "shown"])
@each_loop
async def test_who_prints_too_fast_has_to_wait(monkeypatch: pytest.MonkeyPatch, shown: bool) -> None:
    monkeypatch.setattr(output, "PERIOD", 1_000.0)
    monkeypatch.setattr(output, "READ_A_SECOND", 200_000 * (2 + output.LOOK_COST if shown else 1))
    async with guarded() as guard:
        listener = Listener()
        listener.shown = [] if shown else None
        ends = listener.open()
        process = await spawn(guard, "yes", descriptors=ends)
        for end in ends.values():
            os.close(end)
        await until(lambda: listener.pipes.is_waiting and _waits(process.pid), "it waits")
        assert len(listener.lines) == LINES_A_SECOND
        guard.signal(process, signal.SIGKILL)
        await process.exit
        listener.pipes.close()
    total = len(listener.shown) * 2 if listener.shown is not None else 2 * (LINES_A_SECOND + listener.left_out)
    most = 400_000 if shown else 200_000
    # What was in the pipe when it ended, and the chunk that was one too many.
    assert most <= total <= most + 2 * 65_536 + 8_192


def _waits(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.state == "S"


@each_loop
async def test_who_had_to_wait_goes_on_in_the_next_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PERIOD", 0.02)
    monkeypatch.setattr(output, "READ_A_SECOND", 100_000)
    async with guarded() as guard:
        listener = Listener()
        ends = listener.open()
        process = await spawn(guard, "sh", "-c", "yes | head -c 1000000", descriptors=ends)
        for end in ends.values():
            os.close(end)
        assert (await process.exit).code == 0
        listener.pipes.close()
    assert listener.lines.count(("stdout", "y")) + listener.left_out == 500_000

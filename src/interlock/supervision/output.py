"""The output of a child as lines: cut, cleaned and counted, so that no child can flood the supervisor."""

import asyncio
import logging
import os
import re
from collections.abc import Callable

logger = logging.getLogger("interlock.supervision")

LONGEST_LINE = 16_384  # bytes kept of a line; a longer one is marked as cut
LINES_A_SECOND = 1_000  # lines of one child that are delivered; further ones are counted
BYTES_A_SECOND = 2**20  # bytes of the delivered lines of one child
READ_A_SECOND = 16 * 2**20  # bytes that are read of one child at all; then its writes block
LOOK_COST = 320  # bytes that a line counts as, besides its own, while a probe looks at every line
PERIOD = 1.0  # the second above
CHUNK = 65_536  # bytes read at once; then others have their turn
LOOKED_AT_CHUNK = 8_192  # the same, while a probe looks at every line
LAST_BYTES = 2**22
"""bytes read after the end of the process; the pipe holds no more, unless another process still writes to it"""

STREAMS = {1: "stdout", 2: "stderr"}
CUT = "… (cut)"
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, and moving about
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"
)


def readable(line: bytes) -> str:
    """Return a line as text: invalid UTF-8 is replaced, terminal control sequences are removed, and of a line that was
    written over only the last version remains."""
    return readable_text(line.decode("utf-8", "replace"))


def readable_text(text: str) -> str:
    if text.isprintable():
        return text
    return _ESCAPES.sub("", text.rstrip("\r").rpartition("\r")[2])


class Allowance:
    """The remaining allowance of one child's output in the present second, which begins at the first output after the
    last one."""

    def __init__(self) -> None:
        self.ends_at = 0.0
        self.period = 0
        self.is_open = True
        """whether lines are delivered; the first one too many closes it, so that there is one gap and not many"""
        self._lines = self._bytes = self._read = 0

    def at(self, now: float) -> None:
        if now >= self.ends_at:
            self.ends_at = now + PERIOD
            self.period += 1
            self.is_open = True
            self._lines = self._bytes = self._read = 0

    def take(self, size: int) -> bool:
        """Count a line of this size; return whether it is delivered."""
        self._lines += 1
        self._bytes += size
        self.is_open = self.is_open and self._lines <= LINES_A_SECOND and self._bytes <= BYTES_A_SECOND
        return self.is_open

    def read(self, size: int) -> None:
        self._read += size

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be read."""
        return self._read >= READ_A_SECOND


class LineReader:
    """One stream of a child: bytes in, lines out. `look` gets every line, also those that are not delivered."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._held = bytearray()  # the present line, not complete yet
        self._skips = False  # whether the present line was too long and has been delivered
        self.left_out = 0  # lines that are not delivered, and not reported yet
        self._left_out_in = 0  # the last period that had such lines

    def feed(self, data: bytes, now: float, look: Callable[[str], None] | None = None) -> list[str]:
        lines = self.due(now)
        self._allowance.read(len(data))
        start = 0
        while start < len(data):
            if look is None and not self._allowance.is_open and (last := data.rfind(b"\n", start)) >= 0:
                # In a flood, lines are only counted.
                self._leave_out(data.count(b"\n", start) - self._skips)
                self._skips = False
                self._held.clear()
                start = last + 1
                continue
            end = data.find(b"\n", start)
            stop = len(data) if end < 0 else end
            if not self._skips:
                self._held += data[start : min(stop, start + LONGEST_LINE + 1)]
                if end >= 0 or len(self._held) > LONGEST_LINE:
                    self._finish(lines, look)
                    self._skips = end < 0
            elif end >= 0:
                self._skips = False
            start = stop + 1
        return lines

    def end(self, now: float, look: Callable[[str], None] | None = None) -> list[str]:
        """Return the rest, at the end of the stream."""
        lines = self.due(now)
        if self._held:
            self._finish(lines, look)
        return lines + self._owed()

    def due(self, now: float) -> list[str]:
        """Return what is due because another second has begun."""
        self._allowance.at(now)
        return self._owed() if self._left_out_in != self._allowance.period else []

    def _owed(self) -> list[str]:
        count, self.left_out = self.left_out, 0
        return [f"… {count:,} line{'s' if count > 1 else ''} left out"] if count else []

    def _leave_out(self, count: int) -> None:
        self.left_out += count
        self._left_out_in = self._allowance.period

    def _finish(self, lines: list[str], look: Callable[[str], None] | None) -> None:
        line = bytes(self._held[:LONGEST_LINE])
        is_cut = len(self._held) > LONGEST_LINE
        self._held.clear()
        is_taken = self._allowance.take(len(line) + 1)
        if not is_taken:
            self._leave_out(1)
            if look is None:
                return
        text = readable(_whole(line)) + CUT if is_cut else readable(line)
        if look is not None:
            self._allowance.read(LOOK_COST)
            look(text)
        if is_taken:
            lines.append(text)


def _whole(line: bytes) -> bytes:
    """Return a line that was cut without an incomplete character at its end."""
    for back in range(1, 4):
        if line[-back] >= 0xC0:
            size = 2 + (line[-back] >= 0xE0) + (line[-back] >= 0xF0)
            return line[:-back] if size > back else line
        if line[-back] < 0x80:
            break
    return line


class Output:
    """All output of one child, on the event loop: chunks in, from its own pipes or from elsewhere; lines delivered."""

    def __init__(self, deliver: Callable[[str, str], None], look: Callable[[], Callable[[str], None] | None]) -> None:
        """`deliver` gets the stream's name and the line; `look` returns the probe that looks at every line, if any."""
        self.is_waiting = False  # whether reading waits for the next second
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._look = look
        self._allowance = Allowance()
        self._lines: dict[str, LineReader] = {}
        self._pipes: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def open(self, stream: str) -> int:
        """Open a pipe for a stream; return the end to write to, which the caller closes."""
        pipe, there = os.pipe()
        os.set_blocking(pipe, False)
        self._pipes[stream] = pipe
        self._loop.add_reader(pipe, self._read, stream)
        return there

    def feed(self, stream: str, data: bytes) -> None:
        lines = self._lines.get(stream) or self._lines.setdefault(stream, LineReader(self._allowance))
        self._give(stream, lines.feed(data, self._loop.time(), self._look()))
        if lines.left_out:
            self._wake_up()

    async def take(self, stream: str, piece: bytes) -> None:
        """Feed a piece that did not come through a pipe, and wait if too much has come."""
        # Each piece costs something, however short it is.
        self._allowance.read(LOOK_COST)
        self.feed(stream, piece)
        if self._allowance.is_used_up:
            await asyncio.sleep(self._allowance.ends_at - self._loop.time())

    def end(self, stream: str) -> None:
        """End one stream."""
        if (pipe := self._pipes.pop(stream, None)) is not None:
            self._loop.remove_reader(pipe)
            os.close(pipe)
        if (lines := self._lines.pop(stream, None)) is not None:
            self._give(stream, lines.end(self._loop.time(), self._look()))

    def close(self) -> None:
        """Take the rest from the pipes, and end all streams, even if other processes still have their pipes open."""
        for stream in list(self._pipes):
            left = LAST_BYTES
            while left > 0 and stream in self._pipes and (size := self._read_some(stream)) > 0:
                left -= size
            self.end(stream)
        for stream in list(self._lines):
            self.end(stream)
        if self._timer is not None:
            self._timer.cancel()

    def _read(self, stream: str) -> None:
        self._read_some(stream)
        if self._allowance.is_used_up and not self.is_waiting:
            self.is_waiting = True
            for pipe in self._pipes.values():
                self._loop.remove_reader(pipe)
            self._wake_up()

    def _read_some(self, stream: str) -> int:
        """Read and deliver some output; return the number of bytes."""
        try:
            data = os.read(self._pipes[stream], self._chunk())
        except (BlockingIOError, InterruptedError):
            return 0
        if data:
            self.feed(stream, data)
        else:
            self.end(stream)
        return len(data)

    def _chunk(self) -> int:
        return CHUNK if self._look() is None else LOOKED_AT_CHUNK

    def _give(self, stream: str, lines: list[str]) -> None:
        for line in lines:
            try:
                self._deliver(stream, line)
            except Exception:
                logger.exception("a line could not be delivered")

    def _wake_up(self) -> None:
        """Go on when this second is over."""
        if self._timer is None:
            self._timer = self._loop.call_at(self._allowance.ends_at, self._second_is_over)

    def _second_is_over(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._allowance.at(now)
        for stream, lines in self._lines.items():
            self._give(stream, lines.due(now))
        if self.is_waiting and not self._allowance.is_used_up:
            self.is_waiting = False
            for stream, pipe in self._pipes.items():
                self._loop.add_reader(pipe, self._read, stream)
        # A timer may be slightly early, and another second may have begun.
        if self.is_waiting or any(lines.left_out for lines in self._lines.values()):
            self._wake_up()

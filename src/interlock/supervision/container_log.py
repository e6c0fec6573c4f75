"""The log of a container as an engine sends it: taken apart, read on where it was broken off, and made lines of."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from interlock.supervision.output import Allowance, Lines

STREAMS = {1: "stdout", 2: "stderr"}
MOST_BYTES = 32 * 2**20
"""of one piece"""


class Frames:
    """Takes apart what a log is sent as: eight bytes that name stream and length, and then so many bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> list[tuple[int, bytes]]:
        """Raises `ValueError` if that is not what it is."""
        self._bytes += chunk
        found: list[tuple[int, bytes]] = []
        place = 0
        while len(self._bytes) >= place + 8:
            stream, size = self._bytes[place], int.from_bytes(self._bytes[place + 4 : place + 8])
            if stream > 3 or any(self._bytes[place + 1 : place + 4]) or size > MOST_BYTES:
                raise ValueError("a log that cannot be read")
            if len(self._bytes) < place + 8 + size:
                break
            found.append((stream, bytes(self._bytes[place + 8 : place + 8 + size])))
            place += 8 + size
        del self._bytes[:place]
        return found


class LogPlace:
    """How far a log was read, so that reading goes on there when it was broken off. A log can only be asked for from a
    whole second on, and its two streams are not quite in the order of their times: so it is asked for from the second
    before the latest on, and what was seen since then is counted."""

    def __init__(self) -> None:
        self.since = 0
        """the second from which on it is to be asked for"""
        self._latest = 0
        self._seen: dict[int, int] = {}
        """how much of each second since then"""
        self._again = 0
        self._last = (b"", 0)

    @property
    def reached(self) -> tuple[int, int]:
        """Another one whenever more was read."""
        return self._latest, sum(self._seen.values())

    def rewind(self) -> None:
        """From now on comes what there is since then, from the beginning."""
        self._again = sum(self._seen.values())

    def content_of(self, data: bytes) -> bytes | None:
        """What was printed, without the time that stands before it; None if it was seen before."""
        time, _, content = data.partition(b" ")
        second = self._second_of(time)
        if self._again and second >= self.since:
            self._again -= 1
            return None
        if second > self._latest:
            self._latest, self.since = second, second - 1
            self._seen = {one: count for one, count in self._seen.items() if one >= self.since}
        if second >= self.since:
            self._seen[second] = self._seen.get(second, 0) + 1
        return content

    def _second_of(self, time: bytes) -> int:
        # Of many lines in a row it is the same, and to read it takes longer than all the rest.
        start = time[:19]
        if start != self._last[0]:
            self._last = (start, int(datetime.fromisoformat(time.decode("ascii")).timestamp()))
        return self._last[1]


class LogLines:
    """What a container prints, as lines, within the limits that hold for a process."""

    def __init__(self, deliver: Callable[[str, str], None], look: Callable[[], Callable[[str], None] | None]) -> None:
        """As for `Output`."""
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._look = look
        self._allowance = Allowance()
        self._lines = {stream: Lines(self._allowance) for stream in STREAMS.values()}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, pieces: Sequence[tuple[str, bytes]]) -> None:
        """Deliver them, and come back when there may be more."""
        look, now = self._look(), self._loop.time()
        for stream, data in pieces:
            # Each piece is some work, however short it is.
            self._allowance.looked()
            self._give(stream, self._lines[stream].feed(data, now, look))
        if self._timer is None and any(lines.owes for lines in self._lines.values()):
            self._timer = self._loop.call_at(self._allowance.ends_at, self._second_is_over)
        if self._allowance.is_used_up:
            await asyncio.sleep(self._allowance.ends_at - self._loop.time())

    def _second_is_over(self) -> None:
        self._timer = None
        for stream, lines in self._lines.items():
            self._give(stream, lines.due(self._loop.time()))

    def _give(self, stream: str, lines: list[str]) -> None:
        for line in lines:
            self._deliver(stream, line)

    def close(self) -> None:
        """Deliver what is left: nothing more comes."""
        for stream, lines in self._lines.items():
            self._give(stream, lines.end(self._loop.time(), self._look()))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

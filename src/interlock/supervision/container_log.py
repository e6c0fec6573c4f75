"""The log of a container: parse what an engine sends, resume where it broke off, cut it into lines."""

import asyncio
from datetime import datetime

import aiohttp

MOST_BYTES = 32 * 2**20  # of one piece


async def read_piece(log: aiohttp.StreamReader | asyncio.StreamReader) -> tuple[int, bytes] | None:
    """Return the next piece of a log with the number of its stream, None at the end. Eight bytes before each piece give
    stream and size; raise `ValueError` if they cannot."""
    try:
        head = await log.readexactly(8)
        size = int.from_bytes(head[4:])
        if head[0] > 3 or any(head[1:4]) or size > MOST_BYTES:
            raise ValueError("the log cannot be read")
        return head[0], await log.readexactly(size)
    except asyncio.IncompleteReadError:
        return None


class LogPlace:
    """The place to resume a log. An engine sends it from a whole second on, and the times of its two streams are not
    quite in order: so it is read again from the second before the latest, and the pieces since then are counted."""

    def __init__(self) -> None:
        self.since = 0  # the second from which to read
        self._latest = 0
        self._seen: dict[int, int] = {}  # pieces of each second since then
        self._again = 0
        self._last = (b"", 0)

    @property
    def reached(self) -> tuple[int, int]:
        """A value that changes whenever more was read."""
        return self._latest, sum(self._seen.values())

    def rewind(self) -> None:
        """Expect the log again from `since` on."""
        self._again = sum(self._seen.values())

    def content_of(self, data: bytes) -> bytes | None:
        """Return what was printed, without the time before it; None if it was seen before."""
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
        # Many lines in a row share it, and parsing it takes longer than all the rest.
        start = time[:19]
        if start != self._last[0]:
            self._last = (start, int(datetime.fromisoformat(time.decode("ascii")).timestamp()))
        return self._last[1]

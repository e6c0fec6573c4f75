"""Log lines that a worker keeps for a scheduler that is away, or may not have stored them."""

from collections import deque
from collections.abc import Container

from interlock.wire.message import CHUNKS, LogLine

MOST = 8 * 1024 * 1024  # bytes of log lines, roughly
IN_DOUBT = 2.0  # seconds for which a sent line is kept: a link that breaks loses the messages in it


class KeptLines:
    """Times are of a clock that never goes back. Chunks of a stream are kept until the scheduler answers a later
    heartbeat: then it has stored them. They are bounded for each attempt."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[float, LogLine]] = deque()
        self._lines: deque[tuple[float, LogLine]] = deque()  # each with its time
        self._size = 0

    def keep(self, line: LogLine, now: float, is_linked: bool) -> None:
        """Keep a line while there is room. Lines sent long ago make way, and while there is a link, any earlier one."""
        if line.level == CHUNKS:
            self._chunks.append((now, line))
            return
        size = _size(line)
        if is_linked:
            self.forget(now - IN_DOUBT)
            while self._lines and self._size + size > MOST:
                self._forget_first()
        if self._size + size <= MOST:
            self._lines.append((now, line))
            self._size += size

    def forget(self, before: float) -> None:
        while self._lines and self._lines[0][0] < before:
            self._forget_first()

    def confirm(self, before: float) -> None:
        """Forget the chunks that were sent before a heartbeat of that time, which is answered."""
        while self._chunks and self._chunks[0][0] < before:
            self._chunks.popleft()

    def _forget_first(self) -> None:
        self._size -= _size(self._lines.popleft()[1])

    def again(self, now: float, held: Container[tuple[str, int]]) -> list[LogLine]:
        """Return the lines to repeat over a new link; those of settled attempts are stored."""
        lines = [line for _, line in self._lines if (line.run_id, line.fence) in held]
        self._lines = deque((now, line) for line in lines)
        self._size = sum(map(_size, lines))
        chunks = [line for _, line in self._chunks if (line.run_id, line.fence) in held]
        self._chunks = deque((now, line) for line in chunks)
        return lines + chunks


def _size(line: LogLine) -> int:
    return len(line.text) + 100

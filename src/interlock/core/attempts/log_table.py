"""Logs and progress of live runs, as far as memory has them."""

import msgspec

from interlock.model.facets import ProgressInfo


class Lines(msgspec.Struct):
    """The received log lines of an attempt. A worker that reconnects repeats lines that may not be stored."""

    attempt: int
    mark: int = 0  # every line up to this number has arrived
    beyond: set[int] = set()
    of_key: int = 0  # most lines that may still belong to a private key
    is_cut: bool = False  # whether the stream of the run ends here, because its log is full

    def has(self, number: int) -> bool:
        return number <= self.mark or number in self.beyond

    def add(self, number: int) -> None:
        self.beyond.add(number)
        while self.mark + 1 in self.beyond:
            self.mark += 1
            self.beyond.discard(self.mark)


class Logs(msgspec.Struct):
    progress: dict[str, ProgressInfo] = {}  # live run → its latest progress
    sizes: dict[str, tuple[int, int]] = {}  # run with a log → its lines, and bytes of their text
    lines: dict[str, Lines] = {}
    dropped: int = 0  # lines beyond the limits

"""Everything that is wrong with a set of files, told at once and each on a line of its own."""

import msgspec

from interlock.model.error import BadConfig

MOST_LINES = 200


class Spot(msgspec.Struct, frozen=True):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Faults:
    """What was found so far. Those who read go on after a fault, so that a person can mend all of them at once."""

    def __init__(self) -> None:
        self._found: list[tuple[str, float, str]] = []
        self.incomplete = False
        """whether something could not be read at all: what seems to be missing may have been there"""

    def add(self, spot: Spot, text: str) -> None:
        self._found.append((spot.file, spot.line, f"{spot}: {text}"))

    def add_unread(self, file: str, message: str) -> None:
        """The rest of a file, or all of it, could not be read; the message says where."""
        self.incomplete = True
        self._found.append((file, float("inf"), message))

    def __len__(self) -> int:
        return len(self._found)

    def check(self) -> None:
        """Raise one error for all of them; a single one is its message, several are told below a line of their own."""
        lines = [" ".join(text.splitlines()) for _, _, text in sorted(self._found, key=lambda one: one[:2])]
        if len(lines) == 1:
            raise BadConfig(lines[0])
        if lines:
            files = len({file for file, _, _ in self._found})
            first = f"{len(lines)} faults in {files} file{'s' * (files > 1)}"
            rest = [f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
            raise BadConfig("\n".join([first, *lines[:MOST_LINES], *rest]))

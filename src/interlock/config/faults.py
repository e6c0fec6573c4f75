"""All faults of a set of files, reported together, one line each."""

import msgspec

from interlock.error import BadConfig

MOST_LINES = 200


class Spot(msgspec.Struct, frozen=True):
    """The place of a declaration: a line of a file, or without a line, any other place."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def says(self, text: str) -> str:
        return f"{self}: {text}" if self.file else text


class Faults:
    """The faults found so far. Readers continue after a fault, so that a person can fix all of them at once."""

    def __init__(self, strict: bool = False, with_env: bool = True) -> None:
        """In strict mode a warning is a fault. With `with_env`, so is an unset variable that a hook names."""
        self.with_env = with_env
        self._found: list[tuple[str, float, str]] = []
        self._strict = strict
        self.warnings: list[str] = []
        self.incomplete = False  # whether something could not be read: a missing declaration may be in it

    def add(self, spot: Spot, text: str) -> None:
        self._found.append((spot.file, spot.line, spot.says(text)))

    def add_unread(self, file: str, message: str) -> None:
        """Record that a file, or the rest of it, could not be read; the message says where."""
        self.incomplete = True
        self._found.append((file, float("inf"), message))

    def warn(self, spot: Spot, text: str) -> None:
        """Record a warning: accepted, but possibly a mistake."""
        if self._strict:
            self.add(spot, text)
        else:
            self.warnings.append(_on_one_line(spot.says(text)))

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """Return all faults, in the order of the files."""
        return [_on_one_line(text) for _, _, text in sorted(self._found, key=lambda one: one[:2])]

    def check(self, most: int = MOST_LINES) -> None:
        """Raise one error for all faults: a single message, or a count and up to `most` messages below it."""
        lines = self.lines()
        if len(lines) == 1:
            raise BadConfig(lines[0])
        if lines:
            files = len({file for file, _, _ in self._found if file})
            where = f" in {files} file{'s' * (files > 1)}" if files else ""
            rest = [f"… and {len(lines) - most} more"] if len(lines) > most else []
            raise BadConfig("\n".join([f"{len(lines)} faults{where}", *lines[:most], *rest]))


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())

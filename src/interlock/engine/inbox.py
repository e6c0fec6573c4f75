"""Commands that wait for the next pass. Those of workers precede submits, so that a flood of new work does not make
running work look silent."""

from collections.abc import Sequence

from interlock.core.step import Command
from interlock.model.command import Answered, Create
from interlock.model.message import Started


def _weight(content: object) -> int:
    """Return the share of a pass that a command takes. A start takes none: it often shares a row with its end."""
    return len(content.runs) if type(content) is Create else 0 if type(content) is Started else 1


def _fit(commands: Sequence[Command], most: int) -> tuple[int, int]:
    """Return the number of these commands that one pass takes, and their weight."""
    weight = 0
    for count, (_, content) in enumerate(commands):
        if weight >= most:
            return count, weight
        weight += _weight(content)
    return len(commands), weight


class Inbox:
    def __init__(self) -> None:
        self.answers: list[Command] = []  # answers to effects; their own pass rarely needs a commit
        self._first: list[Command] = []
        self._first_weight = 0
        self._submits: list[Command] = []
        self.runs = 0  # runs in the submits
        self.bytes = 0  # size of their payloads

    def __bool__(self) -> bool:
        return bool(self._first or self._submits or self.answers)

    @property
    def weight(self) -> int:
        return self._first_weight + self.runs

    def add(self, origin: str, content: object) -> None:
        if type(content) is Create:
            self._submits.append((origin, content))
            self.runs += len(content.runs)
            self.bytes += content.size
        elif type(content) is Answered:
            self.answers.append((origin, content))
        else:
            self._first.append((origin, content))
            self._first_weight += _weight(content)

    def put_first(self, content: object) -> None:
        """Add a command before all waiting ones."""
        self._first.insert(0, ("", content))
        self._first_weight += _weight(content)

    def add_all(self, commands: Sequence[Command]) -> None:
        """Add commands of a worker that belong together."""
        self._first.extend(commands)
        self._first_weight += sum(type(content) is not Started for _, content in commands)

    def take(self, most: int) -> list[Command]:
        """Remove and return the commands of one pass: answers, or as many as one commit should carry."""
        if self.answers:
            answers, self.answers = self.answers, []
            return answers
        if self.weight <= most:
            taken = [*self._first, *self._submits] if self._submits else self._first
            self._first, self._first_weight = [], 0
            self._submits, self.runs, self.bytes = [], 0, 0
            return taken
        count, weight = _fit(self._first, most)
        taken, self._first = self._first[:count], self._first[count:]
        self._first_weight -= weight
        # Submits always get a share, even under a flood of messages from workers.
        count, runs = _fit(self._submits, max(most - weight, most // 4))
        submits, self._submits = self._submits[:count], self._submits[count:]
        self.runs -= runs
        self.bytes -= sum(create.size for _, create in submits)
        return taken + submits

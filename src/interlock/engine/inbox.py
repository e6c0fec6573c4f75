"""The commands that wait for the next pass. Those of workers go before submits, so that a flood of new work does not
make running work look silent."""

from collections.abc import Sequence

from interlock.core.step import Command
from interlock.model.command import Answered, Create
from interlock.model.message import Started


def _weight(content: object) -> int:
    """Return how much of a pass a command takes. A start takes nothing: it often shares a row with its end."""
    return 0 if type(content) is Started else 1


class Inbox:
    def __init__(self) -> None:
        self.answers: list[Command] = []
        """answers to effects; they have a pass of their own, which rarely needs a commit"""
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
        """Add a command before all that wait."""
        self._first.insert(0, ("", content))
        self._first_weight += _weight(content)

    def add_all(self, commands: Sequence[Command]) -> None:
        """Add commands of a worker that belong together."""
        self._first.extend(commands)
        self._first_weight += sum(type(content) is not Started for _, content in commands)

    def take(self, most: int) -> list[Command]:
        """Remove and return the commands of one pass: answers, or as much as one commit should carry."""
        if self.answers:
            answers, self.answers = self.answers, []
            return answers
        if self.weight <= most:
            taken = [*self._first, *self._submits] if self._submits else self._first
            self._first, self._first_weight = [], 0
            self._submits, self.runs, self.bytes = [], 0, 0
            return taken
        taken, weight = self._take_first(most)
        # Submits always get a share, however many messages the workers send.
        return taken + self._take_submits(max(most - weight, most // 4))

    def _take_first(self, most: int) -> tuple[list[Command], int]:
        weight, limit = 0, 0
        while limit < len(self._first) and weight < most:
            weight += _weight(self._first[limit][1])
            limit += 1
        taken, self._first = self._first[:limit], self._first[limit:]
        self._first_weight -= weight
        return taken, weight

    def _take_submits(self, most: int) -> list[Command]:
        runs, limit = 0, 0
        while limit < len(self._submits) and runs < most:
            create = self._submits[limit][1]
            runs += len(create.runs)
            self.bytes -= create.size
            limit += 1
        taken, self._submits = self._submits[:limit], self._submits[limit:]
        self.runs -= runs
        return taken

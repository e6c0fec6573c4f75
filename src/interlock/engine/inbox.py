"""Commands that wait for the next pass. Those of workers precede submits, so that a flood of new work does not make
running work look silent. Submits of several tenants take turns, so that a tenant's flood does not delay the others.
The loop waits here too."""

import asyncio
from collections import deque
from collections.abc import Sequence

from interlock.core.step import Command
from interlock.ports.clock import Clock
from interlock.wire.command import Answered, Create
from interlock.wire.message import Started

MOST_WAITING = 20_000  # runs and messages that may wait for a pass before clients must wait
MOST_OF_ONE = 4000  # runs of one client that may wait before it must, so that it does not keep the loop busy
MOST_BYTES = 64 * 1024 * 1024  # bytes of payloads that may wait likewise


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
        self._waiter: asyncio.Future[None] | None = None
        self._empty()

    def _empty(self) -> None:
        self.answers: list[Command] = []  # answers to effects; their own pass rarely needs a commit
        self._first: list[Command] = []
        self._first_weight = 0
        self._submits: dict[str, deque[tuple[str, Create]]] = {}  # tenant → its submits; the next in turn is first
        self.runs = 0  # runs in the submits
        self.runs_of: dict[str, int] = {}  # client → those in its submits
        self.bytes = 0  # size of their payloads
        self._had_large = False  # whether the latest pass took a large submit

    def __bool__(self) -> bool:
        return bool(self._first or self._submits or self.answers)

    @property
    def weight(self) -> int:
        return self._first_weight + self.runs

    def post(self, origin: str, content: object) -> None:
        """Add a command to the next pass."""
        if type(content) is Create:
            self._submits.setdefault(content.runs[0].tenant, deque()).append((origin, content))
            self._count(origin, len(content.runs), content.size)
        elif type(content) is Answered:
            self.answers.append((origin, content))
        else:
            self._first.append((origin, content))
            self._first_weight += _weight(content)
        self.wake()

    def put_first(self, content: object) -> None:
        """Add a command before all waiting ones."""
        self._first.insert(0, ("", content))
        self._first_weight += _weight(content)

    def post_all(self, commands: Sequence[Command]) -> None:
        """Add commands of a worker that belong together."""
        self._first.extend(commands)
        self._first_weight += sum(type(content) is not Started for _, content in commands)
        self.wake()

    def is_behind(self, name: str, share: float = 1.0) -> bool:
        """Return whether all waiting commands, or those of one client, exceed this share of a limit; then the client
        has to wait."""
        own = self.runs_of.get(name, 0)
        return own > MOST_OF_ONE * share or self.weight > MOST_WAITING * share or self.bytes > MOST_BYTES * share

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float, clock: Clock) -> None:
        """Sleep until a command arrives, or something else wakes."""
        self._waiter = asyncio.get_running_loop().create_future()
        forget = clock.wake_after(seconds, self.wake)
        try:
            await self._waiter
        finally:
            forget()
            self._waiter = None

    def take(self, most: int) -> list[Command]:
        """Remove and return the commands of one pass: answers, or as many as one commit should carry."""
        if self.answers:
            answers, self.answers = self.answers, []
            return answers
        count, weight = _fit(self._first, most)
        taken, self._first = self._first[:count], self._first[count:]
        self._first_weight -= weight
        # Submits always get a share, even under a flood of messages from workers.
        share = max(most // 2 - weight, most // 4, 1)
        # A pass after a large submit is short if a little else waits, because that has waited for long already.
        has_others = (len(taken) > 0 and weight <= most // 8) or len(self._submits) > 1
        rests, self._had_large = self._had_large and has_others, False
        resting = {}
        while self._submits and share > 0:
            tenant = next(iter(self._submits))
            waiting = self._submits.pop(tenant)
            is_large = len(waiting[0][1].runs) > most // 8
            if is_large and rests:
                resting[tenant] = waiting
                continue
            origin, create = waiting.popleft()
            if waiting:
                self._submits[tenant] = waiting
            taken.append((origin, create))
            share -= len(create.runs)
            self._count(origin, -len(create.runs), -create.size)
            self._had_large = self._had_large or is_large
        self._submits |= resting
        return taken

    def clear(self) -> list[Command]:
        """Remove and return all commands, because no pass will take them."""
        submits: list[Command] = [submit for waiting in self._submits.values() for submit in waiting]
        commands = [*self.answers, *self._first, *submits]
        self._empty()
        return commands

    def _count(self, origin: str, runs: int, size: int) -> None:
        self.runs += runs
        self.bytes += size
        left = self.runs_of[origin] = self.runs_of.get(origin, 0) + runs
        if not left:
            del self.runs_of[origin]

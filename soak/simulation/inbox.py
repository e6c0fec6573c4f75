"""An inbox to which the answers of effects come late, twice, at the next scheduler, or never."""

from collections.abc import Callable, Sequence
from contextvars import Context
from random import Random

import msgspec

from interlock.core.step import Command
from interlock.engine.inbox import Inbox
from interlock.wire.command import Answered
from soak.simulation.loop import VirtualLoop
from soak.simulation.trace import Trace


class AnswerFaults(msgspec.Struct):
    lose: float = 0.0  # how often an answer is lost
    repeat: float = 0.0
    delay: float = 0.0  # how often it is late, or comes once more later
    longest_delay: float = 8.0


class FaultyInbox(Inbox):
    def __init__(
        self,
        deliver: Callable[[Answered], None],
        loop: VirtualLoop,
        rng: Random,
        faults: AnswerFaults,
        trace: Trace,
    ) -> None:
        """`deliver` brings an answer to whichever scheduler there is by then."""
        super().__init__()
        self._deliver = deliver
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._trace = trace
        self.change: Callable[[Sequence[Command]], Sequence[Command]] = lambda commands: commands
        """what a sabotaged engine makes of the messages of workers"""

    def post(self, origin: str, content: object) -> None:
        if isinstance(content, Answered):
            self._answer(content)
        else:
            super().post(origin, content)

    def post_all(self, commands: Sequence[Command]) -> None:
        super().post_all(self.change(commands))

    def arrive(self, answered: Answered) -> None:
        super().post("", answered)

    def _answer(self, answered: Answered) -> None:
        rng, faults = self._rng, self._faults
        if rng.random() < faults.lose:
            self._trace.add("fault: answers are lost")
            return
        for _ in range(1 + (rng.random() < faults.repeat)):
            late = rng.random() < faults.delay
            # Outside of every process: what is on its way outlives the scheduler that asked.
            seconds = rng.uniform(0, faults.longest_delay) if late else 0.0
            self._loop.call_later(seconds, self._deliver, answered, context=Context())

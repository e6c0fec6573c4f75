"""Effects whose answers come late, twice, to the next scheduler, or never."""

from collections.abc import Callable
from contextvars import Context
from random import Random

import msgspec

from interlock.engine.effects import Answers, Effects
from interlock.ports.store import Store
from interlock.wire.effect import CallHook
from soak.simulation.loop import VirtualLoop
from soak.simulation.trace import Trace


class AnswerFaults(msgspec.Struct):
    lose: float = 0.0  # how often an answer is lost
    repeat: float = 0.0
    delay: float = 0.0  # how often it is late, or comes once more later
    longest_delay: float = 8.0


class FaultyEffects(Effects):
    def __init__(
        self,
        store: Store,
        deliver: Callable[[Answers], None],
        loop: VirtualLoop,
        rng: Random,
        faults: AnswerFaults,
        trace: Trace,
        call_hook: Callable[[CallHook], None],
    ) -> None:
        super().__init__(store, lambda origin, content: None, call_hook)
        self._deliver = deliver
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._trace = trace

    def answer(self, answers: Answers) -> None:
        rng, faults = self._rng, self._faults
        if rng.random() < faults.lose:
            self._trace.add("fault: answers are lost")
            return
        for _ in range(1 + (rng.random() < faults.repeat)):
            late = rng.random() < faults.delay
            # Outside of every process: what is on its way outlives the scheduler that asked.
            seconds = rng.uniform(0, faults.longest_delay) if late else 0.0
            self._loop.call_later(seconds, self._deliver, answers, context=Context())

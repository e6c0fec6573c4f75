"""An engine that disregards what a failed attempt says of itself."""

from collections.abc import Sequence

from msgspec.structs import replace

from interlock.core.step import Command
from interlock.engine.engine import Engine
from interlock.wire.message import Finished
from soak.simulation.executor import FAILURES, LATER, WRONG
from soak.simulation.scenario import Sabotage


class HeedlessEngine(Engine):
    sabotage = Sabotage()

    def changed(self, commands: Sequence[Command]) -> Sequence[Command]:
        return [(origin, self._changed(content)) for origin, content in commands]

    def _changed(self, content: object) -> object:
        if isinstance(content, Finished) and content.failure is not None:
            ignored = LATER if self.sabotage.engine_ignores_delays else WRONG
            if content.failure == FAILURES[ignored]:
                return replace(content, failure=FAILURES["fail"])
        return content

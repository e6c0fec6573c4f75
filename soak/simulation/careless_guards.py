"""An engine that is careless about constraints and hooks."""

from typing import Any

import msgspec

from interlock.core.attempts.settle import CANCEL
from interlock.core.guards.job_guard import Guards
from interlock.engine.engine import Engine
from interlock.wire.command import Answered
from interlock.wire.effect import CallHook
from soak.simulation.scenario import Sabotage


class CarelessGuards(Engine):
    """Forgets who holds a place, or starts a run before those that it kills have ended, or repeats a request under
    another id, or takes hooks for answered."""

    sabotage = Sabotage()
    calls = 0

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        call = self.sender.call

        def rename(effect: CallHook) -> None:
            self.calls += 1
            call(msgspec.structs.replace(effect, id=f"{effect.id}-{self.calls}"))

        if self.sabotage.engine_renames_requests:
            self.sender.call = rename  # type: ignore[method-assign] # on purpose
        elif self.sabotage.engine_skips_hooks:
            self.sender.call = self._skip  # type: ignore[method-assign] # as above
        self.effects._call_hook = self.sender.call

    def _skip(self, effect: CallHook) -> None:
        self.inbox.post("", Answered([(effect, (200, ""))]))

    async def start(self) -> None:
        await super().start()
        if self.sabotage.engine_forgets_places:
            for guard in self.state.of(Guards).values():
                guard.holding.clear()

    async def _pass(self) -> None:
        if self.sabotage.engine_kills_hastily:
            for guard in self.state.of(Guards).values():
                for run in [one for one in guard.holding.values() if one.stop == CANCEL]:
                    guard.drop(run)
                    self.state.timers.unsettled += guard.pending
        await super()._pass()

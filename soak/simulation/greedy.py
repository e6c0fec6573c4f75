"""An engine that gives more than its lanes, rates and limits allow."""

from collections.abc import Sequence

from interlock.core.lanes.gate import RATE, LimitGate
from interlock.core.step import Command
from interlock.engine.engine import Engine
from interlock.model.run import Run
from interlock.wire.message import Finished, Started
from soak.simulation.scenario import LANES, Sabotage


class _Lenient(dict[str, Run]):
    def __delitem__(self, run_id: str) -> None:
        self.pop(run_id, None)


class GreedyEngine(Engine):
    sabotage = Sabotage()

    async def start(self) -> None:
        await super().start()
        if self.sabotage.engine_forgets_rates:
            for name in [name for name in self.state.gates if name.startswith(RATE)]:
                del self.state.gates[name]

    def changed(self, commands: Sequence[Command]) -> Sequence[Command]:
        for lane in self.state.lanes.values():
            if self.sabotage.engine_ignores_age:
                lane.starts = 0
            if self.sabotage.engine_keeps_limits:
                lane.limit = max(lane.limit, LANES.get(lane.name, 1))
        for _, content in commands:
            if self.sabotage.engine_opens_early and isinstance(content, Started):
                for gate in self.state.gates.values():
                    if isinstance(gate, LimitGate) and content.run_id in gate.holders:
                        gate.holders.discard(content.run_id)
                        self.state.gates.open[gate.name] = gate
            if self.sabotage.engine_frees_twice and isinstance(content, Finished):
                self._free_another(content.run_id)
        return commands

    def _free_another(self, run_id: str) -> None:
        for lane in self.state.lanes.values():
            if run_id in lane.holding and len(lane.holding) > 1:
                lane.holding = _Lenient(lane.holding)
                del lane.holding[next(run for run in lane.holding if run != run_id)]

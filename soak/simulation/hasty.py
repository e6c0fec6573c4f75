"""An engine that does not wait where a workflow has to."""

from msgspec.structs import replace

from interlock.core.workflows.flow import Flows
from interlock.engine.engine import Engine
from interlock.model.state import State
from soak.simulation.scenario import Sabotage


class HastyEngine(Engine):
    """Takes a workflow for a new one after a start, or ends it while its steps still stop, or starts one item too many,
    or wakes sleepers early."""

    sabotage = Sabotage()

    async def start(self) -> None:
        await super().start()
        if self.sabotage.flow_forgets_record:
            for flow in self.state.of(Flows).values():
                flow.is_known = True

    async def _pass(self) -> None:
        for flow in self.state.of(Flows).values():
            if self.sabotage.flow_ends_early and flow.run.closing is not None:
                flow.live.clear()
            if self.sabotage.flow_widens_window and flow.step is not None:
                flow.step = replace(flow.step, max_parallel=3)
        if self.sabotage.flow_wakes_early:
            asleep = {run.id for run in self.state.runs.values() if run.state is State.UNDER_WAY}
            spans = self.state.timers.spans
            self.state.timers.spans = [(span[0] - 0.2 * (span[2] in asleep), *span[1:]) for span in spans]
        await super()._pass()

"""An engine that does not wait where a workflow has to."""

from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from interlock.core.facts import Facts
from interlock.core.state import SchedulerState
from interlock.core.step import Command
from interlock.core.workflows.flow import Flow, Flows, graph_of
from interlock.engine.engine import Decide, Engine
from interlock.model.run import Now
from interlock.model.state import State
from interlock.wire.message import Finished
from soak.simulation.scenario import Sabotage


def _without_first(decide: Decide) -> Decide:
    def decide_without(state: SchedulerState, commands: Sequence[Command], now: Now, rng: Random, facts: Facts) -> Any:
        for steps in facts.steps.values():
            del (steps or [])[:1]
        return decide(state, commands, now, rng, facts)

    return decide_without


class HastyEngine(Engine):
    """Takes a workflow for a new one after a start, or ends it, or a parallel step, while its steps still stop, or
    starts one item too many,
    or wakes sleepers early, or undoes the oldest step first, or loses events, or takes any turn for the
    one that counts, or does not take over the first step of a run that begins with another."""

    sabotage = Sabotage()

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self._turned: set[str] = set()  # workflows whose sagas are turned round
        if self.sabotage.saga_loses_taken_over:
            self._decide = _without_first(self._decide)

    def changed(self, commands: Sequence[Command]) -> Sequence[Command]:
        return [self._without_fence(*command) for command in commands]

    def _without_fence(self, origin: str, content: object) -> Command:
        run = self.state.runs.get(getattr(content, "run_id", ""))
        if not self.sabotage.saga_takes_stale_turns or run is None or not isinstance(content, Finished):
            return origin, content
        is_turn = run.state is State.UNDER_WAY and run.worker_id is not None
        return (str(run.worker_id), replace(content, fence=run.fence)) if is_turn else (origin, content)

    async def start(self) -> None:
        await super().start()
        if self.sabotage.flow_forgets_record:
            for flow in self.state.of(Flows).values():
                flow.is_known = True

    async def _pass(self) -> None:
        for flow in self.state.of(Flows).values():
            if self.sabotage.flow_ends_early and flow.run.closing is not None:
                flow.live.clear()
            if self.sabotage.flow_leaves_siblings and flow.step is None and not flow.is_code:
                self._leave_siblings(flow)
            if self.sabotage.saga_undoes_oldest_first and flow.saga and flow.run.id not in self._turned:
                self._turned.add(flow.run.id)
                flow.saga.reverse()
            if self.sabotage.saga_drops_early_events:
                early = [name for name in flow.ended if name.startswith("event.") and name not in flow.waits.values()]
                for name in early:
                    del flow.ended[name]
            if self.sabotage.flow_widens_window and flow.step is not None:
                flow.step = replace(flow.step, max_parallel=3)
        if self.sabotage.flow_wakes_early:
            asleep = {run.id for run in self.state.runs.values() if run.state is State.UNDER_WAY}
            spans = self.state.timers.spans
            self.state.timers.spans = [(span[0] - 0.2 * (span[2] in asleep), *span[1:]) for span in spans]
        await super()._pass()

    def _leave_siblings(self, flow: Flow) -> None:
        for name, part in graph_of(self.state, flow).parts.items():
            run = self.state.runs.get(flow.id_of(name))
            for step in flow.live_in(part) if run is not None and run.closing is not None else ():
                del flow.live[step]
